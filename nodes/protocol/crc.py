"""Compute CRC-32C (Castagnoli), which protects every record batch and producer snapshot.

The `crc32c` package computes it in C at memory speed and takes any buffer. A host without that wheel still works: a
table-driven version in Python gives the same sums, some thousand times slower. `IMPLEMENTATION` names the one in use,
so that a node can log it and a benchmark can refuse to run on the slow one.
"""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview

_POLYNOMIAL = 0x82F63B78


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(_entry(byte) for byte in range(256))


def slow_crc32c(buffer: Buffer, value: int = 0) -> int:
    """The sum in Python; `value` is the sum of what came before."""
    table = _TABLE
    value ^= 0xFFFFFFFF
    for byte in bytes(buffer):
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


try:
    from crc32c import crc32c as _fast_crc32c
except ImportError:  # the wheel is missing on this host
    IMPLEMENTATION = "python"

    def crc32c(buffer: Buffer, value: int = 0) -> int:
        """The sum of a buffer; `value` is the sum of what came before."""
        return slow_crc32c(buffer, value)

else:
    IMPLEMENTATION = "crc32c"

    def crc32c(buffer: Buffer, value: int = 0) -> int:
        """The sum of a buffer; `value` is the sum of what came before."""
        return _fast_crc32c(buffer, value)
