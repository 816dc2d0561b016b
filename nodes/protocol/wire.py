"""Helpers of generated codecs: variable-length integers, tagged fields, and the errors of malformed input.

These functions are on the hot path; `compiler` inlines the common cases and calls them for the rest. Positions are
explicit, no bytes are copied. Reading beyond the end raises IndexError, which the compiler's entry points turn into
ProtocolError.
"""

from __future__ import annotations

from collections.abc import Callable

from squall.nodes.protocol.errors import ProtocolError

Buffer = bytes | bytearray | memoryview

SMALL = tuple(bytes([value]) for value in range(0x80))
"""The unsigned varints of one byte."""

_LONGEST_SHIFT = 28
"""The shift of the fifth byte, the last of a 32-bit varint."""


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint, as used by compact lengths and tags: seven bits a byte, lowest first."""
    if value < 0x80:
        return SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(view: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes; return it with its end."""
    byte = view[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while shift <= _LONGEST_SHIFT:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ProtocolError("a varint is longer than five bytes")


def read_tag(view: Buffer, position: int, end: int) -> tuple[int, int, int]:
    """Read the head of a tagged field: its tag, and the start and end of its content."""
    tag, position = read_uvarint(view, position)
    size, position = read_uvarint(view, position)
    if position + size > end:
        raise ProtocolError(f"tagged field {tag} of {size} bytes where {end - position} are left")
    return tag, position, position + size


def skip_tags(view: Buffer, position: int, end: int) -> int:
    """Skip a section of unknown tagged fields."""
    number, position = read_uvarint(view, position)
    for _ in range(number):
        _, _, position = read_tag(view, position, end)
    return position


def write_tags(tags: list[tuple[int, bytes]], append: Callable[[bytes], None]) -> None:
    """Write a section of tagged fields, given in ascending order of tags."""
    append(uvarint(len(tags)))
    for tag, content in tags:
        size = len(content)
        append(SMALL[tag] if tag < 0x80 else uvarint(tag))
        append(SMALL[size] if size < 0x80 else uvarint(size))
        append(content)


# -- errors, made here so that generated code stays short ----------------------------------------------------------


def too_long(length: int, left: int) -> ProtocolError:
    return ProtocolError(f"a length of {length} where {left} bytes are left")


def too_many() -> ProtocolError:
    return ProtocolError("a message with more items in its arrays than is allowed")


def not_null(field: str) -> ProtocolError:
    return ProtocolError(f"{field} is null where a value is required")


def wrong_size(tag: int) -> ProtocolError:
    return ProtocolError(f"tagged field {tag} does not fill its size")
