"""The encoding of a value in a record: eight bytes, big-endian, padded to the workload's record size."""

from __future__ import annotations

from squall.workloads.core.operation import UNREADABLE_VALUE

VALUE_BYTES = 8


def encode_value(value: int, size: int) -> bytes:
    """The record value that carries `value`, `size` bytes long."""
    return value.to_bytes(VALUE_BYTES, "big", signed=True).ljust(size, b".")


def decode_value(payload: bytes | memoryview | None) -> int:
    """The value in a record; `UNREADABLE_VALUE` if it is none of ours."""
    if payload is None or len(payload) < VALUE_BYTES:
        return UNREADABLE_VALUE
    return int.from_bytes(payload[:VALUE_BYTES], "big", signed=True)
