"""From schemas to code: one encode and one decode function per (message class, version), generated when first used.

The generated source is plain Python: runs of fixed-size fields become one `struct` call, strings and arrays loops over
local names. Record batches pass through as the buffers they are, in both directions.

Bounds: every length read from the wire is compared with the bytes that are left before anything is allocated, so a
short frame cannot ask for a long array. Whatever is malformed raises `ProtocolError`, and nothing else does. Unknown
tagged fields are skipped, as Kafka's forward compatibility asks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any, TypeVar

from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.schema import EVER, FieldSchema, Message, VersionRange, fields_of

Buffer = bytes | bytearray | memoryview
Encoder = Callable[[Any, Callable[[Buffer], None]], None]
Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
Decoded = TypeVar("Decoded", bound=Message)

_ALWAYS = VersionRange(0, EVER)

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


def encode(message: Message, version: int) -> list[Buffer]:
    """The message as a list of buffers, to be sent one after the other. Raises ProtocolError if it has no such form."""
    out: list[Buffer] = []
    try:
        encoder_of(type(message), version)(message, out.append)
    except (struct.error, TypeError, AttributeError, ValueError) as trouble:
        if isinstance(trouble, ProtocolError):
            raise
        raise ProtocolError(f"{type(message).__name__} v{version}: cannot be encoded: {trouble}") from trouble
    return out


def encode_bytes(message: Message, version: int) -> bytes:
    return b"".join(encode(message, version))


def decode(cls: type[Decoded], version: int, buffer: Buffer, *, exact: bool = True) -> Decoded:
    """One message that fills the buffer (or, unless `exact`, its beginning). Record fields are views of it."""
    view = memoryview(buffer)
    message, end = decode_from(cls, version, view, 0)
    if exact and end != len(view):
        raise ProtocolError(f"{cls.__name__} v{version}: {len(view) - end} bytes too many")
    return message


def decode_from(cls: type[Decoded], version: int, view: memoryview, position: int) -> tuple[Decoded, int]:
    """One message from `position`; the message and where it ends."""
    try:
        return decoder_of(cls, version)(view, position, len(view))
    except (struct.error, IndexError, UnicodeDecodeError, ValueError, OverflowError, MemoryError) as trouble:
        if isinstance(trouble, ProtocolError):
            raise
        raise ProtocolError(f"{cls.__name__} v{version}: {trouble}") from trouble


# -- helpers the generated code calls -----------------------------------------------------------------------------


def uvarint(value: int) -> bytes:
    """Unsigned varint, as compact lengths and tags use it."""
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [bytes([value]) for value in range(0x80)]


def read_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits; raises ProtocolError on a longer one, IndexError at the end."""
    byte = view[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while True:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise ProtocolError("a varint is longer than five bytes")


def skip_tags(view: memoryview, position: int, end: int) -> int:
    """Step over a section of tagged fields none of which is known."""
    number, position = read_uvarint(view, position)
    for _ in range(number):
        _, position = read_uvarint(view, position)
        size, position = read_uvarint(view, position)
        position += size
        if position > end:
            raise ProtocolError("a tagged field reaches beyond the frame")
    return position


def too_long(length: int, left: int) -> ProtocolError:
    return ProtocolError(f"a length of {length} where {left} bytes are left")


def not_null() -> ProtocolError:
    return ProtocolError("null where a value is required")


def slice_out(view: memoryview, position: int, size: int, end: int) -> tuple[memoryview, int]:
    stop = position + size
    if size < 0 or stop > end:
        raise too_long(size, end - position)
    return view[position:stop], stop


# -- the compiler -------------------------------------------------------------------------------------------------


class _Source:
    """Source under construction, with the constants it refers to."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.names: dict[str, Any] = {
            "uvarint": uvarint,
            "read_uvarint": read_uvarint,
            "skip_tags": skip_tags,
            "too_long": too_long,
            "not_null": not_null,
            "slice_out": slice_out,
        }
        self._numbers = count()

    def add(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def constant(self, value: Any) -> str:
        name = f"k{next(self._numbers)}"
        self.names[name] = value
        return name

    def fresh(self) -> str:
        return f"v{next(self._numbers)}"

    def function(self, name: str) -> Any:
        exec("\n".join(self.lines), self.names)
        return self.names[name]


def _present(cls: type, version: int) -> tuple[list[tuple[str, FieldSchema]], list[tuple[str, FieldSchema]]]:
    """Fields of this version in wire order: ordinary ones, then tagged ones by tag."""
    plain, tagged = [], []
    for name, schema in fields_of(cls):
        if version not in schema.versions:
            continue
        if schema.tagged is not None and version in schema.tagged:
            tagged.append((name, schema))
        else:
            plain.append((name, schema))
    tagged.sort(key=lambda item: item[1].tag or 0)
    return plain, tagged


def _runs(fields: list[tuple[str, FieldSchema]]) -> list[list[tuple[str, FieldSchema]]]:
    """Neighbouring fixed-size fields together, everything else alone."""
    runs: list[list[tuple[str, FieldSchema]]] = []
    for field in fields:
        if runs and field[1].type in FIXED and runs[-1][0][1].type in FIXED:
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs


def _nullable(schema: FieldSchema, version: int) -> bool:
    return schema.nullable is not None and version in schema.nullable


def is_flexible(cls: type[Message], version: int) -> bool:
    return version >= cls.FLEXIBLE_FROM


@cache
def encoder_of(cls: type[Message], version: int, flexible: bool | None = None) -> Encoder:
    """The encode function; parts take their flexibility from the message they are part of."""
    flexible = is_flexible(cls, version) if flexible is None else flexible
    source = _Source("def encode(m, a):")
    plain, tagged = _present(cls, version)
    for run in _runs(plain):
        if run[0][1].type in FIXED:
            pack = source.constant(struct.Struct(">" + "".join(FIXED[schema.type][0] for _, schema in run)).pack)
            source.add(1, f"a({pack}({', '.join(f'm.{name}' for name, _ in run)}))")
        else:
            name, schema = run[0]
            _encode_value(source, 1, f"m.{name}", schema, version, flexible)
    if flexible:
        _encode_tags(source, tagged, version)
    source.add(1, "return None")
    return source.function("encode")  # type: ignore[no-any-return]


def _encode_tags(source: _Source, tagged: list[tuple[str, FieldSchema]], version: int) -> None:
    if not tagged:
        source.add(1, "a(b'\\x00')")
        return
    source.add(1, "tags = []")
    for name, schema in tagged:
        default = source.constant(schema.element() if schema.type == "struct" and schema.default else schema.default)
        condition = f"m.{name}" if schema.type == "array" and schema.default is list else f"m.{name} != {default}"
        source.add(1, f"if {condition}:")
        source.add(2, "part = []")
        source.add(2, "b = a; a = part.append")
        if schema.type in FIXED:
            pack = source.constant(struct.Struct(">" + FIXED[schema.type][0]).pack)
            source.add(2, f"a({pack}(m.{name}))")
        else:
            _encode_value(source, 2, f"m.{name}", schema, version, True)
        source.add(2, "a = b")
        source.add(2, f"tags.append(({schema.tag}, b''.join(part)))")
    source.add(1, "a(uvarint(len(tags)))")
    source.add(1, "for number, content in tags:")
    source.add(2, "a(uvarint(number)); a(uvarint(len(content))); a(content)")


def _encode_length(source: _Source, depth: int, expression: str, kind: str, flexible: bool) -> None:
    if flexible:
        source.add(depth, f"a(uvarint({expression} + 1))")
    else:
        pack = source.constant(struct.Struct(">h" if kind == "string" else ">i").pack)
        source.add(depth, f"a({pack}({expression}))")


def _encode_value(source: _Source, depth: int, value: str, schema: FieldSchema, version: int, flexible: bool) -> None:
    """One variable-size value."""
    kind = schema.type
    if kind == "struct":
        _encode_struct(source, depth, value, schema, version, flexible)
        return
    local = source.fresh()
    source.add(depth, f"{local} = {value}")
    source.add(depth, f"if {local} is None:")
    if _nullable(schema, version):
        if flexible:
            source.add(depth + 1, "a(b'\\x00')")
        else:
            source.add(depth + 1, "a(b'\\xff\\xff')" if kind == "string" else "a(b'\\xff\\xff\\xff\\xff')")
    else:
        source.add(depth + 1, "raise not_null()")
    source.add(depth, "else:")
    depth += 1
    if kind == "string":
        source.add(depth, f"{local} = {local}.encode()")
    _encode_length(source, depth, f"len({local})", kind, flexible)
    if kind in ("string", "bytes", "records"):
        source.add(depth, f"a({local})")
        return
    _encode_items(source, depth, local, schema.element, version, flexible)


def _encode_struct(source: _Source, depth: int, value: str, schema: FieldSchema, version: int, flexible: bool) -> None:
    inner = source.constant(encoder_of(schema.element, version, flexible))
    if not _nullable(schema, version):
        source.add(depth, f"{inner}({value}, a)")
        return
    source.add(depth, f"if {value} is None: a(b'\\xff')")
    source.add(depth, f"else: a(b'\\x01'); {inner}({value}, a)")


def _encode_items(source: _Source, depth: int, local: str, element: Any, version: int, flexible: bool) -> None:
    if isinstance(element, str) and element in FIXED:
        letter = FIXED[element][0]
        pack = source.constant(struct.pack)
        if letter == "16s":
            source.add(depth, f"for item in {local}: a({pack}('16s', item))")
        else:
            source.add(depth, f"a({pack}('>%d{letter}' % len({local}), *{local}))")
        return
    item = source.fresh()
    source.add(depth, f"for {item} in {local}:")
    if isinstance(element, str):
        from_primitive = FieldSchema(element, _ALWAYS)
        _encode_value(source, depth + 1, item, from_primitive, version, flexible)
    else:
        inner = source.constant(encoder_of(element, version, flexible))
        source.add(depth + 1, f"{inner}({item}, a)")


@cache
def decoder_of(cls: type[Message], version: int, flexible: bool | None = None) -> Decoder:
    """The decode function: (view, position, end) to (message, new position)."""
    flexible = is_flexible(cls, version) if flexible is None else flexible
    source = _Source("def decode(b, p, e):")
    plain, tagged = _present(cls, version)
    got: list[tuple[str, str]] = []
    for run in _runs(plain):
        if run[0][1].type in FIXED:
            shape = struct.Struct(">" + "".join(FIXED[schema.type][0] for _, schema in run))
            locals_ = [source.fresh() for _ in run]
            unpack = source.constant(shape.unpack_from)
            source.add(1, f"{', '.join(locals_)}{',' if len(run) == 1 else ''} = {unpack}(b, p); p += {shape.size}")
            got += [(name, local) for (name, _), local in zip(run, locals_, strict=True)]
        else:
            name, schema = run[0]
            got.append((name, _decode_value(source, 1, schema, version, flexible)))
    if flexible:
        got += _decode_tags(source, tagged, version)
    made = source.constant(cls)
    source.add(1, f"return {made}({', '.join(f'{name}={local}' for name, local in got)}), p")
    return source.function("decode")  # type: ignore[no-any-return]


def _decode_tags(source: _Source, tagged: list[tuple[str, FieldSchema]], version: int) -> list[tuple[str, str]]:
    if not tagged:
        source.add(1, "if p < e and b[p] == 0: p += 1")
        source.add(1, "else: p = skip_tags(b, p, e)")
        return []
    got = []
    for name, schema in tagged:
        local = source.fresh()
        default = schema.default
        source.add(1, f"{local} = {source.constant(default)}{'()' if callable(default) else ''}")
        got.append((name, local))
    source.add(1, "number, p = read_uvarint(b, p)")
    source.add(1, "for _ in range(number):")
    source.add(2, "tag, p = read_uvarint(b, p)")
    source.add(2, "size, p = read_uvarint(b, p)")
    source.add(2, "stop = p + size")
    source.add(2, "if stop > e: raise too_long(size, e - p)")
    for (_, schema), (_, local) in zip(tagged, got, strict=True):
        source.add(2, f"if tag == {schema.tag}:")
        if schema.type in FIXED:
            unpack = source.constant(struct.Struct(">" + FIXED[schema.type][0]).unpack_from)
            source.add(3, f"{local}, = {unpack}(b, p)")
        else:
            found = _decode_value(source, 3, schema, version, True)
            source.add(3, f"{local} = {found}")
    source.add(2, "p = stop")
    return got


def _decode_length(source: _Source, depth: int, kind: str, flexible: bool) -> str:
    """Leaves the length in a fresh local; -1 for null."""
    local = source.fresh()
    if flexible:
        source.add(depth, f"{local}, p = read_uvarint(b, p)")
        source.add(depth, f"{local} -= 1")
    else:
        shape = struct.Struct(">h" if kind == "string" else ">i")
        source.add(depth, f"{local}, = {source.constant(shape.unpack_from)}(b, p); p += {shape.size}")
    return local


def _decode_value(source: _Source, depth: int, schema: FieldSchema, version: int, flexible: bool) -> str:
    """One variable-size value; the local that holds it."""
    kind, nullable = schema.type, _nullable(schema, version)
    value = source.fresh()
    if kind == "struct":
        inner = source.constant(decoder_of(schema.element, version, flexible))
        if nullable:
            source.add(depth, "p += 1")
            source.add(depth, f"if b[p - 1] > 127: {value} = None")
            source.add(depth, f"else: {value}, p = {inner}(b, p, e)")
        else:
            source.add(depth, f"{value}, p = {inner}(b, p, e)")
        return value
    length = _decode_length(source, depth, kind, flexible)
    source.add(depth, f"if {length} < 0:")
    source.add(depth + 1, f"if {length} < -1: raise too_long({length}, e - p)")
    source.add(depth + 1, f"{value} = None" if nullable else "raise not_null()")
    source.add(depth, "else:")
    depth += 1
    if kind in ("string", "bytes", "records"):
        part = source.fresh()
        source.add(depth, f"{part}, p = slice_out(b, p, {length}, e)")
        made = {"string": f"str({part}, 'utf-8')", "bytes": f"bytes({part})", "records": part}[kind]
        source.add(depth, f"{value} = {made}")
        return value
    _decode_items(source, depth, value, length, schema.element, version, flexible)
    return value


def _decode_items(
    source: _Source, depth: int, value: str, length: str, element: Any, version: int, flexible: bool
) -> None:
    if isinstance(element, str) and element in FIXED:
        letter, size = FIXED[element]
        unpack = source.constant(struct.unpack_from)
        source.add(depth, f"if {length} * {size} > e - p: raise too_long({length}, e - p)")
        if letter == "16s":
            source.add(depth, f"{value} = [bytes(b[p + 16 * i:p + 16 * i + 16]) for i in range({length})]")
        else:
            source.add(depth, f"{value} = list({unpack}('>%d{letter}' % {length}, b, p))")
        source.add(depth, f"p += {length} * {size}")
        return
    source.add(depth, f"if {length} > e - p: raise too_long({length}, e - p)")
    source.add(depth, f"{value} = []")
    source.add(depth, f"for _ in range({length}):")
    if isinstance(element, str):
        item = _decode_value(source, depth + 1, FieldSchema(element, _ALWAYS), version, flexible)
    else:
        inner = source.constant(decoder_of(element, version, flexible))
        item = source.fresh()
        source.add(depth + 1, f"{item}, p = {inner}(b, p, e)")
    source.add(depth + 1, f"{value}.append({item})")
