"""Damage to a log is found and named; a healthy one has none."""

from __future__ import annotations

import struct

import pytest

from squall.harness.operator.log_content import (
    LogWalk,
    Places,
    epoch_checkpoint_problems,
    index_problems,
    time_index_problems,
    walk,
)
from squall.nodes.protocol.compression import Compression
from squall.nodes.protocol.record import Record
from squall.nodes.protocol.records import build_batch, patch, seal

RECORDS = [Record(key=b"k", value=b"one"), Record(value=b"two"), Record(value=b"three")]


def batch(base_offset: int, epoch: int = 3, **options: object) -> bytearray:
    made = build_batch(RECORDS, base_offset=base_offset, leader_epoch=epoch, timestamp=1000, **options)  # type: ignore[arg-type]
    patch(made, base_offset, epoch)
    return made


def problems(content: bytes | bytearray, first_offset: int = 0) -> list[str]:
    return [one.what for found in walk(content, first_offset=first_offset) for one in found.problems]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_a_healthy_segment_has_no_problems(codec: Compression) -> None:
    content = batch(5, 1, compression=codec) + batch(8, 1, compression=codec) + batch(11, 4, compression=codec)
    found = list(walk(content, first_offset=5))
    assert [one.header.base_offset for one in found if one.header] == [5, 8, 11]
    assert not any(one.problems or one.notes for one in found)
    assert [record.value for record in found[0].records()] == [b"one", b"two", b"three"]


def test_every_flipped_bit_that_the_sum_covers_is_found() -> None:
    healthy = batch(0)
    for position in range(21, len(healthy)):
        broken = bytearray(healthy)
        broken[position] ^= 0x10
        assert any("CRC-32C" in one for one in problems(broken)), f"byte {position}"


def test_every_torn_tail_is_found_and_what_is_before_it_is_read() -> None:
    whole, torn = batch(0), batch(3)
    for length in range(1, len(torn)):
        found = list(walk(whole + torn[:length], first_offset=0))
        assert found[0].header is not None and not found[0].problems
        assert found[1].header is None and len(found[1].problems) == 1, f"{length} bytes of the second batch"
        assert found[1].position == len(whole)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (batch(3) + batch(2), "offset 2 where at least 6 was due"),
        (batch(0, 5) + batch(3, 4), "leader epoch 4 after epoch 5"),
        (batch(0) + bytes(200), "begin with zeros"),
        (batch(0) + bytes(16) + b"\x01" + bytes(60), "format 1"),
    ],
)
def test_what_goes_back_or_is_no_batch_is_a_problem(content: bytearray, said: str) -> None:
    assert any(said in one for one in problems(content)), problems(content)


def test_a_segment_that_begins_before_its_name_is_a_problem() -> None:
    assert problems(batch(7), first_offset=8) == ["offset 7 where at least 8 was due"]


def test_records_that_are_more_than_their_offsets_are_a_problem() -> None:
    wrong = batch(0)
    struct.pack_into(">i", wrong, 23, 1)  # last offset delta
    seal(wrong)
    assert any("3 records in offsets 0 to 1" in one for one in problems(wrong))


def test_records_that_cannot_be_read_although_the_sum_is_right_are_a_problem() -> None:
    wrong = batch(0)
    wrong[61] = 0x7F  # the length of the first record
    seal(wrong)
    assert any("cannot be read" in one for one in problems(wrong))


def test_a_gap_as_compaction_leaves_it_is_only_a_note() -> None:
    found = list(walk(batch(0) + batch(10), first_offset=0))
    assert not any(one.problems for one in found)
    assert found[1].notes == ("offsets 3 to 9 are not there",)


def test_segments_of_one_log_are_checked_against_each_other() -> None:
    log = LogWalk()
    assert not [one for found in log.segment(batch(0, 1), first_offset=0) for one in found.problems]
    overlapping = [one.what for found in log.segment(batch(3, 0), first_offset=2) for one in found.problems]
    assert len(overlapping) == 2 and "before the end of the last one" in overlapping[0]
    assert "epoch 0 after epoch 1" in overlapping[1]
    assert log.epoch_starts == [(1, 0)]


# -- beside a segment ----------------------------------------------------------------------------------------------

PLACES = Places(100, {0: 100, 80: 103, 160: 106}, 109)


def index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">Ii", relative, position) for relative, position in entries)


def test_an_index_may_name_the_first_or_the_last_offset_of_a_batch() -> None:
    """Ours names the first, Kafka's the last; Kafka's active index ends in zeros that are room for more."""
    assert index_problems(index((3, 80), (6, 160)), PLACES) == []
    assert index_problems(index((5, 80), (8, 160)) + bytes(64), PLACES) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (index((3, 81)), "byte 81, where no batch begins"),
        (index((2, 80)), "names offset 102 for the batch that begins with 103"),
        (index((9, 160)), "names offset 109"),
        (index((6, 160), (3, 80)), "goes back"),
    ],
)
def test_a_wrong_index_is_a_problem(content: bytes, said: str) -> None:
    assert any(said in one.what for one in index_problems(content, PLACES))


def test_a_time_index_grows_and_stays_in_the_segment() -> None:
    def time_index(*entries: tuple[int, int]) -> bytes:
        return b"".join(struct.pack(">qI", *entry) for entry in entries)

    assert time_index_problems(time_index((1000, 3), (1100, 8)) + bytes(48), PLACES) == []
    assert "beyond" in time_index_problems(time_index((1000, 9)), PLACES)[0].what
    assert "goes back" in time_index_problems(time_index((1000, 3), (900, 5)), PLACES)[0].what


def test_an_epoch_checkpoint_agrees_with_the_batches() -> None:
    starts = [(1, 0), (4, 12)]
    assert epoch_checkpoint_problems("0\n3\n1 0\n2 12\n4 12\n", starts, 0) == []
    assert epoch_checkpoint_problems("0\n2\n1 0\n4 12\n", [(1, 5), (4, 12)], 5) == [], "the beginning was deleted"
    assert "lacks epoch 4" in epoch_checkpoint_problems("0\n1\n1 0\n", starts, 0)[0].what
    assert "begin with 9, not 12" in epoch_checkpoint_problems("0\n2\n1 0\n4 9\n", starts, 0)[0].what
    assert "a line" in epoch_checkpoint_problems("0\n1\nx\n", starts, 0)[0].what
