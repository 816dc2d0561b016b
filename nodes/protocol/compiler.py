"""From schemas to code: one encode and one decode function per (message class, version), generated when first used.

The generated source is plain, flat Python: a run of fixed-size fields is one `struct` call, an array is a loop, parts
are written and read in place, without a call of their own. `encoder_source` and `decoder_source` show it. Generating
beats interpreting the schema some ten times over, which is the difference between a broker and a toy in Python.

*Copies.* Record batches pass through as the buffers they are: encoded, they are chunks of their own in the list that
`encode` returns; decoded, they are views of the frame. Everything else is joined into as few chunks as possible.

*Bounds.* Every length read from the wire is compared with the bytes that are left before anything is allocated, so a
short frame cannot ask for a long array. Whatever is malformed raises `ProtocolError`, and nothing else does. Unknown
tagged fields are skipped, as Kafka's forward compatibility asks.

*Versions.* A field that a version does not have keeps its default when decoded and is left out when encoded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any, TypeVar

from squall.nodes.protocol import wire
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.schema import EVER, FieldSchema, Message, VersionRange, fields_of
from squall.nodes.protocol.wire import Buffer, read_uvarint, skip_tags, uvarint

__all__ = [
    "Buffer",
    "decode",
    "decode_from",
    "decoder_source",
    "encode",
    "encode_bytes",
    "encoder_source",
    "is_flexible",
    "read_uvarint",
    "skip_tags",
    "uvarint",
]

Encoder = Callable[[Any, Callable[[Buffer], None]], None]
Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
Decoded = TypeVar("Decoded", bound=Message)

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
"""Field types of fixed size: their letter in `struct` and their size."""

CHUNK_WORTH_KEEPING = 1024
"""Record batches shorter than this are copied: cheaper than one more buffer in every system call."""


# -- entry points --------------------------------------------------------------------------------------------------


def encode(message: Message, version: int) -> list[Buffer]:
    """The message as a list of buffers, to be sent one after the other. Raises ProtocolError if it has no such form."""
    cls: Any = type(message)
    out: list[Buffer] = []
    try:
        encoder_of(cls, version)(message, out.append)
        return _coalesced(out) if carries_records(cls, version) else [b"".join(out)]
    except (struct.error, TypeError, AttributeError, ValueError) as trouble:
        raise ProtocolError(f"{cls.__name__} v{version}: cannot be encoded: {trouble}") from trouble


def encode_bytes(message: Message, version: int) -> bytes:
    """The message in one piece."""
    return b"".join(encode(message, version))


def decode(cls: type[Decoded], version: int, buffer: Buffer) -> Decoded:
    """The message that fills the buffer. Record fields are views of it. Raises ProtocolError."""
    view = memoryview(buffer)
    message, end = decode_from(cls, version, view, 0)
    if end != len(view):
        raise ProtocolError(f"{cls.__name__} v{version}: {len(view) - end} bytes too many")
    return message


def decode_from(cls: type[Decoded], version: int, view: memoryview, position: int) -> tuple[Decoded, int]:
    """The message at a position, and where it ends. Raises ProtocolError."""
    key: Any = cls
    try:
        return decoder_of(key, version)(view, position, len(view))
    except (struct.error, IndexError, ValueError, OverflowError, MemoryError) as trouble:
        raise ProtocolError(f"{cls.__name__} v{version}: {trouble}") from trouble


def is_flexible(cls: type[Message], version: int) -> bool:
    """Whether this version has compact lengths and tagged fields."""
    return version >= cls.FLEXIBLE_FROM


def _coalesced(chunks: list[Buffer]) -> list[Buffer]:
    """Small neighbours joined, large buffers left as they are."""
    out: list[Buffer] = []
    begin = 0
    for index, chunk in enumerate(chunks):
        if len(chunk) >= CHUNK_WORTH_KEEPING:
            if begin < index:
                out.append(b"".join(chunks[begin:index]))
            out.append(chunk)
            begin = index + 1
    if begin < len(chunks):
        out.append(b"".join(chunks[begin:]))
    return out


# -- source under construction -------------------------------------------------------------------------------------


class _Source:
    """Lines of a function, the constants they refer to, and names for its locals."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.names: dict[str, Any] = {
            "SMALL": wire.SMALL,
            "uvarint": uvarint,
            "read_uvarint": read_uvarint,
            "read_tag": wire.read_tag,
            "skip_tags": skip_tags,
            "write_tags": wire.write_tags,
            "too_long": wire.too_long,
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


