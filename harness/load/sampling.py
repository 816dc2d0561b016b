"""On a client host: say what the host and its load workers use. Each line of input is answered by one of JSON.

    python3 -m squall.harness.load.sampling [--shared] [--without-network] WORKER.pid…

The answers are those of an agent's verb `probe.samples`; client hosts have an agent only if faults target them. It ends
with its input, so with the connection, or after `SILENCE_S` seconds without a line: the end of a connection may be lost
on the way.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.processes import Identity, read_stat
from squall.nemesis.agent.probe.host_samples import PROC, machine_use, network_use, process_use

SILENCE_S = 120
"""The control process asks once a second; whole seconds."""
SHARED, WITHOUT_NETWORK = "--shared", "--without-network"


def answer(pid_files: Sequence[Path], *, shared: bool, own_network: bool) -> dict[str, Any]:
    """Return what the host uses, and all load workers together."""
    return {
        "at_s": time.monotonic(),
        "shared": shared,
        "cpus": os.cpu_count(),
        "process": together([use for path in pid_files if (use := process_use(_identity(path))) is not None]),
        "machine": machine_use(),
        "network": network_use((PROC / "net/dev").read_text()) if own_network else None,
    }


def _identity(path: Path) -> Identity | None:
    """Return the process whose id is in a file; None if there is no such file or process."""
    try:
        pid = int(path.read_text())
    except (OSError, ValueError):
        return None
    found = read_stat(pid)
    return None if found is None else Identity(pid, found[1])


def together(uses: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Add up what processes have used; None if there is none. What one of them does not say is null."""
    if not uses:
        return None
    counters = [name for name in uses[0] if name not in ("pid", "started")]
    sums = {name: [one[name] for one in uses] for name in counters}
    return {
        "pid": [one["pid"] for one in uses],
        "started": [one["started"] for one in uses],
        **{name: None if None in some else sum(some) for name, some in sums.items()},
    }


def main(words: Sequence[str]) -> None:
    files = [Path(one) for one in words if not one.startswith("--")]
    signal.alarm(SILENCE_S)
    for _ in sys.stdin:
        signal.alarm(SILENCE_S)
        found = answer(files, shared=SHARED in words, own_network=WITHOUT_NETWORK not in words)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
