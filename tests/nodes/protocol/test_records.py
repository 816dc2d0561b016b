"""Record batches: what is built is read again, by us and by a Kafka client; what a leader stamps and refuses."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from squall.nodes.protocol.compression import CodecMissing, Compression, compress, decompress
from squall.nodes.protocol.errors import ErrorCode, ProtocolError
from squall.nodes.protocol.records import (
    HEADER_SIZE,
    BatchHeader,
    InvalidBatch,
    Record,
    build_batch,
    control_key,
    control_kind,
    crc_ok,
    iterate_batches,
    parse_records,
    patch,
    seal,
    stamp_log_append_time,
    validate_client_batch,
)
from tests.facts import naming

content = st.one_of(st.none(), st.binary(max_size=300))
record_headers = st.lists(st.tuples(st.text(max_size=8), content), max_size=3).map(tuple)
records = st.lists(
    st.builds(Record, timestamp=st.integers(0, 2**43), key=content, value=content, headers=record_headers),
    min_size=1,
    max_size=20,
)


def one(value: bytes = b"v", **options) -> bytearray:
    return build_batch([Record(value=value)], **{"timestamp": 1_000, **options})


def with_field(position: int, form: str, value: int) -> bytes:
    """A sound one-record batch in which one field is changed and the sum made right again."""
    batch = one()
    struct.pack_into(form, batch, position, value)
    seal(batch)
    return bytes(batch)


# -- building and parsing ------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(records, st.integers(0, 2**60), st.sampled_from(Compression))
def test_records_come_back_with_their_offsets(wanted: list[Record], base: int, codec: Compression) -> None:
    batch = build_batch(wanted, base_offset=base, compression=codec)
    read = parse_records(batch)
    assert [record.offset for record in read] == list(range(base, base + len(wanted)))
    assert [(r.timestamp, r.key, r.value, r.headers) for r in read] == [
        (r.timestamp, r.key, r.value, r.headers) for r in wanted
    ]


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.SNAPPY])
def test_a_kafka_client_reads_what_we_build(codec: Compression) -> None:
    wanted = [Record(key=b"k", value=b"v" * 90, headers=(("a", b"1"),)), Record(timestamp=5_000, value=None)]
    batch = build_batch(wanted, base_offset=40, timestamp=1_000, compression=codec, producer_id=9, producer_epoch=1)
    reader = MemoryRecords(bytes(batch))
    theirs = reader.next_batch()
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [
        (40, 1_000, b"k", b"v" * 90),
        (41, 5_000, None, None),
    ]


def test_the_header_says_what_was_built() -> None:
    batch = build_batch(
        [Record(timestamp=30), Record(timestamp=10), Record()],
        base_offset=100,
        leader_epoch=4,
        timestamp=20,
        producer_id=7,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        transactional=True,
    )
    header = BatchHeader.read(batch)
    assert (header.size, header.base_offset, header.last_offset, header.next_offset) == (len(batch), 100, 102, 103)
    assert (header.base_timestamp, header.max_timestamp, header.leader_epoch, header.count) == (30, 30, 4, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 2**31 - 2)
    assert header.last_sequence == 0, "sequences wrap to 0 after 2**31-1"
    assert header.is_transactional and header.has_producer
    assert not header.is_control and not header.is_log_append_time


def test_a_batch_without_records_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_control_records_carry_their_kind_in_the_key() -> None:
    batch = build_batch([Record(key=control_key(2), value=b"leader")], control=True)
    assert BatchHeader.read(batch).is_control
    assert control_kind(parse_records(batch)[0].key) == 2
    for wrong in (None, b"\x00\x00"):
        with pytest.raises(ProtocolError, match="control record"):
            control_kind(wrong)


# -- in place ------------------------------------------------------------------------------------------------------


def test_a_leader_stamps_offset_and_epoch_without_touching_the_sum() -> None:
    batch = one(producer_id=3, producer_epoch=0, base_sequence=0)
    before = bytes(batch)
    patch(batch, 123_456_789_012, 17)
    header = BatchHeader.read(batch)
    assert (header.base_offset, header.leader_epoch) == (123_456_789_012, 17)
    assert crc_ok(batch)
    assert batch[16:] == before[16:]


def test_a_log_append_time_renews_the_sum_and_rules_over_the_records_times() -> None:
    batch = build_batch([Record(timestamp=5), Record(timestamp=9)])
    stamp_log_append_time(batch, 777)
    assert crc_ok(batch)
    assert BatchHeader.read(batch).is_log_append_time
    assert [record.timestamp for record in parse_records(batch)] == [777, 777]


def test_any_flipped_bit_that_the_sum_covers_is_found() -> None:
    """Rule 1: CRC-32C over attributes and everything after them."""
    batch = bytes(one(b"some value"))
    for position in range(21, len(batch)):
        broken = bytearray(batch)
        broken[position] ^= 0x10
        assert not crc_ok(broken), position
    assert not crc_ok(batch[:20])


def test_batches_follow_each_other_as_views() -> None:
    buffer = bytes(one(b"a", base_offset=0) + one(b"bb", base_offset=1) + one(b"ccc", base_offset=2))
    found = list(iterate_batches(buffer))
    assert [header.base_offset for header, _ in found] == [0, 1, 2]
    assert b"".join(view for _, view in found) == buffer
    assert all(view.obj is buffer for _, view in found)


@pytest.mark.parametrize("left", [1, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 3])
def test_a_torn_tail_is_an_error_unless_it_is_expected(left: int) -> None:
    buffer = bytes(one(b"a") + one(b"b" * 50)[:left])
    assert len(list(iterate_batches(buffer, torn_tail=True))) == 1
    with pytest.raises(ProtocolError):
        list(iterate_batches(buffer))


@pytest.mark.parametrize(
    ("batch", "problem"),
    [
        (with_field(16, ">b", 1), "format 1"),
        (with_field(8, ">i", -1), "length -1"),
        (with_field(8, ">i", 0), "length 0"),
    ],
)
def test_a_header_that_cannot_be_is_refused_even_as_a_torn_tail(batch: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        list(iterate_batches(batch, torn_tail=True))


def test_records_that_disagree_with_their_header_are_refused() -> None:
    for broken, problem in (
        (with_field(57, ">i", 2), "malformed|a record of"),
        (with_field(57, ">i", 2**31 - 1), "2147483647 records"),
        (with_field(57, ">i", 0), "after the last record"),
        (with_field(21, ">h", 7), "compression 7"),
        (with_field(21, ">h", 1), "gzip"),
        (bytes(one()) + b"x", "in a buffer of"),
    ):
        with pytest.raises(ProtocolError, match=problem):
            parse_records(broken)


# -- what a leader takes from a client ------------------------------------------------------------------------------


def refusal(batch: bytes | bytearray | None, *, max_bytes: int = 1_000, produce_version: int = 9) -> ErrorCode:
    with pytest.raises(InvalidBatch) as caught:
        validate_client_batch(batch, max_bytes=max_bytes, produce_version=produce_version)
    return caught.value.error


def test_a_sound_batch_is_taken() -> None:
    batch = one(producer_id=5, producer_epoch=0, base_sequence=0)
    assert validate_client_batch(memoryview(batch), max_bytes=len(batch)).producer_id == 5


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (one() + one(), ErrorCode.INVALID_RECORD),
        (one()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (one()[:30], ErrorCode.CORRUPT_MESSAGE),
        (with_field(16, ">b", 1), ErrorCode.CORRUPT_MESSAGE),
        (with_field(57, ">i", 0), ErrorCode.INVALID_RECORD),
        (with_field(57, ">i", -1), ErrorCode.INVALID_RECORD),
        (with_field(23, ">i", 1), ErrorCode.INVALID_RECORD),
        (with_field(21, ">h", 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (one(control=True), ErrorCode.INVALID_RECORD),
        (one(producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (one(producer_id=5, base_sequence=0), ErrorCode.INVALID_RECORD),
        (one(b"x" * 1_000), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_what_a_leader_refuses(batch: bytes | None, error: ErrorCode) -> None:
    """Rule 1: what no client may send."""
    assert refusal(batch) == error


def test_a_batch_with_a_wrong_sum_is_corrupt() -> None:
    batch = one()
    batch[-1] ^= 1
    assert refusal(batch) == ErrorCode.CORRUPT_MESSAGE


def test_zstd_needs_produce_version_7() -> None:
    batch = one(compression=Compression.ZSTD)
    assert refusal(batch, produce_version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    validate_client_batch(batch, max_bytes=1_000, produce_version=7)


# -- compression ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_a_small_batch_cannot_ask_for_all_memory(codec: Compression) -> None:
    bomb = compress(codec, bytes(1 << 20))
    assert len(decompress(codec, bomb)) == 1 << 20
    with pytest.raises(ProtocolError, match=naming("65536 bytes")):
        decompress(codec, bomb, limit=1 << 16)


def test_snappy_is_read_with_and_without_xerials_framing() -> None:
    import cramjam

    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(b"abc" * 50))) == b"abc" * 50
    assert decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"abc" * 50_000)) == b"abc" * 50_000


def test_a_missing_codec_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    batch = one(compression=Compression.LZ4)
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(CodecMissing, match=naming("package lz4")):
        parse_records(batch)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("count", [2**31 - 1, 1 << 20])
def test_a_batch_that_claims_more_records_than_its_bytes_hold_is_refused(count: int, codec: Compression) -> None:
    """Each would use up the offsets of a segment."""
    batch = build_batch([Record(value=b"v")], compression=codec)
    batch[57:61] = count.to_bytes(4, "big")
    batch[23:27] = (count - 1).to_bytes(4, "big")
    seal(batch)
    with pytest.raises(InvalidBatch, match=f"{count} records") as caught:
        validate_client_batch(batch, max_bytes=1 << 20)
    assert caught.value.error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name)
@pytest.mark.parametrize("count", [1, 2, 100, 60_000])
def test_as_many_of_the_shortest_records_as_there_can_be_are_taken(count: int, codec: Compression) -> None:
    batch = build_batch([Record(key=None, value=None)] * count, compression=codec)
    assert validate_client_batch(batch, max_bytes=1 << 20).count == count
