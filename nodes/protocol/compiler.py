"""Generate code from schemas: one encode and one decode function per (message class, version), on first use.

The generated source is plain, flat Python: a run of fixed-size fields is one `struct` call, an array is a loop, nested
messages are written and read in place, without a function call. `encoder_source` and `decoder_source` return it.
Generated code is about ten times as fast as interpreting the schema, without which a broker in Python is too slow.

*Copies.* Record batches pass through as the buffers they are: encoded, they are separate chunks in the list that
`encode` returns; decoded, they are views of the frame. Everything else is joined into as few chunks as possible.

*Bounds.* Every length read from the wire is compared with the remaining bytes before anything is allocated; the length
of an array is multiplied by the least size of an item, so a short frame cannot claim a long array. An item may still
take two bytes on the wire and hundreds in memory, so a caller can bound the total number of items. All malformed input
raises `ProtocolError`, and no other exception. Unknown tagged fields are skipped, for Kafka's forward compatibility.

*Versions.* A field that is absent from a version keeps its default when decoded and is left out when encoded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from squall.nodes.protocol.codegen import Source
from squall.nodes.protocol.decoding import DecoderWriter
from squall.nodes.protocol.encoding import EncoderWriter
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.schema import Message, fields_of
from squall.nodes.protocol.wire import Buffer, read_uvarint, skip_tags, uvarint

__all__ = [
    "NO_LIMIT",
    "Buffer",
    "decode",
    "decode_from",
    "decoder_source",
    "encode",
    "encode_bytes",
    "encoder_source",
    "is_flexible",
    "read_uvarint",
    "skip_tags",
    "uvarint",
]

Encoder = Callable[[Any, Callable[[Buffer], None]], None]
Decoder = Callable[[memoryview, int, int, list[int]], tuple[Any, int]]
Decoded = TypeVar("Decoded", bound=Message)

NO_LIMIT = 1 << 62
"""More items than any array can have."""
CHUNK_WORTH_KEEPING = 1024
"""Record batches shorter than this are copied: cheaper than one more buffer in every system call."""


# -- entry points --------------------------------------------------------------------------------------------------


def encode(message: Message, version: int) -> list[Buffer]:
    """Encode a message as a list of buffers to be sent in order.

    Raises ProtocolError if it has no form in this version.
    """
    cls: Any = type(message)
    out: list[Buffer] = []
    try:
        encoder_of(cls, version)(message, out.append)
        if not carries_records(cls, version) or max(map(len, out), default=0) < CHUNK_WORTH_KEEPING:
            return [b"".join(out)]
        return _coalesced(out)
    except (struct.error, TypeError, AttributeError, ValueError) as trouble:
        raise ProtocolError(f"{cls.__name__} v{version}: cannot be encoded: {trouble}") from trouble


def encode_bytes(message: Message, version: int) -> bytes:
    """Encode a message into one buffer."""
    return b"".join(encode(message, version))


def decode(cls: type[Decoded], version: int, buffer: Buffer) -> Decoded:
    """Decode the message that fills the buffer. Record fields are views of it. Raises ProtocolError."""
    view = memoryview(buffer)
    message, end = decode_from(cls, version, view, 0)
    if end != len(view):
        raise ProtocolError(f"{cls.__name__} v{version}: {len(view) - end} bytes too many")
    return message


def decode_from(
    cls: type[Decoded], version: int, view: memoryview, position: int, left: list[int] | None = None
) -> tuple[Decoded, int]:
    """Decode the message at a position and return it with its end. Raises ProtocolError.

    `left` holds one number, the items that all arrays of the message may still have together; decoded items are
    subtracted.
    """
    key: Any = cls
    try:
        return decoder_of(key, version)(view, position, len(view), [NO_LIMIT] if left is None else left)
    except (struct.error, IndexError, ValueError, OverflowError, MemoryError) as trouble:
        raise ProtocolError(f"{cls.__name__} v{version}: {trouble}") from trouble


def is_flexible(cls: type[Message], version: int) -> bool:
    """Whether this version has compact lengths and tagged fields."""
    return version >= cls.FLEXIBLE_FROM


def _coalesced(chunks: list[Buffer]) -> list[Buffer]:
    """Join small neighbours, leave large buffers as they are."""
    out: list[Buffer] = []
    begin = 0
    for index, chunk in enumerate(chunks):
        if len(chunk) >= CHUNK_WORTH_KEEPING:
            if begin < index:
                out.append(b"".join(chunks[begin:index]))
            out.append(chunk)
            begin = index + 1
    if begin < len(chunks):
        out.append(b"".join(chunks[begin:]))
    return out


# -- codecs, made once ---------------------------------------------------------------------------------------------


@cache
def encoder_of(cls: Any, version: int) -> Encoder:
    """The encode function: (message, append)."""
    _check(cls, version)
    encoder: Encoder = _encoder(cls, version).function("encode")
    return encoder


def encoder_source(cls: type[Message], version: int) -> str:
    """The source of `encoder_of`, for reading."""
    return _encoder(cls, version).text()


def _encoder(cls: type[Message], version: int) -> Source:
    source = Source("def encode(m, a):")
    EncoderWriter(source, version, is_flexible(cls, version)).part(1, "m", cls, "a")
    return source


@cache
def decoder_of(cls: Any, version: int) -> Decoder:
    """The decode function: (view, position, end, [items left]) to (message, new position)."""
    _check(cls, version)
    decoder: Decoder = _decoder(cls, version).function("decode")
    return decoder


def decoder_source(cls: type[Message], version: int) -> str:
    """The source of `decoder_of`, for reading."""
    return _decoder(cls, version).text()


def _decoder(cls: type[Message], version: int) -> Source:
    source = Source("def decode(b, p, e, left):")
    made = DecoderWriter(source, version, is_flexible(cls, version)).part(1, cls, "e")
    source.add(1, f"return {made}, p")
    return source


def _check(cls: type[Message], version: int) -> None:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise ProtocolError(f"{cls.__name__} has versions {first} to {last}, not {version}")


@cache
def carries_records(cls: Any, version: int) -> bool:
    """Whether record batches are among the fields, at any depth."""
    for _, schema in fields_of(cls):
        if version in schema.versions and (
            schema.type == "records" or (isinstance(schema.element, type) and carries_records(schema.element, version))
        ):
            return True
    return False
