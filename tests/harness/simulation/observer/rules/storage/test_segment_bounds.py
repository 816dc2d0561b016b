"""DP-18 as the observer asserts it of segments: none is larger or older than the topic's settings allow."""

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


def rolls(*, size: int, start: int, truncated: bool = False, other: bool = False) -> None:
    """A log with records from `start` on has rolled at offset 5, and its new segment has so many bytes."""
    host = Host()
    host.log.start_offset = start
    host.begins(5)
    host.disk.open("t-0/00000000000000000005.log", create=True).append(bytes(size))
    host.rule.traced("segment", {"log": "u-0" if other else "t-0", "start": 5})
    if truncated:
        host.rule.traced("truncate", {"to": 5})
    replicas = SimpleNamespace(all=lambda: [SimpleNamespace(replica=host.replica)])
    node: Any = SimpleNamespace(broker=SimpleNamespace(replicas=replicas))
    try:
        host.rule.turned(host.process, node)
    finally:
        host.rule.turned(host.process, node)


def test_a_log_that_rolls_for_nothing_breaks_dp_18() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^DP-18: t-0 of b1: an empty segment begins at 5 .* from 4 on are kept$"
    ):
        rolls(size=0, start=4)


def test_a_log_rolls_for_a_batch_or_when_all_is_deleted() -> None:
    rolls(size=SIZE, start=0)
    rolls(size=0, start=5)


def test_what_was_truncated_may_have_begun_the_segment() -> None:
    rolls(size=0, start=4, truncated=True)


def test_another_log_has_not_rolled() -> None:
    rolls(size=0, start=4, other=True)


def test_a_node_that_died_in_that_turn_is_not_judged() -> None:
    host = Host()
    host.rule.traced("segment", {"log": "t-0", "start": 5})
    host.rule.died(host.process)
    host.rule.turned(host.process, SimpleNamespace(broker=None))  # type: ignore[arg-type]
