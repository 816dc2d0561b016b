"""Operations and their completions: what a workload requests, and what a client observed (HX-03).

An *operation* is one request of a client: send this value, poll that topic-partition. A *process* is a logical thread
of control with one operation outstanding at a time; a *client* is the connection (or library instance) that serves one
process or, for a pipelining producer, many. The outcome of an operation is three-valued:

    ok      it took effect, and this is the result
    fail    it certainly did not take effect
    info    unknown: it may have taken effect, may do so later, or never

A process whose operation ended in `info` is never used again: its operation stays open for ever, and a new process does
the thread's next operation (`Thread` numbers stay, process numbers advance by the number of threads, so they never
collide).

Values are unique by construction: `process << 40 | counter`. The checkers depend on it; it turns an NP-complete
question into a linear one.

Times are nanoseconds of the world's monotonic clock. `at` is when the operation was *meant* to start (an open-loop
schedule does not wait for a slow system); the interpreter also records the actual start.

Three of these values are made for every operation, so they are structs that the garbage collector does not track:
making one costs a tenth of a frozen dataclass. None can be part of a cycle.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

SEND: Final = "send"
POLL: Final = "poll"
LIST_OFFSETS: Final = "list_offsets"
MARKER: Final = "marker"
FINAL_POLL: Final = "final_poll"
DELETE_RECORDS: Final = "delete_records"
CREATE_TOPIC: Final = "create_topic"
CREATE_PARTITIONS: Final = "create_partitions"
DELETE_TOPIC: Final = "delete_topic"
SEEK: Final = "seek"
REOPEN: Final = "reopen"

READ: Final = "read"
WRITE: Final = "write"
CAS: Final = "cas"

ADMIN: Final = (CREATE_TOPIC, CREATE_PARTITIONS, DELETE_TOPIC)
REGISTER: Final = (READ, WRITE, CAS)
"""Operations on registers, which are read, written, and compared and set as a whole."""

FUNCTIONS: Final[tuple[str, ...]] = (
    SEND,
    POLL,
    LIST_OFFSETS,
    MARKER,
    FINAL_POLL,
    DELETE_RECORDS,
    SEEK,
    REOPEN,
    *ADMIN,
    *REGISTER,
)

OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"

CompletionType = Literal["ok", "fail", "info"]

COUNTER_BITS: Final = 40
UNREADABLE_VALUE: Final = -1
ABSENT: Final = -(1 << 63) + 1
"""The value of a register that holds nothing."""


def unique_value(process: int, counter: int) -> int:
    """The `counter`-th value of a process; no other process can write it."""
    return process << COUNTER_BITS | counter


def value_name(value: int) -> str:
    """A readable form: `4·1093`, the process and its counter."""
    return f"{value >> COUNTER_BITS}·{value & ((1 << COUNTER_BITS) - 1)}"


class Operation(msgspec.Struct, frozen=True, gc=False):
    """One request, before its outcome is known.

    `register` names the register of the operation; `expected` is the value that a cas requires there. `value` of a seek
    is the offset from which its process reads on, in a new session. A reopen concerns the whole client of its process:
    the client is abandoned as if it had crashed, with nothing flushed, and another one under a new number takes its
    place.
    """

    f: str
    thread: int
    process: int
    client: int
    at: int
    topic: str | None = None
    partition: int | None = None
    value: int | None = None
    register: str | None = None
    expected: int | None = None


class Completion(msgspec.Struct, frozen=True, gc=False):
    """What a client observed of an operation. Fields are None or empty where the client does not see them.

    `offsets` and `values` are the run a poll delivered, in delivery order. `session` counts the assignments of the
    polling client and `position` is its cursor before the poll. `sequence` is the client's send sequence (the order
    in which a pipelining producer handed its records over). `client` is set where it differs from the operation's,
    because the client had to restart its library. `high_watermark` and `log_start` are those of the response.
    `leader_epoch` is, of a poll, that of the last delivered record; of list_offsets, that of the responding leader;
    of a send or a delete_records, the one under which the client knew the leader. `idempotent` is False for a send
    that the library may have retried outside its promise of idempotence; None where the plan's value holds. `found`
    is the value of a register, `version` that value's version, or the one that a write was given. `refused`: a cas
    found another value than it expected.
    """

    type: CompletionType
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
    found: int | None = None
    version: int | None = None
    refused: bool = False


class Event(msgspec.Struct, frozen=True, gc=False):
    """An operation with its times and, once complete, its completion: what the interpreter records.

    `invoked` and `completed` are nanoseconds; an operation still open has neither completion nor `completed`.
    """

    operation: Operation
    invoked: int
    completion: Completion | None = None
    completed: int | None = None
