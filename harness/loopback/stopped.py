"""Whether a process that was sent SIGSTOP has stopped: its main thread may stop before others do."""

from __future__ import annotations

from pathlib import Path


def is_stopped(pid: int) -> bool:
    """Return whether every thread of the process is stopped, as the kernel says."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    states = [one.read_text().rpartition(")")[2].split()[0] for one in threads]
    return bool(states) and all(state == "T" for state in states)
