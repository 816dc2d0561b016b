"""Looking for a time within a batch: the right record, and no more work than its sender may cause."""

from __future__ import annotations

import time
import tracemalloc
import zlib
from random import Random

import pytest

from squall.nodes.protocol.compression import Compression, decompress, decompress_pieces
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.record_times import first_not_older
from squall.nodes.protocol.records import Record, assemble_batch, build_batch
from tests.facts import naming

ALL = list(Compression)
TINY_RECORD = b"\x0c\x00\x00\x00\x01\x01\x00"
"""Seven bytes: the shortest there is."""


def gzip(content: bytes) -> bytes:
    worker = zlib.compressobj(9, wbits=31)
    return worker.compress(content) + worker.flush()


def bomb(size: int) -> bytearray:
    """A gzip batch of tiny records."""
    count = size // len(TINY_RECORD)
    return assemble_batch(
        gzip(TINY_RECORD * count), count, base_timestamp=0, max_timestamp=9_000, attributes=int(Compression.GZIP)
    )


@pytest.mark.parametrize("codec", ALL, ids=lambda codec: codec.name)
@pytest.mark.parametrize("size", [0, 10, 70_000])
def test_the_first_record_that_is_not_older_is_found(codec: Compression, size: int) -> None:
    rng = Random(f"{codec}/{size}")
    times = [1_000, 1_500, 1_200, 3_000, 2_000]
    records = [Record(key=b"k", value=rng.randbytes(size), timestamp=when) for when in times]
    batch = build_batch(records, base_offset=40, compression=codec)
    for asked, expected in ((0, 40), (1_000, 40), (1_001, 41), (1_501, 43), (3_000, 43)):
        assert first_not_older(batch, asked) == (times[expected - 40], expected)
    assert first_not_older(batch, 3_001) is None


def test_a_gzip_bomb_is_refused_before_it_has_taken_time_or_memory() -> None:
    """A hundred kilobytes that held a broker up for 28 s."""
    batch = bomb(100 << 20)
    assert len(batch) < 200_000
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(ProtocolError, match=naming("65536")):
        first_not_older(batch, 8_000)
    assert time.process_time() - began < 2.0
    assert tracemalloc.get_traced_memory()[1] < 2 << 20
    tracemalloc.stop()


def test_more_bytes_than_may_be_looked_through_are_refused() -> None:
    batch = build_batch(
        [Record(value=bytes(3 << 20), timestamp=number) for number in range(9)], compression=Compression.GZIP
    )
    assert first_not_older(batch, 4) == (4, 4)
    with pytest.raises(ProtocolError, match=naming("16777216 bytes")):
        first_not_older(batch, 8)


@pytest.mark.parametrize("codec", ALL, ids=lambda codec: codec.name)
def test_pieces_are_the_content_again_and_stop_at_the_limit(codec: Compression) -> None:
    content = bytes(range(256)) * 2_000
    batch = build_batch([Record(value=content)], compression=codec)
    whole = decompress(codec, memoryview(batch)[61:])
    assert b"".join(decompress_pieces(codec, memoryview(batch)[61:])) == whole
    with pytest.raises(ProtocolError, match=naming("1000 bytes")):
        list(decompress_pieces(codec, memoryview(batch)[61:], 1000))


@pytest.mark.parametrize("codec", ALL, ids=lambda codec: codec.name)
def test_what_is_no_batch_of_its_codec_is_an_error_and_nothing_else(codec: Compression) -> None:
    for seed in range(50):
        rng = Random(seed)
        batch = build_batch([Record(value=b"v" * 50, timestamp=5)] * 3, compression=codec)
        at = rng.randrange(61, len(batch))
        batch[at] ^= 1 << rng.randrange(8)
        try:
            first_not_older(batch[: rng.randrange(61, len(batch) + 1)] if seed % 2 else batch, 9)
        except ProtocolError:
            continue