def _fields_of_version(cls: type, version: int) -> tuple[list[Field], list[Field]]:
    """Fields in wire order: ordinary ones as declared, then tagged ones by tag."""
    present = [(name, schema) for name, schema in fields_of(cls) if version in schema.versions]
    tagged = [field for field in present if _is_tagged(field[1], version)]
    ordinary = [field for field in present if not _is_tagged(field[1], version)]
    return ordinary, sorted(tagged, key=lambda field: field[1].tag or 0)


def _is_tagged(schema: FieldSchema, version: int) -> bool:
    return schema.tagged is not None and version in schema.tagged


def _is_nullable(schema: FieldSchema, version: int) -> bool:
    return schema.nullable is not None and version in schema.nullable


def _runs(fields: list[Field]) -> list[list[Field]]:
    """Neighbouring fixed-size fields together, everything else alone."""
    runs: list[list[Field]] = []
    for field in fields:
        if runs and field[1].type in FIXED and runs[-1][0][1].type in FIXED:
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs


def _shape(run: list[Field]) -> struct.Struct:
    return struct.Struct(">" + "".join(FIXED[schema.type][0] for _, schema in run))


def _default(schema: FieldSchema) -> Any:
    """The value of a field nobody sent."""
    return schema.default() if callable(schema.default) else schema.default


def _primitive(name: str) -> FieldSchema:
    return FieldSchema(name, VersionRange(0, EVER))


def _check(cls: type[Message], version: int) -> None:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise ProtocolError(f"{cls.__name__} has versions {first} to {last}, not {version}")


@cache
def carries_records(cls: Any, version: int) -> bool:
    """Whether record batches are among the fields, at any depth."""
    for _, schema in fields_of(cls):
        if version in schema.versions and (
            schema.type == "records" or (isinstance(schema.element, type) and carries_records(schema.element, version))
        ):
            return True
    return False


# -- encoders ------------------------------------------------------------------------------------------------------


@cache
def encoder_of(cls: Any, version: int) -> Encoder:
    """The encode function: (message, append)."""
    _check(cls, version)
    encoder: Encoder = _encoder(cls, version).function("encode")
    return encoder


def encoder_source(cls: type[Message], version: int) -> str:
    """What `encoder_of` runs, for reading."""
    return _encoder(cls, version).text()


def _encoder(cls: type[Message], version: int) -> _Source:
    source = _Source("def encode(m, a):")
    _EncoderWriter(source, version, is_flexible(cls, version)).part(1, "m", cls, "a")
    return source


