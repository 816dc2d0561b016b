"""Write encode functions: the statements that append a message's bytes, chunk by chunk.

The function is called with the message as `m` and the append method as `a`. Tagged fields are first appended to a
separate list, because their sizes precede them.
"""

from __future__ import annotations

import struct
from typing import Any

from squall.nodes.protocol.codegen import (
    FIXED,
    Field,
    Source,
    default_of,
    fields_of_version,
    is_nullable,
    primitive,
    runs_of,
    shape_of,
)
from squall.nodes.protocol.schema import FieldSchema, SharedItems, fields_of


class EncoderWriter:
    """Writes the statements that append a message's bytes; `a` names the append function in use."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible

    def part(self, depth: int, value: str, cls: type, a: str) -> None:
        ordinary, tagged = fields_of_version(cls, self.version)
        for run in runs_of(ordinary):
            self.run(depth, value, run, a)
        if self.flexible:
            self.tags(depth, value, tagged, a)
        elif not ordinary:
            self.source.add(depth, "pass")

    def run(self, depth: int, value: str, run: list[Field], a: str) -> None:
        if run[0][1].type in FIXED:
            pack = self.source.constant("pack", shape_of(run).pack)
            arguments = ", ".join(f"{value}.{name}" for name, _ in run)
            self.source.add(depth, f"{a}({pack}({arguments}))")
        else:
            name, schema = run[0]
            self.value(depth, f"{value}.{name}", name, schema, a)

    def tags(self, depth: int, value: str, tagged: list[Field], a: str) -> None:
        source = self.source
        if not tagged:
            source.add(depth, f"{a}(b'\\x00')")
            return
        tags = source.local("tags")
        source.add(depth, f"{tags} = []")
        for name, schema in tagged:
            found, parts = source.local(), source.local("parts")
            source.add(depth, f"{found} = {value}.{name}")
            source.add(depth, f"if {self.is_worth_sending(found, schema)}:")
            source.add(depth + 1, f"{parts} = []; {parts}_append = {parts}.append")
            self.tagged_value(depth + 1, found, name, schema, f"{parts}_append")
            source.add(depth + 1, f"{tags}.append(({schema.tag}, b''.join({parts})))")
        source.add(depth, f"if {tags}: write_tags({tags}, {a})")
        source.add(depth, f"else: {a}(b'\\x00')")

    def tagged_value(self, depth: int, found: str, name: str, schema: FieldSchema, a: str) -> None:
        if schema.type in FIXED:
            pack = self.source.constant("pack", struct.Struct(">" + FIXED[schema.type][0]).pack)
            self.source.add(depth, f"{a}({pack}({found}))")
        else:
            self.value(depth, found, name, schema, a)

    def is_worth_sending(self, found: str, schema: FieldSchema) -> str:
        """The condition under which a tagged field is sent: it differs from its default.

        Nested messages of fixed-size fields are compared field by field.
        """
        default = default_of(schema)
        if schema.type == "struct" and default is not None:
            inner = [name for name, item in fields_of(schema.element) if self.version in item.versions]
            if all(item.type in FIXED for _, item in fields_of(schema.element)):
                return " or ".join(f"{found}.{name} != {getattr(default, name)!r}" for name in inner)
        return f"{found} != {self.source.constant('default', default)}"

    def value(self, depth: int, value: str, name: str, schema: FieldSchema, a: str) -> None:
        """Write the statements that append one value of variable size."""
        source, kind = self.source, schema.type
        if kind == "struct":
            self.struct(depth, value, schema, a)
            return
        local = source.local()
        source.add(depth, f"{local} = {value}")
        source.add(depth, f"if {local} is None: {self.null(name, schema, a)}")
        source.add(depth, "else:")
        if kind == "string":
            source.add(depth + 1, f"{local} = {local}.encode()")
        if schema.is_shared:
            self.shared(depth + 1, local, name, schema, a)
            return
        self.length(depth + 1, local, kind, a)
        if kind == "array":
            self.items(depth + 1, local, name, schema.element, a)
        else:
            source.add(depth + 1, f"{a}({local})")

    def shared(self, depth: int, local: str, name: str, schema: FieldSchema, a: str) -> None:
        """Write the statements that append an array: that of a `SharedItems` as it was encoded the first time."""
        source, kept, parts = self.source, self.source.local("kept"), self.source.local("parts")
        is_shared = f"type({local}) is {source.constant('shared', SharedItems)}"
        source.add(depth, f"{kept} = {local}.encoded.get({self.version}) if {is_shared} else None")
        source.add(depth, f"if {kept} is None:")
        source.add(depth + 1, f"{parts} = []; {parts}_append = {parts}.append")
        self.length(depth + 1, local, schema.type, f"{parts}_append")
        self.items(depth + 1, local, name, schema.element, f"{parts}_append")
        source.add(depth + 1, f"{kept} = b''.join({parts})")
        source.add(depth + 1, f"if {is_shared}: {local}.encoded[{self.version}] = {kept}")
        source.add(depth, f"{a}({kept})")

    def null(self, name: str, schema: FieldSchema, a: str) -> str:
        if not is_nullable(schema, self.version):
            return f"raise not_null({name!r})"
        if self.flexible:
            return f"{a}(b'\\x00')"
        return f"{a}({(-1).to_bytes(2 if schema.type == 'string' else 4, 'big', signed=True)!r})"

    def length(self, depth: int, local: str, kind: str, a: str) -> None:
        if self.flexible:
            length = self.source.local("n")
            self.source.add(depth, f"{length} = len({local}) + 1")
            self.source.add(depth, f"{a}(SMALL[{length}] if {length} < 128 else uvarint({length}))")
        else:
            pack = self.source.constant("pack", struct.Struct(">h" if kind == "string" else ">i").pack)
            self.source.add(depth, f"{a}({pack}(len({local})))")

    def struct(self, depth: int, value: str, schema: FieldSchema, a: str) -> None:
        local = self.source.local()
        self.source.add(depth, f"{local} = {value}")
        if not is_nullable(schema, self.version):
            self.part(depth, local, schema.element, a)
            return
        self.source.add(depth, f"if {local} is None: {a}(b'\\xff')")
        self.source.add(depth, "else:")
        self.source.add(depth + 1, f"{a}(b'\\x01')")
        self.part(depth + 1, local, schema.element, a)

    def items(self, depth: int, local: str, name: str, element: Any, a: str) -> None:
        source = self.source
        if element == "uuid":
            source.add(depth, f"for item in {local}: {a}(pack('16s', item))")
        elif isinstance(element, str) and element in FIXED:
            source.add(depth, f"{a}(pack(f'>{{len({local})}}{FIXED[element][0]}', *{local}))")
        else:
            item = source.local("item")
            source.add(depth, f"for {item} in {local}:")
            if isinstance(element, str):
                self.value(depth + 1, item, name, primitive(element), a)
            else:
                self.part(depth + 1, item, element, a)
