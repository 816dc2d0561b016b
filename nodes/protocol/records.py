"""Record batches, format 2: read and patch the header of a batch in place, build and parse batches.

The first 61 bytes of a batch are fixed. Base offset, length and partition leader epoch precede the part that the
CRC-32C covers, so a leader sets them without changing the sum; everything else is covered. To a broker a batch is an
opaque buffer with a header. Records are built and parsed here for control batches, metadata records and the native
client.

    view = memoryview(bytes_of_a_log)
    for header, batch in iterate_batches(view): ...

All malformed input raises ProtocolError. A client's batch that a leader must refuse raises its subclass `InvalidBatch`,
which carries Kafka's error code: the leader requires one batch, the right sum, counts that agree, no control batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct

from squall.nodes.protocol.compression import Compression, compress, decompress
from squall.nodes.protocol.crc import crc32c
from squall.nodes.protocol.errors import ErrorCode, ProtocolError
from squall.nodes.protocol.record import Record, append_record, parse_record

Buffer = bytes | bytearray | memoryview

#         base offset, length, leader epoch, magic, crc, attributes, last offset delta,
#         base timestamp, max timestamp, producer id, producer epoch, base sequence, count
_HEADER = Struct(">qiibIhiqqqhii")
_PREFIX = Struct(">qi")
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")
_CONTROL_KEY = Struct(">hh")

HEADER_SIZE = _HEADER.size
PREFIX_SIZE = _PREFIX.size
"""Base offset and length: the bytes of a batch that its length does not include."""
MAGIC = 2
_LEADER_EPOCH_AT = 12
_CRC_AT = 17
_COVERED_FROM = 21
_MAX_TIMESTAMP_AT = 35

RECORD_LEAST = 7
"""Bytes of the shortest record: length, attributes, two deltas, two lengths of null, no headers."""
COMPRESSED_MOST = 1100
"""The highest compression ratio that is possible, rounded up: gzip, the tightest codec, reaches 1032 to 1."""
_COMPRESSION_BITS = 0x07
_CODECS = tuple(Compression)
_LOG_APPEND_TIME_BIT = 0x08
_TRANSACTIONAL_BIT = 0x10
_CONTROL_BIT = 0x20


@dataclass(slots=True)
class BatchHeader:
    """The fixed part of a batch, by Kafka's names. `length` counts what follows it; `size` is the whole batch."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @classmethod
    def read(cls, batch: Buffer, position: int = 0) -> BatchHeader:
        """Read the header at a position. Raises ProtocolError if it is cut off or of another format."""
        if len(batch) - position < HEADER_SIZE:
            raise ProtocolError(f"a batch header needs {HEADER_SIZE} bytes, {len(batch) - position} are left")
        header = cls(*_HEADER.unpack_from(batch, position))
        if header.magic != MAGIC:
            raise ProtocolError(f"a batch of format {header.magic}; only format {MAGIC} is spoken here")
        if header.length < HEADER_SIZE - PREFIX_SIZE:
            raise ProtocolError(f"a batch of length {header.length} is shorter than its header")
        return header

    @property
    def size(self) -> int:
        return PREFIX_SIZE + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2**31-1 to 0; -1 without an idempotent producer."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self) -> int:
        """A `Compression`, or a number without a codec."""
        return self.attributes & _COMPRESSION_BITS

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & _LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & _TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & _CONTROL_BIT != 0

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0


class InvalidBatch(ProtocolError):
    """A client's batch that a leader must not append; `error` is Kafka's code for the response."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


# -- batches as buffers --------------------------------------------------------------------------------------------


def iterate_batches(buffer: Buffer, *, torn_tail: bool = False) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Header and view of every batch, in order. Raises ProtocolError where one is malformed.

    With `torn_tail`, a batch that reaches beyond the buffer ends the iteration instead: a fetch may cut the last one.
    """
    view = memoryview(buffer)
    position, end = 0, len(view)
    while position < end:
        if torn_tail and end - position < HEADER_SIZE:
            return
        header = BatchHeader.read(view, position)
        stop = position + header.size
        if stop > end:
            if torn_tail:
                return
            raise ProtocolError(f"a batch of {header.size} bytes where {end - position} are left")
        yield header, view[position:stop]
        position = stop


