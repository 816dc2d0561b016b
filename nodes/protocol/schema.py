"""Declare messages as data: field specifiers for ordinary dataclasses, from which `compiler` makes codecs.

    @message(api_key=23, kind="request", versions=(2, 4), flexible=4)
    class OffsetForLeaderEpochRequest:
        replica_id: int = int32(versions="3+", default=-2)
        topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)

Field order, types, version ranges, nullability and tags are those of Kafka's message schemas; names are Kafka's in
snake_case. A field absent from a version keeps its default when decoded and is left out when encoded. To Python these
are plain slotted dataclasses: cheap, comparable and typed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, dataclass_transform

EVER = 32767


@dataclass(frozen=True, slots=True)
class VersionRange:
    """An inclusive range of versions."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Parse `"3+"`, `"2-5"` or `"4"`."""
        if text.endswith("+"):
            return cls(int(text[:-1]), EVER)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field on the wire. `element` is the item type of an array: a message class or another schema."""

    type: str
    versions: VersionRange
    nullable: VersionRange | None = None
    tag: int | None = None
    tagged: VersionRange | None = None
    element: Any = None
    default: Any = None
    is_shared: bool = False
    """Of an array: whether it may be a `SharedItems`."""


class SharedItems(list[Any]):
    """An array that several messages contain. It is encoded once in each version, so it must not change any more."""

    __slots__ = ("encoded",)

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.encoded: dict[int, bytes] = {}
        """By version of the message: length and items."""


class Message:
    """Base of every message: request, response, record or nested message."""

    __slots__ = ()
    NAME: ClassVar[str] = "Message"
    API_KEY: ClassVar[int] = -1
    KIND: ClassVar[str] = "data"
    VERSIONS: ClassVar[tuple[int, int]] = (0, EVER)
    FLEXIBLE_FROM: ClassVar[int] = EVER
    RECORD_ID: ClassVar[int] = -1


def _specify(
    type_name: str,
    default: Any,
    versions: str = "0+",
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    element: Any = None,
    shared: bool = False,
) -> Any:
    schema = FieldSchema(
        type_name,
        VersionRange.parse(versions),
        VersionRange.parse(nullable) if nullable else None,
        tag,
        VersionRange.parse(tagged or versions) if tag is not None else None,
        element,
        default,
        shared,
    )
    metadata = {"schema": schema}
    if isinstance(default, list) or callable(default):
        factory = default if callable(default) else list
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def boolean(*, default: bool = False, **options: Any) -> Any:
    return _specify("bool", default, **options)


def int8(*, default: int = 0, **options: Any) -> Any:
    return _specify("int8", default, **options)


def int16(*, default: int = 0, **options: Any) -> Any:
    return _specify("int16", default, **options)


def uint16(*, default: int = 0, **options: Any) -> Any:
    return _specify("uint16", default, **options)


def int32(*, default: int = 0, **options: Any) -> Any:
    return _specify("int32", default, **options)


def int64(*, default: int = 0, **options: Any) -> Any:
    return _specify("int64", default, **options)


def float64(*, default: float = 0.0, **options: Any) -> Any:
    return _specify("float64", default, **options)


def uuid(*, default: bytes = bytes(16), **options: Any) -> Any:
    return _specify("uuid", default, **options)


def string(*, default: str | None = "", **options: Any) -> Any:
    return _specify("string", default, **options)


def data(*, default: bytes | None = b"", **options: Any) -> Any:
    """A byte string."""
    return _specify("bytes", default, **options)


def records(*, default: bytes | None = None, nullable: str = "0+", **options: Any) -> Any:
    """Record batches: opaque, never copied."""
    return _specify("records", default, nullable=nullable, **options)


def array(element: Any, *, default: Any = list, **options: Any) -> Any:
    """Items are message classes or the names of primitive types: `array("int32")`. `shared`: see `SharedItems`."""
    return _specify("array", default, element=element, **options)


def struct(element: Any, *, default: Any = dataclasses.MISSING, **options: Any) -> Any:
    """One nested message; its default is a message of default fields."""
    return _specify("struct", element if default is dataclasses.MISSING else default, element=element, **options)


Declared = TypeVar("Declared", bound=type)


# Every field has a default, so the specifiers are not declared as such: type checkers then see plain defaults.
@dataclass_transform()
def message(
    *,
    api_key: int = -1,
    kind: str = "data",
    versions: tuple[int, int] = (0, EVER),
    flexible: int = EVER,
    record_id: int = -1,
) -> Callable[[Declared], Declared]:
    """Turn a schema class into a dataclass. `kind` is request, response, record, data (a whole) or part (of one)."""

    def declare(cls: Declared) -> Declared:
        made: Any = dataclass(slots=True)(cls)
        made.NAME = cls.__name__
        made.API_KEY = api_key
        made.KIND = kind
        made.VERSIONS = versions
        made.FLEXIBLE_FROM = flexible
        made.RECORD_ID = record_id
        return made

    return declare


def fields_of(cls: type) -> list[tuple[str, FieldSchema]]:
    """Names and schemas in wire order."""
    return [(item.name, item.metadata["schema"]) for item in dataclasses.fields(cls)]
