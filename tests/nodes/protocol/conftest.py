"""Messages filled from a seed, for the codec's tests: every field of a version gets a value of its type."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.schema import FieldSchema, Message, fields_of

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
LETTERS = "abcdefghijklmnopqrstuvwxyzäß€😀_-.0123456789"
KNOWN_ERRORS = [int(code) for code in ErrorCode if code <= 119]

Fill = Callable[[type[Message], int, int], Any]


def filled(cls: type[Message], version: int, rng: random.Random) -> Any:
    """An instance whose fields that this version has are random, and whose other fields have their defaults."""
    values = {}
    for name, schema in fields_of(cls):
        if version in schema.versions and not (schema.tag is not None and rng.random() < 0.4):
            values[name] = random_value(name, schema, version, rng)
    return cls(**values)


def random_value(name: str, schema: FieldSchema, version: int, rng: random.Random) -> Any:
    nullable = schema.nullable is not None and version in schema.nullable
    if nullable and rng.random() < 0.2:
        return None
    if schema.type == "array":
        return [random_item(schema.element, version, rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if schema.type == "struct":
        return filled(schema.element, version, rng)
    if name.endswith("error_code"):
        return rng.choice(KNOWN_ERRORS)
    if name == "log_append_time_ms":
        return rng.choice((-1, rng.randrange(0, 1 << 41)))
    if name.endswith("_ms"):
        return rng.randrange(0, 1 << 31)
    return random_primitive(schema.type, rng)


def random_item(element: Any, version: int, rng: random.Random) -> Any:
    return random_primitive(element, rng) if isinstance(element, str) else filled(element, version, rng)


def random_primitive(kind: str, rng: random.Random) -> Any:
    if kind in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[kind] - 1)
        return rng.choice((0, -1, 1, limit - 1, -limit, rng.randrange(-limit, limit)))
    if kind == "uint16":
        return rng.choice((0, 9092, 65535))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.random()
    if kind == "uuid":
        return rng.randbytes(16)
    if kind == "string":
        return "".join(rng.choice(LETTERS) for _ in range(rng.choice((0, 1, 9, 60, 200))))
    assert kind in ("bytes", "records"), kind
    return rng.randbytes(rng.choice((0, 1, 61, 200, 20_000)))


@pytest.fixture
def fill() -> Fill:
    """(class, version, seed) to a filled message."""
    return lambda cls, version, seed: filled(cls, version, random.Random(seed))


def as_plain(value: Any) -> Any:
    """A message as tuples and bytes, so that views of a frame compare by content."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [(item.name, as_plain(getattr(value, item.name))) for item in dataclasses.fields(value)]
        return (type(value).__name__, tuple(items))
    if isinstance(value, list):
        return tuple(as_plain(item) for item in value)
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


@pytest.fixture
def plain() -> Callable[[Any], Any]:
    return as_plain
