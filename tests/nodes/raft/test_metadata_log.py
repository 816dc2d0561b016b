"""What is in the log reads the same whether its writer still has it in memory or takes it from the bytes."""

from __future__ import annotations

from random import Random

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.raft.config import RaftConfig, Voter
from squall.nodes.raft.metadata_log import UNREAD_BATCHES, CommittedBatch, MetadataLog


def opened(disk: SimDisk) -> MetadataLog:
    config = RaftConfig(2, "cluster", bytes(16), (Voter(2, "host", 9093),))
    return MetadataLog(config, disk=disk, now_ms=0, trace=NullTrace())


def all_of(log: MetadataLog) -> list[CommittedBatch]:
    return list(log.batches(0, log.end_offset))


def written(log: MetadataLog, batches: int, epoch: int) -> list[tuple[bytes, ...]]:
    values = [tuple(b"%d of %d in %d" % (n, size, epoch) for n in range(size + 1)) for size in range(batches)]
    for one in values:
        log.append(list(one), epoch, 7)
    return values


def test_batches_read_the_same_once_and_again_and_by_another_start() -> None:
    for batches in (5, UNREAD_BATCHES + 3):
        disk = SimDisk(Random(0))
        log = opened(disk)
        expected = written(log, batches, epoch=1)
        first = all_of(log)
        assert [one.values for one in first] == expected
        assert all_of(log) == first
        log.flush()
        log.close()
        assert all_of(opened(disk)) == first


def test_what_another_leader_put_in_the_place_of_unread_batches_is_read() -> None:
    log, other = opened(SimDisk(Random(0))), opened(SimDisk(Random(1)))
    written(log, 3, epoch=1)
    expected = written(other, 4, epoch=2)
    log.truncate_diverged(0, 0, 0)
    log.append_fetched(other.read(0, 1 << 20), 2)
    assert log.end_offset == other.end_offset
    assert [one.values for one in all_of(log)] == expected


def test_what_its_writer_wrote_anew_after_losing_it_is_read() -> None:
    """The same offsets in a later epoch."""
    log = opened(SimDisk(Random(0)))
    written(log, 3, epoch=1)
    log.truncate_diverged(0, 0, 0)
    expected = written(log, 2, epoch=3)
    assert [(one.epoch, one.values) for one in all_of(log)] == [(3, one) for one in expected]
