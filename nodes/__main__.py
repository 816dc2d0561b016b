"""`python -m squall.nodes`: see `squall.nodes.server.main`."""

import sys

from squall.nodes.server.main import main

if __name__ == "__main__":
    sys.exit(main())
