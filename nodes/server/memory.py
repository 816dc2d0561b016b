"""The process's memory: the collector runs seldom, and megabytes that were freed are kept for the next frame.

A busy broker takes and frees a buffer of a megabyte for every batch, several times. glibc gives such buffers back to
the kernel as soon as they are free, by default, and the kernel clears every page when it hands it out again: a quarter
of a broker's processor time under load (docs/performance.md). With the thresholds below the same pages serve frame
after frame; what is kept in reserve is bounded by `KEPT`. Other C libraries, or a Python without ctypes, are left as
they are.

A metadata image of two million topic-partitions is millions of objects, and one full pass of the collector over them
stops the node for half a second. They hold no cycles. So what survives a full pass that took long is never walked
again: a load, or many topics created, costs one long pass and then no more. And while many records are replayed, as
when a broker leaves a large cluster, what they leave is set apart before even a first pass: one over a hundred thousand
registrations and the tables that hold them took 100 ms, in the midst of the work. For the same reason first passes are
rare: a broker that takes over thousands of topic-partitions makes some hundred thousand objects in a moment, most of
them in the place of older ones, and each pass over them stood in the way of all its clients. Objects that nobody refers
to any more are freed all the same; only a cycle among what was there at such a moment would stay.
"""

from __future__ import annotations

import gc
import importlib
import time

KEPT = 32 << 20
"""Bytes kept at most; also the largest that glibc allows for `M_MMAP_THRESHOLD`."""
GROWTH = 4 << 20
LONG_PASS_S = 0.02
YOUNG_OBJECTS = 300_000
"""How many more there are than at the last pass before a first pass is due."""
REPLAYED_RECORDS = 5_000
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def tune_memory() -> None:
    """To be called once the node's lasting objects are there."""
    tune_collector()
    keep_freed_buffers()


def tune_collector() -> None:
    """Requests make no cycles worth speaking of; collect seldom, and never walk what was there at the start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
    gc.callbacks.append(FreezeAfterLongPass())


class FreezeAfterLongPass:
    """Told by the collector of the begin and end of each pass."""

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
    """Told how far the metadata log is replayed, after each turn of the node."""

    def __init__(self, records: int = REPLAYED_RECORDS) -> None:
        self._records = records
        self._frozen_at = 0

    def __call__(self, offset: int) -> None:
        """Of the last record. What the records since the last time have left is not walked over."""
        if offset >= self._frozen_at + self._records:
            self._frozen_at = offset
            gc.freeze()


def keep_freed_buffers() -> bool:
    """Tell the allocator; whether it understood."""
    try:
        mallopt = importlib.import_module("ctypes").CDLL(None).mallopt
    except (ImportError, OSError, AttributeError):
        return False
    settings = ((_M_MMAP_THRESHOLD, KEPT), (_M_TRIM_THRESHOLD, KEPT), (_M_TOP_PAD, GROWTH))
    understood = [mallopt(option, value) == 1 for option, value in settings]
    return all(understood)
