"""CRC-32C: known vectors, and the slow version agreeing with the fast one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.nodes.protocol import crc
from squall.nodes.protocol.crc import crc32c, slow_crc32c

VECTORS = [  # RFC 3720, B.4
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (b"123456789", 0xE3069283),
    (b"", 0),
]


@pytest.mark.parametrize(("content", "expected"), VECTORS)
def test_known_vectors(content: bytes, expected: int) -> None:
    assert crc32c(content) == slow_crc32c(content) == expected


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_the_slow_one_agrees_and_sums_can_be_continued(first: bytes, second: bytes) -> None:
    assert slow_crc32c(first + second) == crc32c(first + second)
    assert slow_crc32c(second, slow_crc32c(first)) == crc32c(second, crc32c(first)) == crc32c(first + second)


def test_any_buffer_is_taken() -> None:
    assert crc32c(bytearray(b"123456789")) == crc32c(memoryview(b"0123456789")[1:]) == 0xE3069283
    assert slow_crc32c(memoryview(b"0123456789")[1:]) == 0xE3069283


def test_the_implementation_in_use_is_named() -> None:
    assert crc.IMPLEMENTATION == "crc32c"
