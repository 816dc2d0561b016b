"""Read the events of a foreign history in any of its notations, and join them to operations.

An event is what Jepsen calls an operation: a process, a type (invoke, ok, fail or info), a function and a value.

    EDN         one map per event, as in `history.edn`, also `#jepsen.history.Op{…}`, or all in one vector
    JSON        the same maps with strings for keywords: one a line, or all in one array
    log lines   `0  :invoke  :write  3`, as in `history.txt` and in a console log (`INFO  jepsen.util - 0 …`)

Order. The events of a history are in the order in which they occurred, which its tool judges by. Times, if there are
any (`:time`, in nanoseconds), state the distance between events. Where the two disagree, the order counts: times are
moved forward to stay in order. Without times, an event takes a microsecond.

After an operation of unknown outcome a process continues under a new number, as Jepsen's do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from squall.results.importing.edn import Keyword, forms, shown
from squall.results.importing.trouble import ForeignTrouble

Outcome = Literal["ok", "fail", "info"]
NEMESIS: Final = "nemesis"
TYPES: Final = ("invoke", "ok", "fail", "info")
MICROSECOND: Final = 1_000
LARGEST_KEPT: Final = 1 << 40
"""Process numbers from here on are assigned here."""

_LOG_LINE: Final = re.compile(r"^(?:.*?\s-\s+)?(\S+)\s+:(invoke|ok|fail|info)\s+:(\S+)[ \t]*(.*)$")


@dataclass(frozen=True)
class Event:
    """One line of a history. `time` is None if the file states none."""

    line: int
    process: Any
    type: str
    f: str
    value: Any
    time: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """An invocation and its completion.

    `completed` is None if there was no completion. `process` numbers one incarnation of a process; `value` is that of
    the invocation, `answer` that of the completion.
    """

    line: int
    end_line: int | None
    process: int
    type: Outcome
    f: str
    value: Any
    answer: Any
    invoked: int
    completed: int | None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ForeignHistory:
    """All operations of clients by their invocation, and the events of the nemesis with times."""

    file: Path
    operations: tuple[Operation, ...]
    nemesis: tuple[tuple[int, Event], ...]
    notation: str
    timed: bool
    processes: Mapping[int, str]

    def trouble(self, line: int | None, problem: str, remedy: str | None = None) -> ForeignTrouble:
        """Make an error about a line of this file."""
        return ForeignTrouble(self.file, line, problem, remedy)


def read_history(path: Path) -> ForeignHistory:
    """Read a file. Raises ForeignTrouble naming file, line and value."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as trouble:
        raise ForeignTrouble(path, None, f"cannot be read: {trouble.strerror}") from None
    except UnicodeDecodeError as trouble:
        line = path.read_bytes()[: trouble.start].count(b"\n") + 1
        raise ForeignTrouble(path, line, "is not a text in UTF-8", "a history is EDN, JSON or log lines") from None
    notation = notation_of(text)
    read = {"EDN": _edn_events, "JSON": _json_events, "log lines": _log_events}[notation]
    return joined(path, list(read(text, path)), notation)


def notation_of(text: str) -> str:
    """Return the notation of a text: `EDN`, `JSON` or `log lines`."""
    start = re.sub(r"\A(?:[\s,]|;[^\n]*)*", "", text[:10_000])
    if re.match(r'(?:\[\s*)?\{\s*(?:"|\})', start) or start.startswith("[]"):
        return "JSON"
    return "EDN" if start[:1] in ("{", "[", "(", "#") else "log lines"


# Notations ------------------------------------------------------------------------------------------------------------


def _edn_events(text: str, file: Path) -> Iterator[Event]:
    for line, form in forms(text, file):
        if not isinstance(form, dict):
            problem = f"{shown(form)[:80]} is not an operation"
            raise ForeignTrouble(file, line, problem, "each is a map, such as {:process 0, :type :invoke, …}")
        yield _event(file, line, form)


def _json_events(text: str, file: Path) -> Iterator[Event]:
    decoder, at = json.JSONDecoder(), 0
    blank = re.compile(r"[\s,]*")
    inside = text.lstrip().startswith("[")
    at = text.index("[") + 1 if inside else 0
    line, counted = 1, 0
    while True:
        at = blank.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text) or (inside and text[at] == "]"):
            return
        line, counted = line + text.count("\n", counted, at), at
        try:
            form, at_end = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as trouble:
            where = getattr(trouble, "lineno", line)
            raise ForeignTrouble(file, where, f"is not JSON: {getattr(trouble, 'msg', 'nested too deeply')}") from None
        if not isinstance(form, dict):
            problem = f"{json.dumps(form)[:80]} is not an operation"
            raise ForeignTrouble(file, line, problem, 'each is an object, such as {"process": 0, "type": "invoke", …}')
        at = at_end
        yield _event(file, line, {name: _frozen(value) for name, value in form.items()})


def _frozen(value: Any) -> Any:
    """Return a value with its arrays as tuples."""
    if isinstance(value, list):
        return tuple(_frozen(one) for one in value)
    return {name: _frozen(one) for name, one in value.items()} if isinstance(value, dict) else value


