"""Tune the process's memory: rare garbage collections, and freed buffers kept for the next frame.

A busy broker allocates and frees a buffer of a megabyte for every batch, several times. By default glibc returns such
buffers to the kernel as soon as they are free, and the kernel clears every page when it hands it out again: a quarter
of a broker's processor time under load (docs/performance.md). With the thresholds below the same pages serve frame
after frame; `KEPT` bounds the reserve. Other C libraries, or a Python without ctypes, are left as they are.

A metadata image of two million topic-partitions is millions of objects, and one full pass of the collector over them
stops the node for half a second. They contain no cycles. So the survivors of a long full pass are frozen and never
walked again: a load, or the creation of many topics, costs one long pass and then no more. While many records are
replayed, as when a broker leaves a large cluster, the resulting objects are frozen before even a first pass: one pass
over a hundred thousand registrations and their tables took 100 ms, in the middle of the work. First passes are rare for
the same reason: a broker that takes over thousands of topic-partitions makes some hundred thousand objects in a moment,
most of them replacing older ones, and each pass over them delayed all its clients. Unreferenced objects are still
freed; only a cycle among frozen objects would stay.
"""

from __future__ import annotations

import gc
import importlib
import time

KEPT = 32 << 20
"""The most bytes kept; also the largest value that glibc allows for `M_MMAP_THRESHOLD`."""
GROWTH = 4 << 20
LONG_PASS_S = 0.02
YOUNG_OBJECTS = 300_000
"""How many new objects since the last pass trigger a first pass."""
REPLAYED_RECORDS = 5_000
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def tune_memory() -> None:
    """Tune collector and allocator. To be called when the node's lasting objects exist."""
    tune_collector()
    keep_freed_buffers()


def tune_collector() -> None:
    """Collect rarely, since requests make next to no cycles, and never walk what existed at the start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
    gc.callbacks.append(FreezeAfterLongPass())


class FreezeAfterLongPass:
    """Called by the collector at the start and end of each pass."""

    def __init__(self, long_pass_s: float = LONG_PASS_S) -> None:
        self._long_pass_s = long_pass_s
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != 2:
            return
        if phase == "start":
            self._began = time.perf_counter()
        elif time.perf_counter() - self._began > self._long_pass_s:
            gc.freeze()


class FreezeReplayed:
    """Called after each turn of the node with the replayed offset of the metadata log."""

    def __init__(self, records: int = REPLAYED_RECORDS) -> None:
        self._records = records
        self._frozen_at = 0

    def __call__(self, offset: int) -> None:
        """`offset` is the last replayed record's. Freezes what the records since the last freeze have left."""
        if offset >= self._frozen_at + self._records:
            self._frozen_at = offset
            gc.freeze()


def keep_freed_buffers() -> bool:
    """Set the allocator's thresholds. Returns whether it accepted them."""
    try:
        mallopt = importlib.import_module("ctypes").CDLL(None).mallopt
    except (ImportError, OSError, AttributeError):
        return False
    settings = ((_M_MMAP_THRESHOLD, KEPT), (_M_TRIM_THRESHOLD, KEPT), (_M_TOP_PAD, GROWTH))
    understood = [mallopt(option, value) == 1 for option, value in settings]
    return all(understood)
