"""Compress and decompress record batches.

A broker does not need it: it stores and serves compressed batches as received (rule 1). Clients and tools do. Only gzip
is in the standard library; the other codecs work where their package is importable, and otherwise the error names the
missing package. Decompression is bounded, so that a small batch cannot exhaust memory.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from enum import IntEnum
from types import ModuleType
from typing import Any

from squall.nodes.protocol.errors import ProtocolError

Buffer = bytes | bytearray | memoryview

MAX_DECOMPRESSED = 256 << 20
PIECE = 64 << 10
ZSTD_WINDOW_MAX = 8 << 20
"""The window that every reader of zstd must support, and the most allowed here: a frame may claim gigabytes."""
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 << 10


class Compression(IntEnum):
    """Bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CodecMissing(ProtocolError):
    """The batch is valid, but this host lacks the package to read it."""


def _package(name: str, codec: Compression) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as trouble:
        needed = name.partition(".")[0]
        raise CodecMissing(f"{codec.name.lower()} needs the package {needed}, which is not installed") from trouble


def compress(codec: Compression, content: bytes) -> bytes:
    """Compress content into the form that Kafka's clients use for that codec."""
    result: Any
    if codec is Compression.NONE:
        result = content
    elif codec is Compression.GZIP:
        worker = zlib.compressobj(wbits=31)
        result = worker.compress(content) + worker.flush()
    elif codec is Compression.LZ4:
        result = _package("lz4.frame", codec).compress(content)
    elif codec is Compression.ZSTD:
        result = _package("zstandard", codec).ZstdCompressor().compress(content)
    else:
        result = _snappy_blocks(content)
    return bytes(result)


def _snappy_blocks(content: bytes) -> bytes:
    """Compress to snappy in the framing of xerial's stream, which Java clients read and write."""
    snappy: Any = _package("cramjam", Compression.SNAPPY).snappy
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(content), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(content[start : start + _XERIAL_BLOCK]))
        out += len(block).to_bytes(4, "big") + block
    return bytes(out)


def decompress(codec: Compression, content: Buffer, limit: int = MAX_DECOMPRESSED) -> bytes:
    """Decompress content. Raises ProtocolError if it is malformed or larger than the limit."""
    if codec is Compression.NONE:
        return bytes(content)
    try:
        if codec is Compression.GZIP:
            return _bounded(zlib.decompressobj(wbits=31), bytes(content), limit)
        if codec is Compression.LZ4:
            return _bounded(_package("lz4.frame", codec).LZ4FrameDecompressor(), bytes(content), limit)
        if codec is Compression.ZSTD:
            return _unzstd(bytes(content), limit)
        return _unsnappy(bytes(content), limit)
    except ProtocolError:
        raise
    except Exception as trouble:
        # Each codec has its own exceptions; all of them mean that the bytes are not in the claimed format.
        raise ProtocolError(f"a batch that is not {codec.name.lower()}: {trouble}") from trouble


def decompress_pieces(codec: Compression, content: Buffer, limit: int = MAX_DECOMPRESSED) -> Iterator[Buffer]:
    """Decompress content piece by piece: a caller that stops early has decompressed no more than it consumed.

    Raises ProtocolError during the iteration if the content is malformed or exceeds `limit` bytes.
    """
    total = 0
    pieces = _pieces_of(codec, content, limit)
    while True:
        try:
            piece = next(pieces, None)
        except ProtocolError:
            raise
        except Exception as trouble:
            raise ProtocolError(f"a batch that is not {codec.name.lower()}: {trouble}") from trouble
        if piece is None:
            return
        total += len(piece)
        if total > limit:
            raise _too_large(limit)
        yield piece


def _pieces_of(codec: Compression, content: Buffer, limit: int) -> Iterator[Buffer]:
    if codec is Compression.NONE:
        yield content
    elif codec is Compression.GZIP:
        worker = zlib.decompressobj(wbits=31)
        rest = bytes(content)
        while not worker.eof and rest:
            yield worker.decompress(rest, PIECE)
            rest = worker.unconsumed_tail
    elif codec is Compression.LZ4:
        lz4 = _package("lz4.frame", codec).LZ4FrameDecompressor()
        given = bytes(content)
        while not lz4.eof:
            piece: bytes = lz4.decompress(given, PIECE)
            if not piece and lz4.needs_input:
                return
            given = b""
            yield piece
    elif codec is Compression.ZSTD:
        reader: Any = _package("zstandard", codec).ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX)
        stream = reader.stream_reader(bytes(content))
        while piece := stream.read(PIECE):
            yield piece
    else:
        yield _unsnappy(bytes(content), limit)


def _too_large(limit: int) -> ProtocolError:
    return ProtocolError(f"a compressed batch holds more than {limit} bytes")


def _bounded(worker: Any, content: bytes, limit: int) -> bytes:
    out: bytes = worker.decompress(content, limit)
    if not worker.eof:
        raise _too_large(limit) if len(out) >= limit else ProtocolError("a compressed batch is cut off")
    return out


def _unzstd(content: bytes, limit: int) -> bytes:
    zstandard: Any = _package("zstandard", Compression.ZSTD)
    reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX).stream_reader(content)
    out: bytes = reader.read(limit + 1)
    if len(out) > limit:
        raise _too_large(limit)
    return out


def _unsnappy(content: bytes, limit: int) -> bytes:
    """Decompress plain snappy or xerial's blocks of it: clients send either."""
    snappy: Any = _package("cramjam", Compression.SNAPPY).snappy
    if not content.startswith(_XERIAL):
        return _raw_snappy(snappy, content, 0, limit)
    out = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(content):
        size = int.from_bytes(content[position : position + 4], "big")
        position += 4
        if position + size > len(content):
            raise ProtocolError("a snappy block reaches beyond the batch")
        out += _raw_snappy(snappy, content[position : position + size], len(out), limit)
        position += size
    return bytes(out)


def _raw_snappy(snappy: Any, block: bytes, before: int, limit: int) -> bytes:
    if before + snappy.decompress_raw_len(block) > limit:
        raise _too_large(limit)
    return bytes(snappy.decompress_raw(block))
