"""Encode and parse one record inside a batch of format 2: varints, zigzag, deltas against the batch's header."""

from __future__ import annotations

from dataclasses import dataclass

from squall.nodes.protocol.errors import ProtocolError


@dataclass(frozen=True, slots=True)
class Record:
    """One record. When building a batch, `offset` is ignored and a `timestamp` of -1 takes the batch's."""

    offset: int = -1
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def append_record(out: bytearray, offset_delta: int, time_delta: int, record: Record) -> None:
    """Append the record's bytes, with offset and timestamp relative to the batch."""
    body = bytearray(1)  # attributes, unused
    _append_varint(body, time_delta)
    _append_varint(body, offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    _append_varint(body, len(record.headers))
    for name, value in record.headers:
        _append_bytes(body, name.encode())
        _append_bytes(body, value)
    _append_varint(out, len(body))
    out += body


def _append_bytes(out: bytearray, content: bytes | None) -> None:
    if content is None:
        out.append(1)  # zigzag of -1
        return
    _append_varint(out, len(content))
    out += content


def _append_varint(out: bytearray, value: int) -> None:
    """Zigzag, then seven bits a byte, lowest first."""
    value = value << 1 ^ value >> 63
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def parse_record(
    content: bytes, position: int, base_offset: int, base_timestamp: int, log_append_time: int | None
) -> tuple[Record, int]:
    """Return the record at a position and its end. A log append time replaces the record's own timestamp.

    Raises ProtocolError, or IndexError beyond the end, or UnicodeDecodeError.
    """
    length, position = _varint(content, position)
    stop = position + length
    if length < 0 or stop > len(content):
        raise ProtocolError(f"a record of {length} bytes where {len(content) - position} are left")
    time_delta, position = _varint(content, position + 1)
    offset_delta, position = _varint(content, position)
    key, position = _take(content, position, stop)
    value, position = _take(content, position, stop)
    number, position = _varint(content, position)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if number:
        headers, position = _parse_headers(content, position, stop, number)
    if position != stop:
        raise ProtocolError("a record's length and its fields disagree")
    timestamp = base_timestamp + time_delta if log_append_time is None else log_append_time
    return Record(base_offset + offset_delta, timestamp, key, value, headers), position


def _parse_headers(
    content: bytes, position: int, stop: int, number: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if not 0 <= number <= stop - position:
        raise ProtocolError(f"{number} headers where {stop - position} bytes are left")
    headers = []
    for _ in range(number):
        name, position = _take(content, position, stop)
        if name is None:
            raise ProtocolError("a record header without a name")
        value, position = _take(content, position, stop)
        headers.append((name.decode(), value))
    return tuple(headers), position


def _take(content: bytes, position: int, stop: int) -> tuple[bytes | None, int]:
    length, position = _varint(content, position)
    if length < 0:
        if length != -1:
            raise ProtocolError(f"a length of {length}")
        return None, position
    end = position + length
    if end > stop:
        raise ProtocolError(f"a length of {length} where {stop - position} bytes are left")
    return content[position:end], end


def _varint(content: bytes, position: int) -> tuple[int, int]:
    byte = content[position]
    position += 1
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise ProtocolError("a varint is longer than ten bytes")
