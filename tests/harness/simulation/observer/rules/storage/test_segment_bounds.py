"""DP-18 as the observer asserts it of segments: none is too large or too old, and none begins without a reason."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.storage.segment_bounds import SegmentBounds
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.storage.config import LogConfig

SIZE = len(build_batch([Record(value=b"12345678")], timestamp=0))


class Host:
    """A host whose log takes two batches in a segment, and none that is younger than its first by over 500 ms.

    It has been seen with one batch in its first segment, and now begins the second one.
    """

    def __init__(self) -> None:
        self.rule = SegmentBounds(None)  # type: ignore[arg-type]
        self.disk = SimDisk(Random(1))
        self.log = SimpleNamespace(
            directory="t-0", active_base_offset=0, config=LogConfig(segment_bytes=2 * SIZE, segment_ms=500)
        )
        self.replica = SimpleNamespace(topic="t", topic_id=b"id", partition=0, log=self.log)
        self.process: Any = SimpleNamespace(name="b1", disk=self.disk, incarnation=1)
        self.appends(0)
        self.begins(1)

    def begins(self, base: int) -> None:
        self.log.active_base_offset = base

    def appends(self, *times: int, value: bytes = b"12345678") -> None:
        file = self.disk.open(f"t-0/{self.log.active_base_offset:020}.log", create=True)
        for time in times:
            file.append(build_batch([Record(value=value)], timestamp=time))
        self.rule.appended(self.turn())

    def turns(self) -> None:
        replicas = SimpleNamespace(all=lambda: [SimpleNamespace(replica=self.replica)])
        node: Any = SimpleNamespace(broker=SimpleNamespace(replicas=replicas))
        self.rule.turned(self.process, node)

    def turn(self, cut: int | None = None) -> Any:
        return SimpleNamespace(process=self.process, replica=self.replica, cut=cut)


def test_a_segment_within_its_bounds_is_sound() -> None:
    host = Host()
    host.appends(1_000)
    host.appends(1_500)
    host.begins(3)
    host.appends(2_001, 1_900)


def test_a_segment_that_is_too_large_breaks_dp_18() -> None:
    host = Host()
    host.appends(1_000, 1_001)
    with pytest.raises(InvariantBroken, match=rf"^DP-18: t-0 of b1: .* at 1 has {3 * SIZE} bytes, .* {2 * SIZE}"):
        host.appends(1_002)


def test_one_batch_may_be_larger() -> None:
    Host().appends(1_000, value=bytes(5 * SIZE))


@pytest.mark.parametrize("times", [(1_000, 1_501), (1_000, 1_501, 1_100)])
def test_a_segment_that_is_too_old_breaks_dp_18(times: tuple[int, ...]) -> None:
    host = Host()
    host.log.config = replace(host.log.config, segment_bytes=10 * SIZE)
    host.appends(1_000)
    host.begins(5)
    with pytest.raises(InvariantBroken, match=r"^DP-18: .* begins at 5 has batches of the times 1000 and 1501, .* 500"):
        host.appends(*times)


def test_what_was_written_under_other_settings_is_not_judged() -> None:
    host = Host()
    host.appends(1_000, 1_001)
    host.log.config = replace(host.log.config, segment_bytes=SIZE)
    host.appends()
    host.begins(3)
    host.appends(1_002)
    with pytest.raises(InvariantBroken, match=r"^DP-18"):
        host.appends(1_003)


def test_what_is_added_to_it_under_the_present_ones_breaks_dp_18() -> None:
    """A log that never rolls has one segment only, which is the last one when its settings are first seen."""
    host = Host()
    host.appends(1_000, 1_001)
    host.log.config = replace(host.log.config, segment_bytes=SIZE)
    host.appends()
    with pytest.raises(InvariantBroken, match=rf"^DP-18: .* begins at 1 has {3 * SIZE} bytes, .* is {SIZE}"):
        host.appends(1_002)


def test_of_such_a_segment_that_was_cut_it_is_not_known_what_was_added() -> None:
    host = Host()
    host.log.config = replace(host.log.config, segment_bytes=10 * SIZE, segment_ms=100)
    host.appends(1_000, 1_200)
    host.disk.open("t-0/00000000000000000001.log").truncate(SIZE)
    host.rule.replica_touched(host.turn(cut=2))
    host.appends(1_200)
    host.appends(1_050)
    with pytest.raises(InvariantBroken, match=r"^DP-18: .* 1000 and 1101"):
        host.appends(1_101, value=b"")


def test_a_segment_may_have_begun_within_the_turn_of_an_append() -> None:
    """Seed 977113 of worlds: all records were deleted then, and the log began another segment."""
    Host().appends()


def test_a_log_that_was_cut_is_looked_at_anew() -> None:
    host = Host()
    host.appends(1_000, 1_200)
    host.disk.open("t-0/00000000000000000001.log").truncate(SIZE)
    host.rule.replica_touched(host.turn(cut=2))
    with pytest.raises(InvariantBroken, match=r"^DP-18: .* 1000 and 1600"):
        host.appends(1_600)


def test_a_process_that_begins_with_a_shorter_log_is_looked_at_anew() -> None:
    """Seed 999857 of worlds: a power loss took the end of the log, and larger batches came in its place."""
    host = Host()
    host.log.config = replace(host.log.config, segment_bytes=20 * SIZE)
    host.appends()
    host.begins(5)
    host.appends(1_000, 1_001)
    host.disk.open("t-0/00000000000000000005.log").truncate(SIZE)
    host.process.incarnation += 1
    host.appends(1_002, value=bytes(2 * SIZE))
    with pytest.raises(InvariantBroken, match=r"^DP-18: .* 1000 and 1600"):
        host.appends(1_600)


# -- a roll for a reason -------------------------------------------------------------------------------------------


def rolls(*, full: bool, start: int, truncated: bool = False, other: bool = False) -> None:
    """A log with records from `start` on has rolled at offset 5, for a batch that is there if it is `full`."""
    host = Host()
    host.log.start_offset = start
    host.begins(5)
    batches = build_batch([Record(value=b"12345678")], base_offset=5, timestamp=1_000) if full else b""
    host.disk.open("t-0/00000000000000000005.log", create=True).append(batches)
    host.rule.traced("segment", {"log": "u-0" if other else "t-0", "start": 5})
    if truncated:
        host.rule.traced("truncate", {"to": 5})
    try:
        host.turns()
    finally:
        host.turns()


def test_a_log_that_rolls_for_nothing_breaks_dp_18() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^DP-18: t-0 of b1: an empty segment begins at 5 .* from 4 on are kept$"
    ):
        rolls(full=False, start=4)


def test_a_log_rolls_for_a_batch_or_when_all_is_deleted() -> None:
    rolls(full=True, start=0)
    rolls(full=False, start=5)


def test_what_was_truncated_may_have_begun_the_segment() -> None:
    rolls(full=False, start=4, truncated=True)


def test_another_log_has_not_rolled() -> None:
    rolls(full=False, start=4, other=True)


def rolls_for(
    time: int, *, size: int = SIZE, early: bool = False, changed: bool = False, started: bool = False, start: int = 0
) -> None:
    """The log has one batch of time 1000 from offset 1 on, and begins another segment at 2 for one of this time."""
    host = Host()
    host.appends(1_000)
    host.log.start_offset = start
    host.begins(2)
    batch = build_batch([Record(value=bytes(8 + size - SIZE))], base_offset=2, timestamp=time)
    assert len(batch) >= size
    host.disk.open("t-0/00000000000000000002.log", create=True).append(batch)
    if early:
        host.rule.traced("buggify", {"node": 1, "place": "segment-rolled-early"})
    host.rule.traced("buggify", {"node": 1, "place": "fetch-empty"})
    host.rule.traced("segment", {"log": "t-0", "start": 2})
    if changed:
        host.log.config = replace(host.log.config, segment_ms=400)
    host.process.incarnation += started
    host.turns()


def test_a_log_that_rolls_although_there_is_room_breaks_dp_18() -> None:
    wrong = rf"^DP-18: t-0 of b1: .* at 2 for a batch of {SIZE} bytes and time 1500, .* has {SIZE} bytes of {2 * SIZE},"
    with pytest.raises(InvariantBroken, match=wrong):
        rolls_for(1_500)


def test_a_log_rolls_when_a_batch_is_too_young_or_too_large() -> None:
    rolls_for(1_501)
    rolls_for(1_500, size=SIZE + 1)


def test_under_other_settings_there_may_have_been_no_room() -> None:
    rolls_for(1_400, changed=True)
    rolls_for(1_500, started=True)


def test_a_log_may_roll_early_where_buggify_says_so() -> None:
    rolls_for(1_500, early=True)


def test_the_reason_is_not_asked_for_when_all_before_is_deleted() -> None:
    rolls_for(1_500, start=2)


def test_a_node_that_died_in_that_turn_is_not_judged() -> None:
    host = Host()
    host.rule.traced("segment", {"log": "t-0", "start": 5})
    host.rule.died(host.process)
    host.rule.turned(host.process, SimpleNamespace(broker=None))  # type: ignore[arg-type]
