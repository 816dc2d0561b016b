"""Parse and print rates (`64KiB/s`, `1MB/s`, bytes per second) and amounts of data (`4KiB`, `0B`).

Not pydantic's `ByteSize`: it reads `64kb` as kilobytes, where a rate means kilobits, `1bit` as 0, `true` as 1, and
ignores what follows the unit (`64KiB/min`). What a fault does to a disk or a link must not be guessed, so these are
refused.
"""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

_RATE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(B|kB|KiB|MB|MiB|GB|GiB)(?:/s)?")
_SIZE = re.compile(_RATE.pattern.removesuffix("(?:/s)?"))
_BYTES_PER = {"B": 1, "kB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
_LARGEST_FIRST = ("GiB", "MiB", "KiB")


def parse_rate(value: object) -> object:
    """Bytes per second of a number or a text with unit. Raises ValueError, worded to follow the value."""
    if isinstance(value, str):
        match = _RATE.fullmatch(value.strip())
        if not match:
            raise ValueError("is not a rate; write 64KiB/s, 1MB/s, or bytes per second")
        value = float(match[1]) * _BYTES_PER[match[2]]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("is not a rate; write 64KiB/s, 1MB/s, or bytes per second")
    if not (value >= 1 and math.isfinite(value)):
        raise ValueError("must be at least 1 byte per second")
    return int(value)


def write_rate(rate: int) -> str:
    """The shortest notation of a rate: 65536 → 64KiB/s."""
    for unit in _LARGEST_FIRST:
        if rate >= _BYTES_PER[unit] and rate % _BYTES_PER[unit] == 0:
            return f"{rate // _BYTES_PER[unit]}{unit}/s"
    return f"{rate}B/s"


def parse_size(value: object) -> object:
    """Bytes of a number or a text with unit; may be 0. Raises ValueError, worded to follow the value."""
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if not match:
            raise ValueError("is not a size; write 64KiB, 1MB, or bytes")
        value = float(match[1]) * _BYTES_PER[match[2]]
    if isinstance(value, bool) or not isinstance(value, int | float) or not (value >= 0 and math.isfinite(value)):
        raise ValueError("is not a size; write 64KiB, 1MB, or bytes")
    return int(value)


def write_size(size: int) -> str:
    """The shortest notation of a size: 65536 → 64KiB."""
    return write_rate(size).removesuffix("/s")


ByteSize = Annotated[int, BeforeValidator(parse_size, json_schema_input_type=str | int), PlainSerializer(write_size)]
"""Bytes; may be 0."""

ByteRate = Annotated[int, BeforeValidator(parse_rate, json_schema_input_type=str | int), PlainSerializer(write_rate)]
"""A rate of at least one byte per second."""
