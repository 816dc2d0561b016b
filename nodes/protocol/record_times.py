"""Find the first record of a batch that is not older than a time, without parsing the whole batch.

A broker reads inside a batch only for this (ListOffsets by time). A producer can make a batch costly on purpose: a
hundred kilobytes of gzip can be a hundred megabytes, or ten million records. So the content is decompressed piece by
piece, only the length and timestamp of each record are read, and after `BYTES_MAX` or `RECORDS_MAX` the search fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from squall.nodes.protocol.compression import Compression, decompress_pieces
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.records import HEADER_SIZE, BatchHeader, Buffer

BYTES_MAX = 16 << 20
"""The most decompressed bytes that a search reads."""
RECORDS_MAX = 1 << 16
"""The most records that a search reads, which takes about a tenth of a second."""


LONG_MAX = 2**63 - 1
NO_TIMESTAMP = -1


class _Bytes:
    """The content as one stream, most of which is skipped."""

    __slots__ = ("_at", "_piece", "_pieces")

    def __init__(self, pieces: Iterator[Buffer]) -> None:
        self._pieces = pieces
        self._piece: Buffer = b""
        self._at = 0

    def byte(self) -> int:
        while self._at >= len(self._piece):
            self._next()
        found = self._piece[self._at]
        self._at += 1
        return found

    def varint(self) -> tuple[int, int]:
        """A zigzag varint, and how many bytes it took."""
        value = shift = taken = 0
        while True:
            byte = self.byte()
            taken += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value >> 1 ^ -(value & 1), taken
            shift += 7
            if shift > 63:
                raise ProtocolError("a varint is longer than ten bytes")

    def skip(self, size: int) -> None:
        self._at += size
        while self._at > len(self._piece):
            self._next()

    def _next(self) -> None:
        beyond = self._at - len(self._piece)
        piece = next(self._pieces, None)
        if piece is None:
            raise ProtocolError("the records end before the last of them")
        self._piece, self._at = piece, beyond


def record_times(
    batch: Buffer, *, bytes_max: int = BYTES_MAX, records_max: int = RECORDS_MAX
) -> Iterator[tuple[int, int]]:
    """(timestamp, offset) of each record of one whole batch, in order.

    Raises ProtocolError where the batch turns out to be malformed, or exceeds a bound.
    """
    header = BatchHeader.read(batch)
    if header.compression > Compression.ZSTD:
        raise ProtocolError(f"compression {header.compression} is not known")
    pieces = decompress_pieces(Compression(header.compression), memoryview(batch)[HEADER_SIZE:], bytes_max)
    content = _Bytes(pieces)
    for number in range(header.count):
        if number >= records_max:
            raise ProtocolError(f"a batch of {header.count} records; {records_max} are looked through")
        length, _ = content.varint()
        content.byte()
        time_delta, time_size = content.varint()
        offset_delta, offset_size = content.varint()
        yield header.base_timestamp + time_delta, header.base_offset + offset_delta
        rest = length - 1 - time_size - offset_size
        if rest < 0:
            raise ProtocolError(f"a record of {length} bytes is shorter than its fields")
        content.skip(rest)


def first_not_older(
    batch: Buffer,
    timestamp_ms: int,
    *,
    start: int = 0,
    upper: int = LONG_MAX,
    bytes_max: int = BYTES_MAX,
    records_max: int = RECORDS_MAX,
) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record in [start, upper) at or after the time, or None. See `record_times`."""
    times = record_times(batch, bytes_max=bytes_max, records_max=records_max)
    return next((one for one in times if one[0] >= timestamp_ms and start <= one[1] < upper), None)


def largest_from(batch: Buffer, start: int) -> int:
    """The largest timestamp of the records at or above `start`, -1 if there are none. See `record_times`."""
    return max((timestamp for timestamp, offset in record_times(batch) if offset >= start), default=NO_TIMESTAMP)
