"""Compute send latencies over a whole run, for the end of the load, verdict and report.

For every acknowledged send, the time from when it was *due* to its acknowledgement counts, so that a send that had to
wait while the system stood still includes that wait (no coordinated omission). A send of unknown outcome, or one that
was refused, has no such time: it is counted as `without`, and the quantiles are those of the others. A send that was
never begun before the load ended is in no history, and in neither number.

Quantiles are read off a histogram of classes one per cent wide (`checkers/kernels/series.py`) and are the upper ends of
their classes: at most one per cent too high and never too low.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from squall.results.checkers.common.tally import Tally
from squall.results.checkers.common.text import SHARES, quantile_words, several
from squall.results.checkers.kernels.series import bucket_and_class, class_nanoseconds
from squall.results.checkers.log.result import PartitionResult


class SendLatency(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies of all acknowledged sends of a run, in ns from when each was due; and how many sends have none."""

    acknowledged: int
    without: int
    p50_ns: int
    p99_ns: int
    p999_ns: int
    longest_ns: int

    @property
    def text(self) -> str:
        """`p50 2.31 ms · p99 121 ms · p99.9 1.32 s`"""
        return quantile_words(self.p50_ns, self.p99_ns, self.p999_ns)

    @property
    def told(self) -> str:
        """What it measures, and its quantiles."""
        missing = f"; {several(self.without, 'send')} without an acknowledgement not counted" if self.without else ""
        return f"latency, whole run: {self.text} ({several(self.acknowledged, 'acknowledged send')}{missing})"


def send_latency(latencies: Tally, results: Sequence[PartitionResult]) -> SendLatency | None:
    """Compute latencies from the counts by bucket and class; None if nothing was acknowledged."""
    keys, counts = latencies.arrays
    histogram: Counter[int] = Counter()
    for number, count in zip(bucket_and_class(keys)[1].tolist(), counts.tolist(), strict=True):
        histogram[number] += count
    if not histogram:
        return None
    p50, p99, p999, longest = (quantile(histogram, share) for share in (*SHARES.values(), 1.0))
    return SendLatency(
        acknowledged=histogram.total(),
        without=sum(one.operations.get(f"send.{kind}", 0) for one in results for kind in ("info", "fail")),
        p50_ns=p50,
        p99_ns=p99,
        p999_ns=p999,
        longest_ns=longest,
    )


def quantile(histogram: Counter[int], share: float) -> int:
    """The nanoseconds that this share of all latencies does not exceed."""
    wanted, below = share * histogram.total(), 0
    for number in sorted(histogram):
        below += histogram[number]
        if below >= wanted:
            break
    return int(class_nanoseconds(number))
