"""The ledger of a night: an append-only file of JSON lines, of which everything else about the night is computed.

    NIGHT/ledger.jsonl      planned, session, provisioned, begun, ended, lost, left_out, torn_down, note, finished
    NIGHT/lock              held by the one process that may write; says which one

A line is written and synced before what it announces goes on. A process that is killed in the middle of a line leaves
half of one, which the next writer removes. `night_state.py` folds the lines into the state.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

from squall.harness.errors import UsageError
from squall.harness.hosts.network import process_started
from squall.harness.nightly.ledger.items import Item, Outcome

LEDGER: Final = "ledger.jsonl"
LOCK: Final = "lock"


class _Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="event",
    tag=lambda name: re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower(),
):
    at: float = 0.0
    """Seconds since 1970; set when it is written."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """An item that was chosen, how long it should take, and why it was worth that."""

    item: Item
    seconds: float
    value: float
    why: str


class Omission(msgspec.Struct, frozen=True, kw_only=True):
    """An item that was not chosen, and why."""

    item: Item
    seconds: float
    value: float
    why: str


class Planned(_Event, frozen=True, kw_only=True):
    """The plan. `key` is equal for nights of the same suite, world and shard."""

    night: str
    key: str
    suite: str
    command: str
    chosen: tuple[Choice, ...]
    left_out: tuple[Omission, ...] = ()
    shard: str = ""
    budget_s: float | None = None
    retries: int = 1
    options: dict[str, Any] = {}
    """The options of the night, with which it is resumed."""


class Session(_Event, frozen=True, kw_only=True):
    """A process begins to work on the night; there is one more after each interruption."""

    pid: int
    host: str


class Provisioned(_Event, frozen=True, kw_only=True):
    """The provision hook has ended. `round` counts how often the night has provisioned hosts."""

    round: int
    seconds: float
    hosts: int = 0
    notices: tuple[str, ...] = ()


class Begun(_Event, frozen=True, kw_only=True):
    """An attempt at an item begins, in a process of its own that leads its process group."""

    item: str
    attempt: int
    cluster: str
    pid: int
    pid_started: int


class Ended(_Event, frozen=True, kw_only=True):
    """An attempt has ended."""

    item: str
    attempt: int
    seconds: float
    as_expected: bool
    outcome: Outcome


class Lost(_Event, frozen=True, kw_only=True):
    """Hosts of a cluster are gone for good; the night goes on without them."""

    cluster: str
    hosts: tuple[str, ...]
    why: str


class LeftOut(_Event, frozen=True, kw_only=True):
    """A chosen item will not be run after all. `budget`: because the time that was allowed is over."""

    item: str
    why: str
    budget: bool = False


class TornDown(_Event, frozen=True, kw_only=True):
    """The teardown hook of a round has ended. `problem` is empty if it succeeded."""

    round: int
    seconds: float
    problem: str = ""


class Note(_Event, frozen=True, kw_only=True):
    """Something that a reader of the night should know."""

    text: str


class Finished(_Event, frozen=True, kw_only=True):
    """The night is over, with this exit status."""

    status: int


Event = Planned | Session | Provisioned | Begun | Ended | Lost | LeftOut | TornDown | Note | Finished
_LINES: Final = msgspec.json.Decoder(Event)


def read_ledger(night: Path) -> list[Event]:
    """Read the events of a night; half a line at the end is what a killed writer left. Raises UsageError, OSError."""
    path = night / LEDGER
    *lines, _ = path.read_bytes().split(b"\n")
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        try:
            events.append(_LINES.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
            raise UsageError(
                f"{path}:{number}: is not an event of a night: {wrong}",
                remedy="move the night's directory away; a new night begins without it",
            ) from None
    return events


class Ledger:
    """The ledger, open for writing by this process alone. A context manager."""

    def __init__(self, night: Path, command: str, now: Callable[[], float] = time.time) -> None:
        """Raises UsageError if another process writes it."""
        night.mkdir(parents=True, exist_ok=True)
        self.night = night
        self._now = now
        self._lock = (night / LOCK).open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = owner_of(night)
            self._lock.close()
            raise UsageError(
                f"{night}: this night is under way: {owner}", remedy="wait for it, or begin another with --new"
            ) from None
        self._lock.truncate(0)
        stamp = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now()))
        self._lock.write(f"pid {os.getpid()} on {socket.gethostname()}, since {stamp}, `{command}`\n")
        self._lock.flush()
        path = night / LEDGER
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        whole = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._descriptor, whole)
        self.events = read_ledger(night) if whole else []

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
        self._lock.close()

    def write(self, event: Any) -> None:
        """Append an event, durably. Raises OSError."""
        stamped: Event = msgspec.structs.replace(event, at=round(self._now(), 3))
        os.write(self._descriptor, msgspec.json.encode(stamped) + b"\n")
        os.fsync(self._descriptor)
        self.events.append(stamped)


def session() -> Session:
    """Return the event that this process works on a night."""
    return Session(pid=os.getpid(), host=socket.gethostname())


def owner_of(night: Path) -> str:
    """Say which process holds, or held, the lock of a night."""
    try:
        return (night / LOCK).read_text().strip() or "by a process that has not said who it is"
    except OSError:
        return "by a process that cannot be seen"


def is_under_way(night: Path) -> bool:
    """Whether some process holds the lock of a night."""
    try:
        with (night / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def is_alive(begun: Begun) -> bool:
    """Whether the process of an attempt exists; a pid that was given to another process does not count."""
    return process_started(begun.pid) == begun.pid_started
