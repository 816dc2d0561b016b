"""Start processes that simulate seeds, each with a fresh interpreter, like a single seed; they end with their parent.

A pool's processes wait for work on a queue whose writing end they also hold. If the process that owns the pool is
killed, the queue never ends, and they would wait forever. So each watches its parent.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process


def pool_of_workers(processes: int) -> ProcessPoolExecutor:
    """A pool of `processes` that do not outlive this one, however it ends."""
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_await_end_of_parent, name="parent-watch", daemon=True).start()


def end_at_once(pool: ProcessPoolExecutor) -> None:
    """End the processes of a pool at once, even busy ones: their results are not needed.

    Cancel none of its futures before: a pool whose processes have ended fails at a cancelled one (Python 3.11).
    """
    processes = getattr(pool, "_processes", None) or {}  # Executor.shutdown waits for running work
    for process in list(processes.values()):
        process.terminate()


def _await_end_of_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