class _EncoderWriter:
    """Writes the statements that append a message's bytes; `a` names the append function in use."""

    def __init__(self, source: _Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible

    def part(self, depth: int, value: str, cls: type, a: str) -> None:
        ordinary, tagged = _fields_of_version(cls, self.version)
        for run in _runs(ordinary):
            self.run(depth, value, run, a)
        if self.flexible:
            self.tags(depth, value, tagged, a)
        elif not ordinary:
            self.source.add(depth, "pass")

    def run(self, depth: int, value: str, run: list[Field], a: str) -> None:
        if run[0][1].type in FIXED:
            pack = self.source.constant("pack", _shape(run).pack)
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
        """A tagged field is sent unless it has its default. Parts of fixed-size fields are compared field by field."""
        default = _default(schema)
        if schema.type == "struct" and default is not None:
            inner = [name for name, item in fields_of(schema.element) if self.version in item.versions]
            if all(item.type in FIXED for _, item in fields_of(schema.element)):
                return " or ".join(f"{found}.{name} != {getattr(default, name)!r}" for name in inner)
        return f"{found} != {self.source.constant('default', default)}"

    def value(self, depth: int, value: str, name: str, schema: FieldSchema, a: str) -> None:
        """One value of variable size."""
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
        self.length(depth + 1, local, kind, a)
        if kind == "array":
            self.items(depth + 1, local, name, schema.element, a)
        else:
            source.add(depth + 1, f"{a}({local})")

    def null(self, name: str, schema: FieldSchema, a: str) -> str:
        if not _is_nullable(schema, self.version):
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
        if not _is_nullable(schema, self.version):
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
                self.value(depth + 1, item, name, _primitive(element), a)
            else:
                self.part(depth + 1, item, element, a)


# -- decoders ------------------------------------------------------------------------------------------------------


@cache
def decoder_of(cls: Any, version: int) -> Decoder:
    """The decode function: (view, position, end) to (message, new position)."""
    _check(cls, version)
    decoder: Decoder = _decoder(cls, version).function("decode")
    return decoder


def decoder_source(cls: type[Message], version: int) -> str:
    """What `decoder_of` runs, for reading."""
    return _decoder(cls, version).text()


def _decoder(cls: type[Message], version: int) -> _Source:
    source = _Source("def decode(b, p, e):")
    made = _DecoderWriter(source, version, is_flexible(cls, version)).part(1, cls, "e")
    source.add(1, f"return {made}, p")
    return source


class _DecoderWriter:
    """Writes the statements that read a message from `b` at `p`; `e` names the end that may not be passed."""

    def __init__(self, source: _Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible

    def part(self, depth: int, cls: type, e: str) -> str:
        """Reads one part; returns the expression that makes it. Arguments are positional: that is the fast way."""
        ordinary, tagged = _fields_of_version(cls, self.version)
        got: dict[str, str] = {}
        for run in _runs(ordinary):
            self.run(depth, run, got, e)
        if self.flexible:
            self.tags(depth, tagged, got, e)
        arguments = [got.get(name) or self.absent(schema) for name, schema in fields_of(cls)]
        return f"{self.source.constant(cls.__name__, cls)}({', '.join(arguments)})"

    def absent(self, schema: FieldSchema) -> str:
        """The expression of a default; mutable ones are made anew."""
        if schema.default is list:
            return "[]"
        if callable(schema.default):
            return self.source.constant("make", schema.default) + "()"
        return repr(schema.default)

    def run(self, depth: int, run: list[Field], got: dict[str, str], e: str) -> None:
        if run[0][1].type in FIXED:
            shape = _shape(run)
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
        """One value of variable size; the local that holds it."""
        source, kind = self.source, schema.type
        if kind == "struct":
            return self.struct(depth, schema, e)
        value, length = source.local(), source.local("n")
        self.length(depth, length, kind)
        null = f"{value} = None" if _is_nullable(schema, self.version) else f"raise not_null({name!r})"
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
        """Leaves the length in a local; -1 for null."""
        if self.flexible:
            self.source.add(depth, f"{length} = b[p] - 1; p += 1")
            self.source.add(depth, f"if {length} > 126: {length}, p = read_uvarint(b, p - 1); {length} -= 1")
        else:
            shape = struct.Struct(">h" if kind == "string" else ">i")
            unpack = self.source.constant("unpack", shape.unpack_from)
            self.source.add(depth, f"{length}, = {unpack}(b, p); p += {shape.size}")

    def struct(self, depth: int, schema: FieldSchema, e: str) -> str:
        value = self.source.local()
        if not _is_nullable(schema, self.version):
            self.source.add(depth, f"{value} = {self.part(depth, schema.element, e)}")
            return value
        self.source.add(depth, "p += 1")
        self.source.add(depth, f"if b[p - 1] > 127: {value} = None")
        self.source.add(depth, "else:")
        self.source.add(depth + 1, f"{value} = {self.part(depth + 1, schema.element, e)}")
        return value

    def items(self, depth: int, value: str, length: str, name: str, element: Any, e: str) -> None:
        source = self.source
        letter, size = FIXED.get(element, ("", 1)) if isinstance(element, str) else ("", 1)
        source.add(depth, f"if not 0 <= {length} * {size} <= {e} - p: raise too_long({length}, {e} - p)")
        if element == "uuid":
            source.add(depth, f"{value} = [bytes(b[p + 16 * i:p + 16 * i + 16]) for i in range({length})]")
            source.add(depth, f"p += {length} * 16")
        elif letter:
            source.add(depth, f"{value} = [*unpack_from(f'>{{{length}}}{letter}', b, p)]; p += {length} * {size}")
        else:
            source.add(depth, f"{value} = []")
            source.add(depth, f"for _ in range({length}):")
            if isinstance(element, str):
                item = self.value(depth + 1, name, _primitive(element), e)
            else:
                item = self.part(depth + 1, element, e)
            source.add(depth + 1, f"{value}.append({item})")
