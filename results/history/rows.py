"""Define the rows of a segment: what a history consists of while it is being recorded.

A row is an array with its kind first. Operations on a log are `i` (invocation) and `c` (completion); operations on a
register are `ri` and `rc`. All of them share the rules of a history: a process has one operation open at a time, its
times do not go back, and after an operation of unknown outcome (`info`) it is never used again. Invocations of all
kinds number the operations of a segment.

Registers. A *register* is anything that is read, written and compared-and-set as a whole, such as one configuration
value of a topic; `register` is its name, free but unique in the run (`retention.ms of events`). Values are integers,
unique per register if the workload can ensure it (`process << 40 | counter`). `ABSENT` means that the register holds
nothing, as every register does at first.

    f       of an invocation                       of a completion
    read                                           ok: `found` is what it held, `version` that value's version
    write   `value` is what it puts there          ok: `version` is the one it was given, if the response names it
    cas     `value`, if it holds `expected`        the same; if it held something else: fail, `refused`, and in
                                                   `found` and `version` what it held, as far as the response says

A cas whose expectation is a version and not a value states the value that it read with that version. `fail` without
`refused` means that the operation has certainly not changed anything, and states nothing about the register. Versions
grow with every change, not necessarily by one.

The last row of a segment, `e`, states how many lines there were and their checksum. A segment without it was not closed
by its writer: the process died, or the file was cut off. The header has its own checksum, since it is rewritten when a
segment is fetched from another host.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

SCHEMA_VERSION: Final = 1

FUNCTIONS: Final[dict[str, int]] = {
    "send": 0,
    "poll": 1,
    "list_offsets": 2,
    "marker": 3,
    "final_poll": 4,
    "delete_records": 5,
    "create_topic": 6,
    "create_partitions": 7,
    "delete_topic": 8,
    "seek": 9,
    "reopen": 10,
}
"""Codes of `f`. Codes are never reused: stored histories keep their meaning."""

TYPES: Final[dict[str, int]] = {"ok": 0, "fail": 1, "info": 2}
"""Codes of `type`."""

ACKS_ALL: Final = -1

REGISTER_FUNCTIONS: Final[dict[str, int]] = {"read": 0, "write": 1, "cas": 2}
"""Codes of `f` of operations on registers."""

ABSENT: Final = -(1 << 63) + 1
"""The value of a register that holds nothing."""


class SegmentHeader(msgspec.Struct, frozen=True, tag="segment", tag_field="row", array_like=True):
    """The first line of a segment.

    `segment` is unique in the run and numbers its operations. `acks` and `idempotent` hold for every send that does not
    state otherwise. `clock_offset` is added to every time to get the control process's, and is right to within
    `clock_error`. `digest` is the checksum of the header; None in a header from before checksums were written.
    """

    run_id: str
    segment: int
    acks: int = ACKS_ALL
    idempotent: bool = True
    clock_id: int = 0
    clock_offset: int = 0
    clock_error: int = 0
    schema: int = SCHEMA_VERSION
    digest: int | None = None

    def sealed(self) -> SegmentHeader:
        """Return the same header with its checksum."""
        return msgspec.structs.replace(self, digest=self._sum())

    @property
    def is_whole(self) -> bool:
        """Whether the header is what its writer wrote."""
        return self.digest is None or self.digest == self._sum()

    def _sum(self) -> int:
        return zlib.crc32(msgspec.json.encode(msgspec.structs.replace(self, digest=None)))


class InvocationRow(msgspec.Struct, frozen=True, tag="i", tag_field="row", array_like=True, gc=False):
    """An operation begins. `at` is the intended start, `invoked` the actual one."""

    f: str
    process: int
    client: int
    invoked: int
    at: int
    topic: str | None = None
    partition: int | None = None
    value: int | None = None
    acks: int | None = None
    idempotent: bool | None = None


class CompletionRow(msgspec.Struct, frozen=True, tag="c", tag_field="row", array_like=True, gc=False):
    """The outcome of the open operation of `process`.

    `client` and `idempotent` are set if they differ from the invocation's.
    """

    process: int
    type: Literal["ok", "fail", "info"]
    completed: int
    offset: int | None = None
    offsets: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    error: str | None = None
    client: int | None = None
    sequence: int | None = None
    session: int | None = None
    position: int | None = None
    leader_epoch: int | None = None
    high_watermark: int | None = None
    log_start: int | None = None
    node: int | None = None
    idempotent: bool | None = None


class RegisterInvocation(msgspec.Struct, frozen=True, tag="ri", tag_field="row", array_like=True, gc=False):
    """An operation on a register begins: `f` is read, write or cas."""

    f: str
    process: int
    client: int
    invoked: int
    at: int
    register: str
    value: int | None = None
    expected: int | None = None


class RegisterCompletion(msgspec.Struct, frozen=True, tag="rc", tag_field="row", array_like=True, gc=False):
    """The outcome of the open operation of `process` on a register."""

    process: int
    type: Literal["ok", "fail", "info"]
    completed: int
    found: int | None = None
    version: int | None = None
    refused: bool = False
    error: str | None = None
    node: int | None = None


class SegmentEnd(msgspec.Struct, frozen=True, tag="e", tag_field="row", array_like=True):
    """The last line of a segment that was closed: the number of lines between header and here, and their checksum."""

    lines: int
    digest: int


Invocation = InvocationRow | RegisterInvocation
Completion = CompletionRow | RegisterCompletion
Row = Invocation | Completion


class Sum:
    """A running checksum of lines."""

    def __init__(self) -> None:
        self.lines = 0
        self.digest = 0

    def add(self, lines: bytes | bytearray) -> None:
        """Add some whole lines, each with its line end."""
        self.lines += lines.count(b"\n")
        self.digest = zlib.crc32(lines, self.digest)

    @property
    def end(self) -> SegmentEnd:
        return SegmentEnd(self.lines, self.digest)


def end_of(lines: Iterable[bytes]) -> SegmentEnd:
    """Return the last row of a segment with these lines (without their line ends)."""
    total = Sum()
    for line in lines:
        total.add(line + b"\n")
    return total.end
