"""Start the host agent: `python3 -u -m squall.nemesis.agent --state STATE`.

In a bundle this file is `agent/agent.py`, beside the directory `squall`.
"""

import sys

from squall.nemesis.agent.agent import main

raise SystemExit(main(sys.argv[1:]))
