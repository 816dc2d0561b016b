"""Rules of availability that a scenario states: judged from what was acknowledged when (P06, P14)."""

from __future__ import annotations

import msgspec
import pytest

from squall.results.checkers.log.result import FinalReadFacts, PartitionResult
from squall.results.history.manifest import RateRule, Required
from squall.results.history.segments import ClusterObservation
from squall.results.verdict.required import Load, judged_requirements, windows_of

SECOND = 10**9
RATE = Required(rate=RateRule(during=(10.0, 70.0), at_least=0.9, compared_with=(0.0, 10.0)))
WATCHED = Load(0, 100 * 10**9, [("events", 0)], [(-1, 100 * 10**9)])
SILENCE = Required(silence=(71.0, 129.0))
GAP = Required(longest_gap=1.0)


def part(*within: int, gap_s: float = 0.0, acknowledged: int = 100, number: int = 0) -> PartitionResult:
    final = FinalReadFacts(complete=True, records=0, end=0, marker_offset=-1)
    return PartitionResult(
        run=0, topic="events", partition=number, operations={}, acknowledged=acknowledged, records=0, anomalies={},
        noted={}, witnesses=(), final=final, acknowledged_sends=acknowledged,
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


def seen(kind: str, epoch: int, *nodes: str) -> ClusterObservation:
    return ClusterObservation(time=0, kind=kind, node="b1", topic="events", partition=0, epoch=epoch, nodes=nodes)  # type: ignore[arg-type]


def test_elections_are_counted_by_epoch() -> None:
    """P19: at most one besides the controller that was active to begin with."""
    once = [seen("controller", 5), seen("controller", 7), seen("controller", 7)]
    twice = [*once, seen("controller", 9)]
    required = Required(elections=1)
    assert [holds for _, holds in judged_requirements(required, [part()], once, WATCHED)] == [True]
    assert [holds for _, holds in judged_requirements(required, [part()], twice, WATCHED)] == [False]
    assert [holds for _, holds in judged_requirements(required, [part()], once[:1], WATCHED)] == [True]


def test_where_nobody_saw_a_controller_nobody_can_tell_how_many_there_were() -> None:
    ((words, holds),) = judged_requirements(Required(elections=0), [part()])
    assert holds is None and "none was ever seen" in words


def test_calm_is_no_other_leader_and_no_smaller_isr() -> None:
    """P12: what is seen first is no change, nor is an ISR that grows."""

    def holds(*cluster: ClusterObservation) -> bool | None:
        ((_, judged),) = judged_requirements(Required(calm=True), [part()], cluster, WATCHED)
        return judged

    first = (seen("leader", 3), seen("in_sync", 0, "b1", "b2"))
    assert holds(*first, seen("in_sync", 0, "b1", "b2", "b3")) is True
    assert holds(*first, seen("leader", 4)) is False
    assert holds(*first, seen("in_sync", 0, "b1")) is False


def test_calm_is_unknown_for_a_topic_partition_that_nobody_saw() -> None:
    leader, in_sync = seen("leader", 3), seen("in_sync", 0, "b1", "b2")
    for cluster in ([], [leader], [in_sync]):
        ((words, holds),) = judged_requirements(Required(calm=True), [part()], cluster, WATCHED)
        assert holds is None and "events-0 was not observed" in words
    ((words, holds),) = judged_requirements(
        Required(calm=True), [part()], [leader, in_sync], Load(topic_partitions=[("events", 0), ("events", 1)])
    )
    assert holds is None and "events-1 was not observed" in words


@pytest.mark.parametrize(
    ("watched", "said"),
    [
        ([], "the cluster was not observed"),
        ([(-SECOND, 85 * SECOND)], "for 15.0 s from 85.0 s on"),
        ([(12 * SECOND, 100 * SECOND)], "for 12.0 s from 0.0 s on"),
        ([(0, 40 * SECOND), (51 * SECOND, 100 * SECOND)], "for 11.0 s from 40.0 s on"),
        ([(-SECOND, -SECOND), (200 * SECOND, 201 * SECOND)], "for 100 s from 0.0 s on"),
    ],
)
def test_that_nothing_happened_nobody_can_tell_who_did_not_look(watched: list[tuple[int, int]], said: str) -> None:
    """P12, P19. What was seen to break a rule breaks it all the same."""
    load = Load(0, 100 * SECOND, [("events", 0)], watched)
    stood = [seen("controller", 1), seen("leader", 3), seen("in_sync", 0, "b1", "b2")]
    both = Required(elections=0, calm=True)
    for words, holds in judged_requirements(both, [part()], stood, load):
        assert holds is None and said in words
    broken = [*stood, seen("controller", 2), seen("leader", 4)]
    assert [holds for _, holds in judged_requirements(both, [part()], broken, load)] == [False, False]


def test_a_look_that_went_unanswered_is_no_blindness() -> None:
    load = Load(0, 100 * SECOND, [("events", 0)], [(8 * SECOND, 40 * SECOND), (47 * SECOND, 95 * SECOND)])
    stood = [seen("leader", 3), seen("in_sync", 0, "b1", "b2")]
    assert [holds for _, holds in judged_requirements(Required(calm=True), [part()], stood, load)] == [True]


def test_silence_after_the_end_of_the_load_proves_nothing() -> None:
    ((words, holds),) = judged_requirements(SILENCE, [part(0)], (), Load(0, 80 * SECOND))
    assert holds is None and "the load ended after 80 s" in words
    assert [holds for _, holds in judged_requirements(SILENCE, [part(0)], (), Load(0, 130 * SECOND))] == [True]


def test_no_gap_can_be_seen_on_a_topic_partition_that_nobody_sent_to() -> None:
    sent = msgspec.structs.replace(part(gap_s=0.5), operations={"send.ok": 100})
    idle = msgspec.structs.replace(part(acknowledged=0, number=1), operations={"marker.ok": 1, "final_poll.ok": 1})
    load = Load(topic_partitions=[("events", 0), ("events", 1)])
    ((words, holds),) = judged_requirements(GAP, [sent, idle], (), load)
    assert holds is None and "no send to events-1" in words
    late = msgspec.structs.replace(sent, longest_outage=2 * SECOND)
    assert [holds for _, holds in judged_requirements(GAP, [late, idle], (), load)] == [False]
    assert [holds for _, holds in judged_requirements(GAP, [sent], (), Load(topic_partitions=[("events", 0)]))] == [
        True
    ]


def test_a_gap_counts_within_its_window_only() -> None:
    """P14: what making ten thousand topic-partitions costs is not the rolling restart's."""
    required = Required(longest_gap=1.0, gap_during=(58.0, 280.0))
    assert windows_of(required) == ((58.0, 280.0),)
    early, late = (
        msgspec.structs.replace(part(0, gap_s=6.0, number=number), longest_gap_within=(round(gap * 1e9),))
        for number, gap in enumerate((0.8, 1.1))
    )
    words, holds = judged(required, early)
    assert holds is True and "from 58 s to 280 s (longest 0.80 s" in words
    assert judged(required, early, late)[1] is False


def test_a_window_in_which_nobody_wanted_to_send_tells_nothing() -> None:
    required = Required(longest_gap=1.0, gap_during=(58.0, 280.0))
    assert judged(required, msgspec.structs.replace(part(0), longest_gap_within=(None,)))[1] is None
