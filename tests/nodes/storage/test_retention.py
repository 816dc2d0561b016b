"""Where a log begins: deletion, retention by time and size, rolling by age; whole segments, all of it committed."""

from __future__ import annotations

from random import Random

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.storage.errors import LogError
from squall.nodes.storage.log import Log, LogConfig

HOUR = 3_600_000
ONE = len(build_batch([Record(value=b"v" * 40)]))


def config(**changes: int) -> LogConfig:
    """Two batches to a segment."""
    return LogConfig(**({"segment_bytes": 2 * ONE, "retention_ms": -1} | changes))


def filled(count: int = 10, *, disk: SimDisk | None = None, step: int = 0, settings: LogConfig | None = None) -> Log:
    """One record to a batch; record N is N times `step` milliseconds old."""
    log = Log.open(disk or SimDisk(Random(1)), "t-0", settings or config(), now_ms=0, trace=NullTrace())
    for number in range(count):
        batch = build_batch([Record(timestamp=number * step, value=b"v" * 40)], producer_id=7, producer_epoch=0,
                            base_sequence=number)  # fmt: skip
        log.append_as_leader(batch, number // 4, 0)
    return log


def segments(disk: SimDisk) -> list[int]:
    return [int(name[:-4]) for name in disk.list("t-0") if name.endswith(".log")]


def test_deleting_moves_the_start_and_drops_whole_segments_only() -> None:
    disk = SimDisk(Random(1))
    log = filled(disk=disk)
    assert log.advance_start(5) and not log.advance_start(3)
    assert segments(disk) == [0, 2, 4, 6, 8], "nothing goes before the owner has written the start down"
    assert log.drop_before_start()
    assert segments(disk) == [4, 6, 8]
    assert (log.start_offset, log.end_offset) == (5, 10)
    assert log.epochs.entries == [(1, 5), (2, 8)]


def test_below_the_start_nothing_can_be_read() -> None:
    log = filled(step=10)
    log.advance_start(5)
    with pytest.raises(LogError, match="OFFSET_OUT_OF_RANGE"):
        log.read(4, 1000, upper=10, at_least_one=True)
    assert log.read(5, ONE, upper=10, at_least_one=True)[:8] == (5).to_bytes(8, "big")
    assert log.offset_for_timestamp(0, 10) == (50, 5)


def test_opened_again_it_begins_where_the_owner_says() -> None:
    disk = SimDisk(Random(1))
    filled(disk=disk).close()
    for clean in (True, False):
        log = Log.open(disk, "t-0", config(), now_ms=0, trace=NullTrace(), clean_shutdown=clean, start_offset=5)
        assert (log.start_offset, log.end_offset) == (5, 10)
        assert segments(disk) == [4, 6, 8]


def test_a_start_beyond_what_the_disk_kept_is_where_the_log_begins_anew() -> None:
    disk = SimDisk(Random(1))
    filled(disk=disk)
    log = Log.open(disk, "t-0", config(), now_ms=0, trace=NullTrace(), start_offset=20)
    assert (log.start_offset, log.end_offset) == (20, 20)


def test_an_empty_follower_takes_the_batch_that_its_start_lies_in() -> None:
    """Its leader deleted up to the middle of a batch; rule 15 sent the follower there."""
    disk = SimDisk(Random(1))
    leader = Log.open(disk, "t-0", config(), now_ms=0, trace=NullTrace())
    leader.append_as_leader(build_batch([Record(value=b"v")] * 5), 3, 0)
    leader.append_as_leader(build_batch([Record(value=b"v")] * 5), 3, 0)
    follower = Log.open(disk, "f-0", config(), now_ms=0, trace=NullTrace(), start_offset=7)
    follower.append_as_follower(leader.read(7, 1000, upper=10, at_least_one=True))
    assert (follower.start_offset, follower.end_offset) == (7, 10)
    again = Log.open(disk, "f-0", config(), now_ms=0, trace=NullTrace(), start_offset=7)
    assert (again.start_offset, again.end_offset) == (7, 10)


class TestRetention:
    def test_by_age_what_is_older_than_the_limit_goes(self) -> None:
        log = filled(step=HOUR, settings=config(retention_ms=5 * HOUR))
        assert log.retain(10, now_ms=9 * HOUR)
        assert log.start_offset == 4, "segment 4–5 holds a record of five hours, and that is not older"

    def test_by_size_the_oldest_go_while_enough_is_left(self) -> None:
        log = filled(settings=config(retention_bytes=5 * ONE))
        assert log.retain(10, now_ms=0)
        assert log.start_offset == 4, "six batches are left: a whole segment more would leave four"

    @pytest.mark.parametrize("settings", [config(retention_ms=0), config(retention_bytes=0)])
    def test_never_above_the_high_watermark(self, settings: LogConfig) -> None:
        """DP-07."""
        log = filled(settings=settings)
        assert log.retain(5, now_ms=9 * HOUR)
        assert log.start_offset == 4
        assert not log.retain(5, now_ms=9 * HOUR)

    def test_everything_may_go_once_the_active_segment_is_rolled(self) -> None:
        disk = SimDisk(Random(1))
        log = filled(9, disk=disk, settings=config(retention_ms=HOUR))
        assert log.retain(9, now_ms=9 * HOUR)
        log.drop_before_start()
        assert (log.start_offset, log.end_offset, segments(disk)) == (9, 9, [9])
        assert not log.retain(9, now_ms=10 * HOUR), "an empty segment stays"
        log.append_as_leader(build_batch([Record(value=b"v")]), 5, 0)
        assert log.end_offset == 10

    def test_what_a_deletion_left_of_the_active_segment_goes_by_age_as_well(self) -> None:
        """Found by the simulator's rule DP-18: the start is at the end already, and the records stayed on the disk."""
        disk = SimDisk(Random(1))
        log = filled(9, disk=disk, settings=config(retention_ms=HOUR))
        assert log.advance_start(9) and log.drop_before_start()
        assert segments(disk) == [8], "the active segment stays, and is not old enough yet"
        assert not log.retain(9, now_ms=0) and segments(disk) == [8]
        assert not log.retain(9, now_ms=9 * HOUR), "the start does not move"
        log.drop_before_start()
        assert (log.start_offset, log.end_offset, segments(disk)) == (9, 9, [9])

    def test_an_empty_active_segment_is_not_rolled_again(self) -> None:
        """Found by the model: the same file would have been begun twice, and removed once."""
        disk = SimDisk(Random(1))
        log = filled(2, disk=disk)
        log.flush()
        log.append_as_leader(build_batch([Record(value=b"v" * 40)]), 5, 0)
        disk.lose_power("all")
        disk.open("t-0/00000000000000000002.log", create=True)
        log = Log.open(disk, "t-0", config(retention_bytes=0), now_ms=0, trace=NullTrace())
        assert segments(disk) == [0, 2] and log.end_offset == 2
        assert log.retain(2, now_ms=0) and log.drop_before_start()
        assert segments(disk) == [2]

    def test_minus_one_keeps_everything(self) -> None:
        log = filled(settings=config(retention_ms=-1, retention_bytes=-1))
        assert not log.retain(10, now_ms=1 << 60)

    def test_snapshots_below_the_first_segment_go_with_it(self) -> None:
        log = filled()
        assert log.producers.snapshots() == [2, 4, 6, 8]
        log.advance_start(7)
        log.drop_before_start()
        assert log.producers.snapshots() == [6, 8]

    def test_the_youngest_timestamp_of_a_sealed_segment_is_not_measured_again(self) -> None:
        disk = SimDisk(Random(1))
        filled(step=HOUR, disk=disk).close()
        log = Log.open(disk, "t-0", config(retention_ms=5 * HOUR), now_ms=0, trace=NullTrace(), clean_shutdown=True)
        disk.take_cost()
        assert log.retain(10, now_ms=9 * HOUR)
        assert disk.take_cost() == 0
        assert log.start_offset == 4


class TestRolling:
    def test_a_segment_ends_when_the_next_batch_is_too_much_younger_than_its_first(self) -> None:
        disk = SimDisk(Random(1))
        settings = LogConfig(segment_ms=5 * HOUR)
        filled(10, disk=disk, step=2 * HOUR, settings=settings)
        assert segments(disk) == [0, 3, 6, 9]

    @pytest.mark.parametrize("at_once", [1, 4, 10])
    def test_a_follower_rolls_as_its_leader_however_much_a_fetch_brings(self, at_once: int) -> None:
        """Seed 1004929 of worlds: batches that came together into a new segment were not compared with its first."""
        settings = LogConfig(segment_ms=5 * HOUR)
        leader = filled(10, step=2 * HOUR, settings=settings)
        batches = [bytes(one) for one in leader.batches(0, 10)]
        disk = SimDisk(Random(1))
        follower = Log.open(disk, "t-0", settings, now_ms=0, trace=NullTrace())
        for first in range(0, 10, at_once):
            follower.append_as_follower(b"".join(batches[first : first + at_once]))
        assert segments(disk) == [0, 3, 6, 9]

    def test_the_first_batch_counts_after_a_restart_too(self) -> None:
        disk = SimDisk(Random(1))
        settings = LogConfig(segment_ms=5 * HOUR)
        filled(3, disk=disk, step=2 * HOUR, settings=settings).close()
        log = Log.open(disk, "t-0", settings, now_ms=0, trace=NullTrace(), clean_shutdown=True)
        log.append_as_leader(build_batch([Record(timestamp=6 * HOUR, value=b"v")]), 1, 0)
        assert segments(disk) == [0, 3]

    def test_a_batch_without_a_time_rolls_nothing(self) -> None:
        disk = SimDisk(Random(1))
        log = filled(3, disk=disk, step=2 * HOUR, settings=LogConfig(segment_ms=5 * HOUR))
        log.append_as_leader(build_batch([Record(value=b"v")], timestamp=-1), 1, 0)
        assert segments(disk) == [0]
