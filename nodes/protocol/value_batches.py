"""Build and parse batches of plain values, as in the metadata log: no keys, no headers, one timestamp for all records.

A batch of ten thousand such records is built and parsed here several times faster than record by record: the bytes
around each value come from tables. `build_value_batch` writes what `records.build_batch` would; `parse_values` reads
the usual form and passes any other form, malformed batches included, to `records.parse_records`.

A record of a value: length, attributes (0), time delta (0), offset delta, no key (-1), the value with its length, no
headers (0); numbers are zigzag varints, of one byte below 64, of two below 8192, of three below 2**20.
"""

from __future__ import annotations

from collections.abc import Sequence

from squall.nodes.protocol.compression import Compression
from squall.nodes.protocol.records import (
    HEADER_SIZE,
    BatchHeader,
    Buffer,
    Record,
    assemble_batch,
    build_batch,
    parse_records,
)

LONGEST_VALUE = 8000
"""The longest value: the record of a longer one might need a length varint of more than two bytes."""
MOST_RECORDS = 1 << 20
NOT_COMPRESSED = int(Compression.NONE)
_KNOWN = tuple(bytes((n << 1,)) if n < 64 else bytes((n << 1 & 0x7F | 0x80, n >> 6)) for n in range(8192))
"""Varints of lengths, and of most offset deltas."""
PLACES = 10_000
"""The default maximum of records in a batch of the metadata log."""


def build_value_batch(values: Sequence[bytes], timestamp: int) -> bytearray:
    """Build one sealed batch of these values."""
    if not values or len(values) > MOST_RECORDS or max(map(len, values)) > LONGEST_VALUE:
        return build_batch([Record(value=value) for value in values], timestamp=timestamp)
    return assemble_batch(_content(values), len(values), base_timestamp=timestamp, max_timestamp=timestamp)


def _content(values: Sequence[bytes]) -> bytes:
    pieces: list[bytes] = []
    for delta, value in enumerate(values):
        place = _PLACES[delta] if delta < PLACES else b"\0\0" + _three_bytes(delta) + b"\1"
        size, length = len(value), _KNOWN[len(value)]
        pieces += (_KNOWN[1 + len(place) + len(length) + size], place, length, value, b"\0")
    return b"".join(pieces)


def _three_bytes(number: int) -> bytes:
    return bytes((number << 1 & 0x7F | 0x80, number >> 6 & 0x7F | 0x80, number >> 13))


_PLACES = tuple(b"\0\0" + (_KNOWN[n] if n < 8192 else _three_bytes(n)) + b"\1" for n in range(PLACES))
"""By offset delta: the bytes between length and value, from the attributes to the missing key."""


def parse_values(batch: Buffer) -> tuple[bytes, ...]:
    """The values of one whole batch, empty where a record has none. Raises ProtocolError if it is malformed."""
    values = _usual_values(batch)
    return tuple(record.value or b"" for record in parse_records(batch)) if values is None else values


def _usual_values(batch: Buffer) -> tuple[bytes, ...] | None:
    header = BatchHeader.read(batch)
    if header.size != len(batch) or header.compression != NOT_COMPRESSED or not 0 < header.count <= PLACES:
        return None
    content = bytes(memoryview(batch)[HEADER_SIZE:])
    values: list[bytes] = []
    position = 0
    try:
        for place in _PLACES[: header.count]:
            length = content[position]
            position += 1
            if length > 0x7F:
                length = length & 0x7F | content[position] << 7
                position += 1
            stop = position + (length >> 1)
            if length & 1 or length > 0x3FFF or not content.startswith(place, position):
                return None
            position += len(place) + 1
            length = content[position - 1]
            if length > 0x7F:
                length = length & 0x7F | content[position] << 7
                position += 1
            end = position + (length >> 1)
            if length & 1 or length > 0x3FFF or end + 1 != stop or content[end]:
                return None
            values.append(content[position:end])
            position = stop
    except IndexError:
        return None
    return tuple(values) if position == len(content) else None
