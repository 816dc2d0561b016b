"""What the log answers to idempotent producers (rules 5 to 7)."""

from __future__ import annotations

import struct
from random import Random

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.protocol.crc import crc32c
from squall.nodes.storage.errors import LogError
from squall.nodes.storage.producers import ProducerStates

LAST = (1 << 31) - 1
PRODUCER = 42


def states(disk: SimDisk | None = None) -> ProducerStates:
    return ProducerStates(disk or SimDisk(Random(0)), "t-0")


def fed(batches: list[tuple[int, int, int]], disk: SimDisk | None = None) -> ProducerStates:
    """Batches of (epoch, first sequence, count), appended one after the other."""
    made, offset = states(disk), 0
    for epoch, sequence, count in batches:
        made.update(PRODUCER, epoch, sequence, offset, offset + count - 1, 0)
        offset += count
    return made


def verdict(made: ProducerStates, epoch: int, sequence: int, count: int) -> str | int:
    """`new`, the error's name, or the first offset of the batch that this one repeats."""
    try:
        earlier = made.check(PRODUCER, epoch, sequence, count)
    except LogError as refusal:
        return refusal.kind
    return "new" if earlier is None else earlier.first_offset


SIX = [(3, at * 10, 10) for at in range(6)]


@pytest.mark.parametrize(
    ("history", "batch", "answer"),
    [
        ([], (0, 0, 1), "new"),
        ([], (5, 777, 3), "new"),  # nothing known of this producer: any sequence
        ([(0, 0, 5)], (0, 5, 2), "new"),
        ([(0, 0, 5)], (0, 0, 5), 0),
        ([(0, 0, 5), (0, 5, 2)], (0, 5, 2), 5),
        ([(0, 0, 5), (0, 5, 2)], (0, 0, 5), 0),  # the one before the last is remembered too
        ([(0, 0, 5)], (0, 0, 4), "OUT_OF_ORDER_SEQUENCE_NUMBER"),  # same start, another length: no repetition
        ([(0, 0, 5)], (0, 6, 1), "OUT_OF_ORDER_SEQUENCE_NUMBER"),  # a gap
        ([(0, 0, 5)], (0, 4, 1), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (SIX, (3, 10, 10), 10),  # the fifth last
        (SIX, (3, 0, 10), "OUT_OF_ORDER_SEQUENCE_NUMBER"),  # the sixth last is forgotten
        ([(3, 0, 5)], (2, 5, 1), "INVALID_PRODUCER_EPOCH"),
        ([(3, 0, 5)], (4, 0, 1), "new"),
        ([(3, 0, 5)], (4, 5, 1), "OUT_OF_ORDER_SEQUENCE_NUMBER"),  # a new epoch begins at 0
        ([(3, 0, 5), (4, 0, 1)], (4, 0, 1), 5),
        ([(3, 0, 5), (4, 0, 1)], (4, 0, 5), "OUT_OF_ORDER_SEQUENCE_NUMBER"),  # of the old epoch nothing is left
        ([(0, LAST - 1, 2)], (0, 0, 1), "new"),  # 2^31-1 is followed by 0
        ([(0, LAST - 1, 2)], (0, LAST + 1, 1), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ([(0, LAST - 1, 5)], (0, 3, 1), "new"),  # the batch itself wraps: last sequence 2
        ([(0, LAST - 1, 5)], (0, LAST - 1, 5), 0),
        ([(0, LAST - 1, 5)], (0, 2, 1), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ],
)
def test_a_batch_is_new_repeated_or_refused(
    history: list[tuple[int, int, int]], batch: tuple[int, int, int], answer: str | int
) -> None:
    """Rules 5 and 6."""
    assert verdict(fed(history), *batch) == answer


def test_a_snapshot_holds_everything() -> None:
    disk = SimDisk(Random(1))
    fed(SIX, disk).take_snapshot(60)
    again = states(disk)
    assert again.restore(60) == 60
    assert [verdict(again, 3, at * 10, 10) for at in range(1, 6)] == [10, 20, 30, 40, 50]
    assert verdict(again, 3, 60, 1) == "new"


def test_a_damaged_snapshot_is_passed_over_for_an_older_one() -> None:
    disk = SimDisk(Random(1))
    fed(SIX[:1], disk).take_snapshot(10)
    fed(SIX, disk).take_snapshot(60)
    disk.open("t-0/00000000000000000060.snapshot")._content.data[20] ^= 1
    again = states(disk)
    assert again.restore(60) == 10
    assert verdict(again, 3, 10, 10) == "new"
    assert again.snapshots() == [10]


def test_snapshots_above_the_log_end_are_deleted() -> None:
    """Rule 7."""
    disk = SimDisk(Random(1))
    made = fed(SIX, disk)
    for offset in (10, 30, 60):
        made.take_snapshot(offset)
    assert states(disk).restore(45) == 30
    assert made.snapshots() == [10, 30]


def test_without_a_snapshot_nothing_is_known() -> None:
    made = fed(SIX)
    assert made.restore(60) is None and len(made) == 0


class TestExpiry:
    """`producer.id.expiration.ms`: by time as far as both the records and the host have it."""

    DAY = 86_400_000

    def both(self) -> ProducerStates:
        """One producer silent since time 0, one that wrote a little more than a day later."""
        made = states()
        made.update(1, 0, 0, 0, 0, 0)
        made.update(2, 0, 0, 1, 1, self.DAY + 1)
        return made

    def test_a_producer_silent_for_longer_is_forgotten(self) -> None:
        made = self.both()
        assert made.expire(self.DAY + 1, self.DAY) == [1]
        assert made.state_of(1) is None and made.state_of(2) is not None

    def test_a_host_clock_set_forward_forgets_nobody(self) -> None:
        made = states()
        made.update(1, 0, 0, 0, 0, 0)
        assert made.expire(1 << 50, self.DAY) == []

    def test_a_record_from_the_future_forgets_nobody(self) -> None:
        made = self.both()
        made.update(3, 0, 0, 2, 2, 1 << 50)
        assert made.expire(self.DAY, self.DAY) == []

    def test_the_time_of_the_records_survives_in_snapshots(self) -> None:
        disk = SimDisk(Random(1))
        made = states(disk)
        made.update(1, 0, 0, 0, 0, 0)
        made.update(2, 0, 0, 1, 1, self.DAY + 1)
        made.take_snapshot(2)
        again = states(disk)
        again.restore(2)
        assert again.expire(1 << 50, self.DAY) == [1]


def test_snapshots_nobody_would_start_from_are_removed_but_the_newest_two_stay() -> None:
    made = fed(SIX)
    for offset in (10, 20, 30, 40, 50):
        made.take_snapshot(offset)
    made.prune([20])
    assert made.snapshots() == [20, 40, 50]


# -- Kafka's format ------------------------------------------------------------------------------------------------


def snapshot_of(disk: SimDisk, offset: int) -> bytes:
    file = disk.open(f"t-0/{offset:020d}.snapshot")
    return file.read(0, file.size())


def test_a_snapshot_is_one_that_kafka_reads() -> None:
    """Version, CRC-32C of the rest, entries with the last batch of each producer (Kafka's ProducerSnapshot)."""
    disk = SimDisk(Random(0))
    fed(SIX, disk).take_snapshot(60)
    content = snapshot_of(disk, 60)
    version, crc, count = struct.unpack_from(">HIi", content)
    assert (version, count) == (1, 1)
    assert crc == crc32c(content[6:])
    assert struct.unpack_from(">qhiqiqiq", content, 10) == (PRODUCER, 3, 59, 59, 9, 0, -1, -1)


def test_a_snapshot_that_kafka_wrote_is_taken_with_its_one_batch() -> None:
    disk = SimDisk(Random(0))
    entries = struct.pack(">iqhiqiqiq", 1, PRODUCER, 3, 2, 59, 4, 0, -1, -1)
    file = disk.open("t-0/00000000000000000060.snapshot", create=True)
    file.append(struct.pack(">HI", 1, crc32c(entries)), entries)
    again = states(disk)
    assert again.restore(60) == 60
    assert verdict(again, 3, LAST - 1, 5) == 55, "its sequences wrap around"
    assert verdict(again, 3, 3, 1) == "new"
