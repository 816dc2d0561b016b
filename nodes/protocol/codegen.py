"""Build the source of generated codecs; holds what both codec writers derive from a schema.

A codec is made by writing the lines of one flat Python function and executing them once. Values that are not literals,
such as a `struct`'s pack method or a message class, become named constants.
"""

from __future__ import annotations

import struct
from itertools import count
from typing import Any

from squall.nodes.protocol import wire
from squall.nodes.protocol.schema import EVER, FieldSchema, VersionRange, fields_of

FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Field types of fixed size: their letter in `struct` and their size in bytes."""


class Source:
    """Lines of a function, the constants they refer to, and names for its locals."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.names: dict[str, Any] = {
            "SMALL": wire.SMALL,
            "uvarint": wire.uvarint,
            "read_uvarint": wire.read_uvarint,
            "read_tag": wire.read_tag,
            "skip_tags": wire.skip_tags,
            "write_tags": wire.write_tags,
            "too_long": wire.too_long,
            "too_many": wire.too_many,
            "not_null": wire.not_null,
            "wrong_size": wire.wrong_size,
            "pack": struct.pack,
            "unpack_from": struct.unpack_from,
        }
        self._numbers = count()

    def add(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def constant(self, hint: str, value: Any) -> str:
        name = f"{hint}_{next(self._numbers)}"
        self.names[name] = value
        return name

    def local(self, hint: str = "v") -> str:
        return f"{hint}{next(self._numbers)}"

    def text(self) -> str:
        return "\n".join(self.lines)

    def function(self, name: str) -> Any:
        exec(self.text(), self.names)
        return self.names[name]


Field = tuple[str, FieldSchema]


def fields_of_version(cls: type, version: int) -> tuple[list[Field], list[Field]]:
    """Fields in wire order: ordinary fields as declared, then tagged fields by tag."""
    present = [(name, schema) for name, schema in fields_of(cls) if version in schema.versions]
    tagged = [field for field in present if _is_tagged(field[1], version)]
    ordinary = [field for field in present if not _is_tagged(field[1], version)]
    return ordinary, sorted(tagged, key=lambda field: field[1].tag or 0)


def _is_tagged(schema: FieldSchema, version: int) -> bool:
    return schema.tagged is not None and version in schema.tagged


def is_nullable(schema: FieldSchema, version: int) -> bool:
    return schema.nullable is not None and version in schema.nullable


def runs_of(fields: list[Field]) -> list[list[Field]]:
    """Group neighbouring fixed-size fields; every other field is a group of one."""
    runs: list[list[Field]] = []
    for field in fields:
        if runs and field[1].type in FIXED and runs[-1][0][1].type in FIXED:
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs


def shape_of(run: list[Field]) -> struct.Struct:
    return struct.Struct(">" + "".join(FIXED[schema.type][0] for _, schema in run))


def default_of(schema: FieldSchema) -> Any:
    """The value of a field that was not sent."""
    return schema.default() if callable(schema.default) else schema.default


def primitive(name: str) -> FieldSchema:
    return FieldSchema(name, VersionRange(0, EVER))
