"""The logs of a broker: what is written down of them and when, and what is taken back (BL-01, FD-03, rule 17)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from squall.harness.simulation.world.disk import CrashNow, SimDisk
from squall.nodes.broker.hosting.config import BrokerConfig, TopicDefaults
from squall.nodes.broker.hosting.log_manager import LogManager
from squall.nodes.metadata.image import Topic
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch, patch
from squall.nodes.storage import checkpoints
from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.errors import CorruptFile
from squall.nodes.storage.log import Log

MINUTE = 60_000_000
TOPIC = Topic("t", b"t".ljust(16, b"."))
AGAIN = Topic("t", b"t again".ljust(16, b"."))
NAME = ("t", 0)
SMALL = LogConfig(segment_bytes=300)


class Clock:
    def now_ms(self) -> int:
        return 0


def manager(disk: SimDisk, now: int = 0, mutants: Mutants = HEALTHY) -> LogManager:
    config = BrokerConfig(1, "cluster", (), topics=TopicDefaults(log=SMALL))
    return LogManager(config, disk=disk, clock=Clock(), trace=NullTrace(), now=now, mutants=mutants)


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append_as_leader(build_batch([Record(value=b"v" * 20)]), 1, 0)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(Random(1))


def recovery_points(disk: SimDisk) -> dict[tuple[str, int], int]:
    return checkpoints.read_offsets(disk, checkpoints.RECOVERY_POINTS)


def test_recovery_points_are_written_each_minute_for_segments_a_minute_old(disk: SimDisk) -> None:
    logs = manager(disk)
    log, _ = logs.claim(TOPIC, 0, SMALL)
    append(log, 10)
    sealed = log.active_base_offset
    logs.tick(MINUTE)
    assert recovery_points(disk) == {NAME: 0}
    append(log, 10)
    assert logs.deadline() == 2 * MINUTE
    logs.tick(2 * MINUTE)
    assert recovery_points(disk) == {NAME: sealed}
    disk.lose_power("all")
    found, _ = manager(disk).claim(TOPIC, 0, SMALL)
    assert found.end_offset >= sealed


def test_after_a_clean_stop_all_is_durable_and_the_mark_carries_the_epoch(disk: SimDisk) -> None:
    logs = manager(disk)
    log, _ = logs.claim(TOPIC, 0, SMALL)
    append(log, 10)
    logs.close(17)
    assert recovery_points(disk) == {NAME: 10}
    assert checkpoints.read_whole(disk, checkpoints.CLEAN_SHUTDOWN) == b'{"version":0,"brokerEpoch":17}'
    disk.lose_power("all")
    again = manager(disk)
    assert again.previous_epoch == 17
    assert again.claim(TOPIC, 0, SMALL)[0].end_offset == 10


def lost_behind_the_mark(mutants: Mutants) -> list[int]:
    """The disk calls of a clean stop before which a loss of power leaves the mark, and not all that was appended."""
    wrong = []
    for calls in range(100):
        disk = SimDisk(Random(1))
        logs = manager(disk, mutants=mutants)
        log, _ = logs.claim(TOPIC, 0, SMALL)
        append(log, 10)
        disk.crash_after = calls
        try:
            logs.close(17)
        except CrashNow:
            disk.lose_power("all")
            again = manager(disk)
            if again.previous_epoch == 17 and again.claim(TOPIC, 0, SMALL)[0].end_offset < 10:
                wrong.append(calls)
        else:
            return wrong
    raise AssertionError("the stop takes more disk calls than this test cuts it at")


def test_the_mark_of_a_clean_stop_proves_that_all_is_durable() -> None:
    """FD-03, EL-05: power may be lost before any disk call of the stop."""
    assert lost_behind_the_mark(HEALTHY) == []


def test_the_mark_of_the_mutant_proves_nothing() -> None:
    assert lost_behind_the_mark(Mutants(frozenset({"clean-mark-before-flush"})))


def test_the_mark_is_gone_for_good_before_anything_is_appended(disk: SimDisk) -> None:
    manager(disk).close(17)
    manager(disk)
    disk.lose_power("all")
    assert manager(disk).previous_epoch == -1


def test_a_truncation_takes_back_what_was_promised_of_more(disk: SimDisk) -> None:
    """Else records appended later would be trusted, and taken for committed, after the next crash."""
    logs = manager(disk)
    log, _ = logs.claim(TOPIC, 0, SMALL)
    append(log, 10)
    log.flush()
    logs.tick(MINUTE)
    logs.checkpoint_high_watermarks({NAME: 9})
    log.truncate_to(4)
    disk.lose_power("all")
    assert recovery_points(disk) == {NAME: 4}
    assert checkpoints.read_offsets(disk, checkpoints.HIGH_WATERMARKS) == {NAME: 4}


def test_a_power_loss_takes_back_the_high_watermark_of_what_it_took(disk: SimDisk) -> None:
    """Found by the model: the next crash would have made committed what had only been appended there since."""
    logs = manager(disk)
    log, _ = logs.claim(TOPIC, 0, SMALL)
    append(log, 4)
    log.flush()
    append(log, 4)
    logs.checkpoint_high_watermarks({NAME: 7})
    disk.lose_power("all")
    log, _ = manager(disk).claim(TOPIC, 0, SMALL)
    assert log.end_offset == 4
    append(log, 5)
    log, high_watermark = manager(disk).claim(TOPIC, 0, SMALL)
    assert (log.end_offset, high_watermark) == (9, 4)


def test_a_topic_created_anew_inherits_no_promise(disk: SimDisk) -> None:
    """The old one's high watermark would make committed what the new one has only appended."""
    logs = manager(disk)
    log, _ = logs.claim(TOPIC, 0, SMALL)
    append(log, 10)
    log.flush()
    log.advance_start(3)
    logs.settle()
    logs.tick(MINUTE)
    logs.checkpoint_high_watermarks({NAME: 9})
    logs.delete([NAME])
    log, high_watermark = logs.claim(AGAIN, 0, SMALL)
    assert (log.start_offset, log.end_offset, high_watermark) == (0, 0, 0)
    append(log, 2)
    found, high_watermark = manager(disk).claim(AGAIN, 0, SMALL)
    assert (found.start_offset, found.end_offset, high_watermark) == (0, 2, 0)


