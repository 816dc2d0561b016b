"""What is on the disk when: flush.messages, sealed segments, recovery points; and LogAppendTime, and failing disks."""

from __future__ import annotations

from random import Random

import pytest

from squall.harness.simulation.world.disk import Disturbance, SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import BatchHeader, Record, build_batch, crc_ok, parse_records
from squall.nodes.storage.errors import DiskFailure
from squall.nodes.storage.log import Log, LogConfig
from tests.facts import assert_names

SMALL = LogConfig(segment_bytes=300)


def opened(disk: SimDisk, config: LogConfig = SMALL, *, recovery_point: int = 0, clean: bool = False) -> Log:
    return Log.open(
        disk, "t-0", config, now_ms=0, trace=NullTrace(), recovery_point=recovery_point, clean_shutdown=clean
    )


def append(log: Log, count: int = 1) -> None:
    for _ in range(count):
        log.append_as_leader(build_batch([Record(value=b"v" * 20)]), 1, 0)


class TestFlushMessages:
    def test_every_so_many_records_are_forced_to_the_disk(self) -> None:
        disk = SimDisk(Random(1))
        log = opened(disk, LogConfig(flush_messages=3))
        append(log, 2)
        assert log.durable_offset == 0
        append(log)
        assert log.durable_offset == 3
        append(log)
        disk.lose_power("all")
        assert opened(disk).end_offset == 3

    def test_one_is_a_sync_for_each_append_as_leader_and_as_follower(self) -> None:
        """Control iii of experiment E6: with it no power loss loses anything."""
        disk = SimDisk(Random(1))
        settings = LogConfig(flush_messages=1)
        leader, follower = (Log.open(disk, name, settings, now_ms=0, trace=NullTrace()) for name in ("t-0", "f-0"))
        append(leader, 4)
        follower.append_as_follower(leader.read(0, 1000, upper=4, at_least_one=True))
        disk.lose_power("all")
        for name in ("t-0", "f-0"):
            assert Log.open(disk, name, settings, now_ms=0, trace=NullTrace()).end_offset == 4

    def test_by_default_an_append_syncs_nothing(self) -> None:
        disk = SimDisk(Random(1))
        log = opened(disk, LogConfig())
        append(log)
        before = disk.syncs
        append(log, 50)
        assert disk.syncs == before


class TestRecoveryPoint:
    """Rule 17: scanned is only what lies above it."""

    def test_sealed_segments_can_be_made_durable_without_the_active_one(self) -> None:
        disk = SimDisk(Random(1))
        log = opened(disk)
        append(log, 10)
        log.flush_below(log.active_base_offset)
        assert 0 < log.durable_offset == log.active_base_offset < 10
        disk.lose_power("all")
        assert opened(disk, recovery_point=log.durable_offset).end_offset == log.durable_offset

    def test_below_it_no_sum_is_computed(self) -> None:
        disk = SimDisk(Random(1))
        append(opened(disk), 10)
        segment = disk.open("t-0/00000000000000000000.log")
        segment._content.data[80] ^= 1
        assert opened(disk, recovery_point=10).end_offset == 10
        assert opened(disk).end_offset == 0

    def test_within_a_segment_the_headers_below_it_suffice(self) -> None:
        disk = SimDisk(Random(1))
        append(opened(disk, LogConfig()), 10)
        segment = disk.open("t-0/00000000000000000000.log")
        size = segment.size() // 10
        segment._content.data[3 * size + 80] ^= 1
        assert opened(disk, LogConfig(), recovery_point=4).end_offset == 10
        segment._content.data[7 * size + 80] ^= 1
        assert opened(disk, LogConfig(), recovery_point=4).end_offset == 7

    def test_after_a_clean_stop_no_batch_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        disk = SimDisk(Random(1))
        log = opened(disk)
        append(log, 10)
        log.close()
        read: list[int] = []
        monkeypatch.setattr(BatchHeader, "read", lambda *place: read.append(1))
        monkeypatch.setattr("squall.nodes.storage.recovery.crc_ok", lambda batch: read.append(2))
        assert opened(disk, clean=True).end_offset == 10
        assert not read


class TestLogAppendTime:
    """Rule 1: the time is covered by the sum."""

    def test_records_have_the_brokers_time_and_a_sum_that_fits(self) -> None:
        log = opened(SimDisk(Random(1)), LogConfig(log_append_time=True))
        batch = build_batch([Record(timestamp=5, value=b"a"), Record(timestamp=6, value=b"b")])
        appended = log.append_as_leader(batch, 1, 777, from_client=True)
        assert appended.log_append_time == 777
        [stored] = log.batches(0, 2)
        assert crc_ok(stored) and BatchHeader.read(stored).is_log_append_time
        assert [record.timestamp for record in parse_records(stored)] == [777, 777]
        assert log.offset_for_timestamp(777, 2) == (777, 0)
        assert log.offset_for_timestamp(778, 2) is None

    def test_a_repetition_is_answered_with_the_first_time(self) -> None:
        log = opened(SimDisk(Random(1)), LogConfig(log_append_time=True))
        sent = bytes(build_batch([Record(value=b"a")], producer_id=3, producer_epoch=0, base_sequence=0))
        log.append_as_leader(sent, 1, 777, from_client=True)
        again = log.append_as_leader(sent, 1, 999, from_client=True)
        assert (again.duplicate, again.log_append_time) == (True, 777)

    def test_with_create_time_the_producers_time_stays(self) -> None:
        log = opened(SimDisk(Random(1)))
        appended = log.append_as_leader(build_batch([Record(timestamp=5, value=b"a")]), 1, 777, from_client=True)
        assert (appended.log_append_time, log.max_timestamp()) == (-1, 5)


class TestFailingDisk:
    @pytest.mark.parametrize(
        ("call", "action"),
        [("write", "append"), ("fsync", "sync"), ("read", "read")],
    )
    def test_it_is_named_with_file_action_and_number(self, call: str, action: str) -> None:
        disk = SimDisk(Random(1))
        log = opened(disk)
        append(log, 2)
        disk.disturb("test", Disturbance(frozenset({call}), error=5))
        with pytest.raises(DiskFailure) as caught:
            append(log)
            log.read(0, 100, upper=3, at_least_one=True)
            log.flush()
        assert_names(str(caught.value), "t-0/00000000000000000000.log", action, "errno 5")
        assert caught.value.errno == 5

    def test_what_could_not_be_written_is_nowhere(self) -> None:
        disk = SimDisk(Random(1))
        log = opened(disk)
        append(log, 2)
        disk.disturb("test", Disturbance(frozenset({"write"}), error=28))
        with pytest.raises(DiskFailure, match="No space left"):
            log.append_as_leader(
                build_batch([Record(value=b"a")], producer_id=3, producer_epoch=0, base_sequence=0), 1, 0
            )
        disk.undisturb("test")
        assert log.end_offset == 2 and log.producers.state_of(3) is None
        assert opened(disk).end_offset == 2