def _log_events(text: str, file: Path) -> Iterator[Event]:
    for line, row in enumerate(text.splitlines(), 1):
        if not row.strip():
            continue
        match = _LOG_LINE.match(row)
        if match is None:
            raise ForeignTrouble(
                file,
                line,
                f"{row[:80]!r} is not an operation",
                "a line is PROCESS :TYPE :F VALUE, such as 0 :invoke :read nil",
            )
        process, kind, f, rest = match.groups()
        value = (
            next((form for _, form in forms(f"{rest} ", file)), None)
            if rest[:1] not in "[("
            else _one(rest, file, line)
        )
        yield Event(line, _process_of(process), kind, f, value)


def _one(text: str, file: Path, line: int) -> Any:
    """Return the first form of a text that begins with a vector."""
    try:
        return next(form for _, form in forms(f"[{text}]", file))
    except ForeignTrouble:
        raise ForeignTrouble(file, line, f"{text[:80]!r} is not a value", "values are written as in EDN") from None


def _process_of(word: str) -> Any:
    return int(word) if word.isdecimal() else Keyword(word.removeprefix(":"))


def _event(file: Path, line: int, form: Mapping[Any, Any]) -> Event:
    """Make an event of a map whose names are keywords or strings."""
    named = {str(name).removeprefix(":"): value for name, value in form.items()}
    for name in ("type", "process"):
        if named.get(name) is None:
            raise ForeignTrouble(file, line, f"has no :{name}", f"an operation states :{name}")
    kind = str(named.pop("type")).removeprefix(":")
    if kind not in TYPES:
        raise ForeignTrouble(file, line, f":type {kind!r} is not one of {', '.join(TYPES)}")
    time = named.pop("time", None)
    if time is not None and (isinstance(time, bool) or not isinstance(time, int) or abs(time) > 1 << 62):
        raise ForeignTrouble(file, line, f":time {shown(time)} is not a whole number of nanoseconds")
    f = named.pop("f", None)
    return Event(
        line=line,
        process=named.pop("process"),
        type=kind,
        f="txn" if f is None else str(f).removeprefix(":"),
        value=named.pop("value", None),
        time=time,
        more=named,
    )


# Operations -----------------------------------------------------------------------------------------------------------


def joined(file: Path, events: Sequence[Event], notation: str) -> ForeignHistory:
    """Join invocations and completions. Raises ForeignTrouble."""
    if not events:
        raise ForeignTrouble(file, None, "has no operations: nothing can be checked")
    timed = all(one.time is not None for one in events)
    numbers = _Processes(events)
    open_ones: dict[str, tuple[Event, int, int]] = {}
    operations: list[Operation] = []
    nemesis: list[tuple[int, Event]] = []
    now = -MICROSECOND
    for one in events:
        assert one.time is not None or not timed
        now = max(now + 1, one.time) if timed and one.time is not None else now + MICROSECOND
        if str(one.process).removeprefix(":") == NEMESIS:
            nemesis.append((now, one))
            continue
        name = shown(one.process)
        began = open_ones.pop(name, None)
        if one.type == "invoke":
            if began is not None:
                problem = f"process {name} begins {one.f} while its {began[0].f} of line {began[0].line} is open"
                raise ForeignTrouble(file, one.line, problem, "a process does one thing at a time")
            open_ones[name] = (one, now, numbers.of(name, one))
            continue
        if began is None:
            problem = f"process {name} ends {one.f} ({one.type}) and has begun nothing"
            raise ForeignTrouble(file, one.line, problem, "each completion follows its invocation")
        start, invoked, number = began
        if start.f != one.f:
            problem = f"process {name} ends {one.f} and has begun {start.f} on line {start.line}"
            raise ForeignTrouble(file, one.line, problem, "a completion names the function of its invocation")
        if one.type == "info":
            numbers.retire(name)
        operations.append(
            Operation(
                line=start.line,
                end_line=one.line,
                process=number,
                type=one.type,  # type: ignore[arg-type]
                f=start.f,
                value=start.value,
                answer=one.value,
                invoked=invoked,
                completed=now,
                more={**start.more, **one.more},
            )
        )
    operations += [
        Operation(start.line, None, number, "info", start.f, start.value, None, invoked, None, start.more)
        for start, invoked, number in open_ones.values()
    ]
    operations.sort(key=lambda one: one.invoked)
    return ForeignHistory(file, tuple(operations), tuple(nemesis), notation, timed, numbers.names)


class _Processes:
    """Numbers for processes of any type, a new one after each operation of unknown outcome."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.names: dict[int, str] = {}
        self._now: dict[str, int] = {}
        self._fresh = LARGEST_KEPT
        self._kept = {
            shown(one.process): one.process
            for one in events
            if isinstance(one.process, int) and not isinstance(one.process, bool) and 0 <= one.process < LARGEST_KEPT
        }

    def of(self, name: str, event: Event) -> int:
        """Return the number of a process that begins an operation."""
        number = self._now.get(name)
        if number is None:
            number = self._kept.pop(name, None)
            if number is None:
                number, self._fresh = self._fresh, self._fresh + 1
            self._now[name] = number
            self.names[number] = name
        return number

    def retire(self, name: str) -> None:
        del self._now[name]