def test_a_log_of_another_topic_of_that_name_is_not_inherited_either(disk: SimDisk) -> None:
    logs = manager(disk)
    log, _ = logs.claim(TOPIC, 0, SMALL)
    append(log, 10)
    logs.checkpoint_high_watermarks({NAME: 9})
    log, high_watermark = manager(disk).claim(AGAIN, 0, SMALL)
    assert (log.end_offset, high_watermark) == (0, 0)
    assert checkpoints.read_offsets(disk, checkpoints.HIGH_WATERMARKS) == {}


def test_where_a_log_begins_is_written_before_its_segments_go(disk: SimDisk) -> None:
    logs = manager(disk)
    log, _ = logs.claim(TOPIC, 0, SMALL)
    append(log, 10)
    log.advance_start(7)
    before = disk.list("t-0")
    assert "00000000000000000000.log" in before
    logs.settle()
    assert checkpoints.read_offsets(disk, checkpoints.LOG_STARTS) == {NAME: 7}
    assert "00000000000000000000.log" not in disk.list("t-0")


@pytest.mark.parametrize("flush_ms", [0, 500])
def test_flush_ms_leaves_nothing_unflushed_for_longer(disk: SimDisk, flush_ms: int) -> None:
    logs = manager(disk)
    log, _ = logs.claim(TOPIC, 0, replace(SMALL, flush_ms=flush_ms))
    append(log, 1)
    assert logs.deadline() == 0, "a turn, to begin to count"
    logs.tick(1000)
    assert logs.deadline() == 1000 + flush_ms * 1000
    logs.tick(1000 + flush_ms * 1000)
    assert log.durable_offset == 1
    assert logs.deadline() == MINUTE


def test_without_flush_ms_time_flushes_nothing(disk: SimDisk) -> None:
    logs = manager(disk)
    log, _ = logs.claim(TOPIC, 0, replace(SMALL, flush_ms=0))
    logs.configure(NAME, SMALL)
    append(log, 1)
    logs.tick(1000)
    assert log.durable_offset == 0


def test_an_id_that_cannot_be_read_is_reported_never_guessed(disk: SimDisk) -> None:
    manager(disk).claim(TOPIC, 0, SMALL)
    checkpoints.write_properties(disk, "t-0/partition.metadata", {"version": "0", "topic_id": "?"})
    with pytest.raises(CorruptFile, match=r"t-0/partition\.metadata: topic_id"):
        manager(disk)


def test_a_cut_within_the_batch_that_a_log_begins_in_leaves_its_start(disk: SimDisk) -> None:
    """Found by the model: with that batch gone the log is empty, and still begins where it was said to."""
    logs = manager(disk)
    log, _ = logs.claim(TOPIC, 0, SMALL)
    log.append_as_leader(build_batch([Record(value=b"v")] * 5), 1, 0)
    log.advance_start(3)
    logs.settle()
    log.truncate_to(4)
    assert (log.start_offset, log.end_offset) == (3, 3)
    assert checkpoints.read_offsets(disk, checkpoints.LOG_STARTS) == {NAME: 3}


@pytest.mark.parametrize("opened_again", [False, True], ids=["in the same incarnation", "opened again in between"])
def test_a_follower_that_begins_within_a_batch_does_so_after_a_restart(disk: SimDisk, opened_again: bool) -> None:
    """DP-16, seeds 173 and 501001 of worlds: the batch's first record is deleted, and its segment has all of them."""
    logs = manager(disk)
    log, _ = logs.claim(TOPIC, 0, SMALL)
    log.restart_at(3)
    if opened_again:
        log, _ = manager(disk).claim(TOPIC, 0, SMALL)
    batch = build_batch([Record(value=b"v")] * 5)
    patch(batch, 2, 1)
    log.append_as_follower(batch)
    assert (log.start_offset, log.end_offset) == (3, 7)
    log.flush()
    found, _ = manager(disk).claim(TOPIC, 0, SMALL)
    assert (found.start_offset, found.end_offset) == (3, 7)


def test_a_crash_before_the_batch_is_written_leaves_the_start(disk: SimDisk) -> None:
    log, _ = manager(disk).claim(TOPIC, 0, SMALL)
    log.restart_at(3)
    batch = build_batch([Record(value=b"v")] * 5)
    patch(batch, 2, 1)
    log.append_as_follower(batch)
    disk.lose_power("all")
    found, _ = manager(disk).claim(TOPIC, 0, SMALL)
    assert (found.start_offset, found.end_offset) == (3, 3)
