"""Define the lines between a load worker and a client program, and judge the program's (docs/client-programs.md).

The worker writes one `Request` a line, the program one `Answer` a line, in any order. An answer names its request by
`id`. A line that is no answer, or that leaves out what its operation needs, is a `BadLine`: it says which line is wrong
and what would be right, and nothing that the program says from there on is believed.

    → {"id":7,"f":"send","topic":"events","partition":0,"value":41,"size":100}
    ← {"id":7,"type":"ok","offset":3}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec.structs import replace

from squall.workloads.clients.common.errors import READS
from squall.workloads.core.operation import (
    ABSENT,
    CAS,
    FAIL,
    FINAL_POLL,
    LIST_OFFSETS,
    MARKER,
    OK,
    POLL,
    READ,
    SEND,
    WRITE,
    Completion,
    Operation,
)

PROTOCOL: Final = 1
OPEN: Final = "open"
OPEN_ID: Final = 0
SHOWN: Final = 120
"""The most characters of a wrong line that a message shows."""
NAMES: Final[Mapping[str, str]] = {
    SEND: SEND,
    MARKER: SEND,
    POLL: POLL,
    FINAL_POLL: POLL,
    LIST_OFFSETS: LIST_OFFSETS,
    READ: READ,
    WRITE: WRITE,
    CAS: CAS,
}
"""What a program is asked to do for each operation: a marker is a send, a final poll is a poll."""

Integer = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Request(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One line to a program: an operation. Only the fields of its `f` are written."""

    id: int
    f: str
    topic: str | None = None
    partition: int | None = None
    value: int | None = None
    size: int | None = None
    position: int | None = None
    most: int | None = None
    wait_ms: int | None = None
    register: str | None = None
    expected: int | msgspec.UnsetType | None = msgspec.UNSET


class OpenRequest(msgspec.Struct, frozen=True):
    """The first line to a program."""

    client: int
    role: str
    servers: tuple[str, ...]
    topics: tuple[tuple[str, int], ...]
    acks: str
    settings: Mapping[str, str]
    id: int = OPEN_ID
    f: str = OPEN
    protocol: int = PROTOCOL


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a program: the outcome of the request with that `id`."""

    id: int
    type: Literal["ok", "fail", "info"]
    error: str | None = None
    client: str | None = None
    """Of open: the library and its version."""
    offset: Offset | None = None
    records: list[tuple[Offset, Integer]] | None = None
    """Of a poll: offset and value of each record, in the order of delivery."""
    log_start: Offset | None = None
    high_watermark: Offset | None = None
    found: Integer | msgspec.UnsetType | None = msgspec.UNSET
    """What a register held; null if it held nothing."""
    version: Integer | None = None
    refused: bool = False
    node: int | None = None


class BadLine(Exception):
    """A line of a program that is no answer; the message shows the line and says what would be right."""


_DECODER: Final = msgspec.json.Decoder(Answer)


def decoded(line: bytes, number: int) -> Answer:
    """Return the answer in the program's `number`-th line. Raises BadLine."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:  # a ValidationError is a DecodeError
        raise BadLine(f"line {number}: {_shown(line)}: {wrong}") from None


def _shown(line: bytes) -> str:
    text = line.decode(errors="backslashreplace").strip()
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


def completion_of(operation: Operation, answer: Answer) -> Completion:
    """Return what an answer says of its operation. Raises BadLine for an answer without what the operation needs.

    A read changes nothing, so that one of unknown outcome has certainly changed nothing.
    """
    if answer.refused and (operation.f, answer.type) != (CAS, FAIL):
        raise BadLine(f"answer {answer.id}: `refused` is for a cas that is `fail`; this is a {operation.f}")
    if answer.type != OK:
        of_read = operation.f in READS
        return Completion(
            FAIL if of_read else answer.type,
            error=answer.error or ("refused" if answer.refused else "unknown"),
            refused=answer.refused,
            found=_found(answer) if answer.refused else None,
            version=answer.version if answer.refused else None,
            node=answer.node,
        )
    return _ok(operation, answer)


def _ok(operation: Operation, answer: Answer) -> Completion:
    f = operation.f
    missing = {
        SEND: answer.offset is None and "offset",
        MARKER: answer.offset is None and "offset",
        POLL: answer.records is None and "records",
        FINAL_POLL: answer.records is None and "records",
        LIST_OFFSETS: answer.high_watermark is None and "high_watermark",
        READ: answer.found is msgspec.UNSET and "found",
    }.get(f)
    if missing:
        raise BadLine(f"answer {answer.id}: a {NAMES[f]} that is ok must state `{missing}`")
    records = answer.records or []
    return Completion(
        OK,
        offset=answer.offset,
        offsets=tuple(offset for offset, _ in records),
        values=tuple(value for _, value in records),
        log_start=answer.log_start,
        high_watermark=answer.high_watermark,
        found=_found(answer) if f == READ else None,
        version=answer.version,
        node=answer.node,
    )


def _found(answer: Answer) -> int | None:
    """Return what the register held, as far as the answer says."""
    if answer.found is msgspec.UNSET:
        return None
    return ABSENT if answer.found is None else answer.found


def request_of(
    number: int, operation: Operation, *, size: int, position: int | None, most: int, wait_ms: int
) -> Request:
    """Return the line that asks a program to carry out an operation."""
    f = NAMES[operation.f]
    made = Request(number, f, topic=operation.topic, partition=operation.partition, register=operation.register)
    if f == SEND:
        return replace(made, value=operation.value, size=size)
    if f == POLL:
        return replace(made, position=position, most=most, wait_ms=wait_ms)
    if f == CAS:
        expected = None if operation.expected == ABSENT else operation.expected
        return replace(made, value=operation.value, expected=expected)
    return replace(made, value=operation.value)


def opening_error(answer: Answer) -> str | None:
    """Return why a program has not opened; None if it has."""
    return None if answer.type == OK else answer.error or f"{OPEN} ended in {answer.type}, without an error"
