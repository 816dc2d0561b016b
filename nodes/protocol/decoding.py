"""Write decode functions: the statements that read a message from a view, never beyond its end.

The function is called with the view as `b`, a position as `p` and the end as `e`; it returns the message and the new
position. Every length is compared with the remaining bytes before it is used. Reading a fixed-size field beyond the end
raises an exception in any case.
"""

from __future__ import annotations

import struct
from typing import Any

from squall.nodes.protocol.codegen import (
    FIXED,
    Field,
    Source,
    fields_of_version,
    is_nullable,
    primitive,
    runs_of,
    shape_of,
)
from squall.nodes.protocol.schema import FieldSchema, fields_of


class DecoderWriter:
    """Writes the statements that read a message from `b` at `p`; `e` names the end of the readable bytes."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible

    def part(self, depth: int, cls: type, e: str) -> str:
        """Write the statements that read one message; return the expression that makes it.

        The arguments of the expression are positional, which is faster.
        """
        ordinary, tagged = fields_of_version(cls, self.version)
        got: dict[str, str] = {}
        for run in runs_of(ordinary):
            self.run(depth, run, got, e)
        if self.flexible:
            self.tags(depth, tagged, got, e)
        arguments = [got.get(name) or self.absent(schema) for name, schema in fields_of(cls)]
        return f"{self.source.constant(cls.__name__, cls)}({', '.join(arguments)})"

    def absent(self, schema: FieldSchema) -> str:
        """The expression of a default; a mutable one makes a new object each time."""
        if schema.default is list:
            return "[]"
        if callable(schema.default):
            return self.source.constant("make", schema.default) + "()"
        return repr(schema.default)

    def run(self, depth: int, run: list[Field], got: dict[str, str], e: str) -> None:
        if run[0][1].type in FIXED:
            shape = shape_of(run)
            names = [self.source.local() for _ in run]
            unpack = self.source.constant("unpack", shape.unpack_from)
            self.source.add(depth, f"{', '.join(names)}, = {unpack}(b, p); p += {shape.size}")
            got.update((field[0], name) for field, name in zip(run, names, strict=True))
        else:
            name, schema = run[0]
            got[name] = self.value(depth, name, schema, e)

    def tags(self, depth: int, tagged: list[Field], got: dict[str, str], e: str) -> None:
        source = self.source
        if not tagged:
            source.add(depth, "if b[p] == 0: p += 1")
            source.add(depth, f"else: p = skip_tags(b, p, {e})")
            return
        for name, schema in tagged:
            got[name] = source.local()
            source.add(depth, f"{got[name]} = {self.absent(schema)}")
        stop = source.local("stop")
        source.add(depth, "if b[p] == 0: p += 1")
        source.add(depth, "else:")
        source.add(depth + 1, "number, p = read_uvarint(b, p)")
        source.add(depth + 1, "for _ in range(number):")
        source.add(depth + 2, f"tag, p, {stop} = read_tag(b, p, {e})")
        for index, (name, schema) in enumerate(tagged):
            source.add(depth + 2, f"{'elif' if index else 'if'} tag == {schema.tag}:")
            self.tagged_value(depth + 3, name, schema, got[name], stop)
            source.add(depth + 3, f"if p != {stop}: raise wrong_size({schema.tag})")
        source.add(depth + 2, f"p = {stop}")

    def tagged_value(self, depth: int, name: str, schema: FieldSchema, target: str, stop: str) -> None:
        if schema.type in FIXED:
            letter, size = FIXED[schema.type]
            self.source.add(depth, f"{target}, = unpack_from('>{letter}', b, p); p += {size}")
        else:
            self.source.add(depth, f"{target} = {self.value(depth, name, schema, stop)}")

    def value(self, depth: int, name: str, schema: FieldSchema, e: str) -> str:
        """Write the statements that read one value of variable size; return the local that holds it."""
        source, kind = self.source, schema.type
        if kind == "struct":
            return self.struct(depth, schema, e)
        value, length = source.local(), source.local("n")
        self.length(depth, length, kind)
        null = f"{value} = None" if is_nullable(schema, self.version) else f"raise not_null({name!r})"
        source.add(depth, f"if {length} == -1: {null}")
        source.add(depth, "else:")
        if kind == "array":
            self.items(depth + 1, value, length, name, schema.element, e)
            return value
        stop = source.local("stop")
        source.add(depth + 1, f"{stop} = p + {length}")
        source.add(depth + 1, f"if {length} < 0 or {stop} > {e}: raise too_long({length}, {e} - p)")
        piece = {"string": "str(b[p:{}], 'utf-8')", "bytes": "bytes(b[p:{}])", "records": "b[p:{}]"}[kind]
        source.add(depth + 1, f"{value} = {piece.format(stop)}; p = {stop}")
        return value

    def length(self, depth: int, length: str, kind: str) -> None:
        """Write the statements that put the length into a local; -1 for null."""
        if self.flexible:
            self.source.add(depth, f"{length} = b[p] - 1; p += 1")
            self.source.add(depth, f"if {length} > 126: {length}, p = read_uvarint(b, p - 1); {length} -= 1")
        else:
            shape = struct.Struct(">h" if kind == "string" else ">i")
            unpack = self.source.constant("unpack", shape.unpack_from)
            self.source.add(depth, f"{length}, = {unpack}(b, p); p += {shape.size}")

    def struct(self, depth: int, schema: FieldSchema, e: str) -> str:
        value = self.source.local()
        if not is_nullable(schema, self.version):
            self.source.add(depth, f"{value} = {self.part(depth, schema.element, e)}")
            return value
        self.source.add(depth, "p += 1")
        self.source.add(depth, f"if b[p - 1] > 127: {value} = None")
        self.source.add(depth, "else:")
        self.source.add(depth + 1, f"{value} = {self.part(depth + 1, schema.element, e)}")
        return value

    def least_size(self, element: Any) -> int:
        """The least number of bytes of one item of an array."""
        if isinstance(element, str):
            return self._least_size_of(primitive(element))
        ordinary, _ = fields_of_version(element, self.version)
        return max(1, sum(self._least_size_of(schema) for _, schema in ordinary) + self.flexible)

    def _least_size_of(self, schema: FieldSchema) -> int:
        if schema.type in FIXED:
            return FIXED[schema.type][1]
        if schema.type == "struct":
            return 1 if is_nullable(schema, self.version) else self.least_size(schema.element)
        if self.flexible:
            return 1
        return 2 if schema.type == "string" else 4

    def items(self, depth: int, value: str, length: str, name: str, element: Any, e: str) -> None:
        source = self.source
        letter = FIXED[element][0] if isinstance(element, str) and element in FIXED else ""
        size = self.least_size(element)
        source.add(depth, f"if not 0 <= {length} * {size} <= {e} - p: raise too_long({length}, {e} - p)")
        source.add(depth, f"left[0] -= {length}")
        source.add(depth, "if left[0] < 0: raise too_many()")
        if element == "uuid":
            source.add(depth, f"{value} = [bytes(b[p + 16 * i:p + 16 * i + 16]) for i in range({length})]")
            source.add(depth, f"p += {length} * 16")
        elif letter:
            source.add(depth, f"{value} = [*unpack_from(f'>{{{length}}}{letter}', b, p)]; p += {length} * {size}")
        else:
            source.add(depth, f"{value} = []")
            source.add(depth, f"for _ in range({length}):")
            if isinstance(element, str):
                item = self.value(depth + 1, name, primitive(element), e)
            else:
                item = self.part(depth + 1, element, e)
            source.add(depth + 1, f"{value}.append({item})")
