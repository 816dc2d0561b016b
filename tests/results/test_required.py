"""Rules of availability that a scenario states: judged from what was acknowledged when (P06, P14)."""

from __future__ import annotations

from squall.results.checks.result import FinalReadFacts, PartitionResult
from squall.results.manifest import RateRule, Required
from squall.results.required import judged_requirements, windows_of

RATE = Required(rate=RateRule(during=(10.0, 70.0), at_least=0.9, compared_with=(0.0, 10.0)))
SILENCE = Required(silence=(71.0, 129.0))
GAP = Required(longest_gap=1.0)


def part(*within: int, gap_s: float = 0.0, acknowledged: int = 100, number: int = 0) -> PartitionResult:
    final = FinalReadFacts(complete=True, records=0, end=0, marker_offset=-1)
    return PartitionResult(
        run=0, topic="events", partition=number, operations={}, acknowledged=acknowledged, records=0, anomalies={},
        noted={}, witnesses=(), final=final, throughput=[], latencies=[], errors=[], acknowledged_sends=acknowledged,
        longest_outage=round(gap_s * 1e9), longest_outage_start=0, outages=[], lag_p99=0, lag_max=0, milliseconds=0.0,
        acknowledged_within=within,
    )  # fmt: skip


def judged(required: Required, *parts: PartitionResult) -> tuple[str, bool | None]:
    ((words, holds),) = judged_requirements(required, parts)
    return words, holds


def test_windows_are_counted_in_the_order_in_which_they_are_judged() -> None:
    both = Required(rate=RATE.rate, silence=(71.0, 129.0))
    assert windows_of(both) == ((10.0, 70.0), (0.0, 10.0), (71.0, 129.0))
    assert windows_of(Required()) == ()
    assert [holds for _, holds in judged_requirements(both, [part(600, 100, 0)])] == [True, True]
    assert [holds for _, holds in judged_requirements(both, [part(600, 100, 7)])] == [True, False]


def test_a_rate_is_that_of_all_topic_partitions_together() -> None:
    """P06: 60 seconds after 10; nine tenths of 20 per second are 1080 of 1200."""
    assert judged(RATE, part(1080, 100), part(0, 100, number=1))[1] is True
    words, holds = judged(RATE, part(1079, 100), part(0, 100, number=1))
    assert holds is False
    assert "90%" in words and "18.0 per second after 20.0" in words


def test_without_anything_to_compare_with_nobody_can_tell() -> None:
    assert judged(RATE, part(1080, 0))[1] is None


def test_silence_is_broken_by_one_send() -> None:
    assert judged(SILENCE, part(0), part(0, number=1))[1] is True
    words, holds = judged(SILENCE, part(0), part(1, number=1))
    assert holds is False and "1 send was" in words


def test_the_longest_gap_of_any_topic_partition_counts() -> None:
    assert judged(GAP, part(gap_s=0.9), part(gap_s=1.0, number=1))[1] is True
    words, holds = judged(GAP, part(gap_s=0.9), part(gap_s=1.1, number=1))
    assert holds is False and "1.10 s, events-1" in words
    assert judged(GAP, part(acknowledged=0))[1] is None