def patch(buffer: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set a batch's base offset and leader epoch; the sum does not cover these fields."""
    _BASE_OFFSET.pack_into(buffer, 0, base_offset)
    _LEADER_EPOCH.pack_into(buffer, _LEADER_EPOCH_AT, leader_epoch)


def stamp_log_append_time(buffer: bytearray | memoryview, timestamp_ms: int) -> None:
    """Set the broker's time for all records of a batch (`message.timestamp.type=LogAppendTime`), and update the sum."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, _COVERED_FROM)
    _ATTRIBUTES.pack_into(buffer, _COVERED_FROM, attributes | _LOG_APPEND_TIME_BIT)
    _MAX_TIMESTAMP.pack_into(buffer, _MAX_TIMESTAMP_AT, timestamp_ms)
    seal(buffer)


def seal(buffer: bytearray | memoryview) -> None:
    """Write the sum of a batch that fills the buffer."""
    with memoryview(buffer) as view:
        _CRC.pack_into(buffer, _CRC_AT, crc32c(view[_COVERED_FROM:]))


def crc_ok(batch: Buffer) -> bool:
    """Whether the sum of one whole batch, as in the view that `iterate_batches` gives, is right."""
    view = memoryview(batch)
    if len(view) < HEADER_SIZE:
        return False
    (expected,) = _CRC.unpack_from(view, _CRC_AT)
    return crc32c(view[_COVERED_FROM:]) == int(expected)


def validate_client_batch(records: Buffer | None, *, max_bytes: int, produce_version: int = 12) -> BatchHeader:
    """Check what a client sent for one topic-partition before the leader appends it. Raises InvalidBatch.

    Compressed batches are not decompressed: the sum protects their content, the header states the number of records.
    That number may not exceed what the bytes can hold, or one batch could use up the offsets of a whole segment.
    """
    if records is None or len(records) == 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "no batch where exactly one is required")
    header = _readable_header(records)
    if len(records) > header.size:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "more than one batch where exactly one is required")
    if header.size > max_bytes:
        problem = f"a batch of {header.size} bytes; max.message.bytes is {max_bytes}"
        raise InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, problem)
    if not crc_ok(records):
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "the batch's CRC-32C is wrong")
    _check_client_fields(header, produce_version)
    return header


def _readable_header(records: Buffer) -> BatchHeader:
    try:
        header = BatchHeader.read(records)
    except ProtocolError as trouble:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, str(trouble)) from trouble
    if len(records) < header.size:
        problem = f"a batch of {header.size} bytes of which {len(records)} were sent"
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, problem)
    return header


def _check_client_fields(header: BatchHeader, produce_version: int) -> None:
    if header.count <= 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"a batch of {header.count} records")
    if header.last_offset_delta + 1 != header.count:
        problem = f"last offset delta {header.last_offset_delta} does not fit {header.count} records"
        raise InvalidBatch(ErrorCode.INVALID_RECORD, problem)
    most = (header.size - HEADER_SIZE) * (1 if not header.compression else COMPRESSED_MOST)
    if header.count * RECORD_LEAST > most:
        problem = f"a batch of {header.count} records, which {header.size} bytes cannot hold"
        raise InvalidBatch(ErrorCode.INVALID_RECORD, problem)
    if header.is_control:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "clients must not write control batches")
    if header.has_producer and (header.base_sequence < 0 or header.producer_epoch < 0):
        problem = f"producer {header.producer_id} sent epoch {header.producer_epoch}, sequence {header.base_sequence}"
        raise InvalidBatch(ErrorCode.INVALID_RECORD, problem)
    if header.compression > Compression.ZSTD:
        raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {header.compression} is not known")
    if header.compression == Compression.ZSTD and produce_version < 7:
        raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")


# -- building ------------------------------------------------------------------------------------------------------


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    timestamp: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    control: bool = False,
    transactional: bool = False,
    compression: Compression = Compression.NONE,
) -> bytearray:
    """Build one sealed batch of the records. `timestamp` (milliseconds) is for records without one."""
    if not records:
        raise ValueError("a batch holds at least one record")
    times = [record.timestamp if record.timestamp >= 0 else timestamp for record in records]
    content = bytearray()
    for delta, (record, time) in enumerate(zip(records, times, strict=True)):
        append_record(content, delta, time - times[0], record)
    body = compress(compression, bytes(content)) if compression else content
    attributes = compression | (_TRANSACTIONAL_BIT if transactional else 0) | (_CONTROL_BIT if control else 0)
    return assemble_batch(
        body,
        len(records),
        base_timestamp=times[0],
        max_timestamp=max(times),
        attributes=attributes,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def assemble_batch(
    body: Buffer,
    count: int,
    *,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """Build one sealed batch from records that are encoded already, and compressed if the attributes say so."""
    batch = bytearray(HEADER_SIZE)
    _HEADER.pack_into(
        batch,
        0,
        base_offset,
        HEADER_SIZE - PREFIX_SIZE + len(body),
        leader_epoch,
        MAGIC,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    batch += body
    seal(batch)
    return batch


def control_key(kind: int) -> bytes:
    """The key of a control record: version 0 and its kind (2 LeaderChange, 3 and 4 snapshot header and footer, …)."""
    return _CONTROL_KEY.pack(0, kind)


def control_kind(key: Buffer | None) -> int:
    """The kind in a control record's key. Raises ProtocolError."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise ProtocolError("a control record without a key of four bytes")
    return int(_CONTROL_KEY.unpack_from(key)[1])


# -- parsing -------------------------------------------------------------------------------------------------------


def parse_records(batch: Buffer) -> list[Record]:
    """Parse the records of one whole batch. Raises ProtocolError if they are malformed; does not check the sum."""
    header = BatchHeader.read(batch)
    if header.size != len(batch):
        raise ProtocolError(f"a batch of {header.size} bytes in a buffer of {len(batch)}")
    if header.compression >= len(_CODECS):
        raise ProtocolError(f"compression {header.compression} is not known")
    content = decompress(_CODECS[header.compression], memoryview(batch)[HEADER_SIZE:])
    if not 0 <= header.count <= len(content):
        raise ProtocolError(f"{header.count} records in {len(content)} bytes")
    try:
        records = _parse_content(content, header)
    except (IndexError, UnicodeDecodeError) as trouble:
        raise ProtocolError(f"a malformed record: {trouble}") from trouble
    return records


def _parse_content(content: bytes, header: BatchHeader) -> list[Record]:
    log_append_time = header.max_timestamp if header.is_log_append_time else None
    records: list[Record] = []
    position = 0
    for _ in range(header.count):
        record, position = parse_record(content, position, header.base_offset, header.base_timestamp, log_append_time)
        records.append(record)
    if position != len(content):
        raise ProtocolError(f"{len(content) - position} bytes after the last record")
    return records
