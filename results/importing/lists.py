"""Map Elle's list-append transactions, and gets and appends of strings (Porcupine's key-value store).

    [:append k v]           an append of v to the list k
    [:r k nil → [v …]]      a read of the list k; nil in a committed transaction is the empty list

Registers of transactions (`[:w k v]`) are refused: Squall infers the order of writes from lists, and guesses none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from squall.results.history.operation_tables import LIST_APPEND
from squall.results.history.rows import TYPES
from squall.results.history.table_schemas import APPEND, READ, TRANSACTION_SCHEMA
from squall.results.importing.edn import shown
from squall.results.importing.mapped import Mapped
from squall.results.importing.numbering import Numbering
from squall.results.importing.reading import ForeignHistory, Operation

PLAIN: Final = 1 << 40
Micro = tuple[int, int, int, tuple[int, ...] | None]
"""Function, key, element and, for a read, the list."""


def is_of_lists(history: ForeignHistory) -> bool:
    """Whether the operations are transactions of micro-operations other than those of logs."""
    first = next((one.value for one in history.operations if one.value), None)
    return (
        isinstance(first, tuple)
        and all(isinstance(one, tuple) and str(one[:1]) for one in first)
        and any(_name(one) in ("append", "r", "w") for one in first)
    )


def map_lists(history: ForeignHistory) -> Mapped:
    """Map list-append transactions. Raises ForeignTrouble, also for registers of transactions."""
    keys, elements = Numbering(PLAIN), Numbering(PLAIN)
    rows = []
    for one in history.operations:
        source = one.answer if one.type == "ok" else one.value
        line = one.end_line if one.type == "ok" else one.line
        if not isinstance(source, tuple):
            problem = f"the value {shown(source)} is not a list of micro-operations"
            raise history.trouble(line, problem, "such as [[:append 5 1] [:r 6 [1 2]]]")
        rows.append((one, [_micro(history, line, each, one.type == "ok", keys, elements) for each in source]))
    return _mapped(rows, keys, elements, "a list per key")


def _micro(
    history: ForeignHistory, line: int | None, each: Any, committed: bool, keys: Numbering, elements: Numbering
) -> Micro:
    name = _name(each)
    if name == "w":
        raise history.trouble(
            line,
            f"{shown(each)} writes a register: transactions of registers (rw-register) are not judged",
            "list-append histories are; Elle itself judges rw-register",
        )
    if name not in ("append", "r") or len(each) != 3:
        problem = f"{shown(each)} is not a micro-operation of list-append"
        raise history.trouble(line, problem, "there are [:append k v] and [:r k list]")
    key = keys.of(each[1])
    if name == "append":
        if each[2] is None:
            raise history.trouble(line, f"{shown(each)} appends nothing", "an append states its element")
        return APPEND, key, elements.of(each[2]), None
    if not committed:
        return READ, key, 0, None
    found = () if each[2] is None else each[2]
    if not isinstance(found, tuple):
        problem = f"{shown(each)} reads {shown(found)}, which is not a list"
        raise history.trouble(line, problem, "transactions of registers (rw-register) are not judged; Elle judges them")
    return READ, key, 0, tuple(elements.of(one) for one in found)


def _name(each: Any) -> str:
    return str(each[0]).removeprefix(":") if isinstance(each, tuple) and each else ""


def _mapped(rows: Sequence[tuple[Operation, list[Micro]]], keys: Numbering, elements: Numbering, what: str) -> Mapped:
    table = pa.table(
        {
            "op_id": list(range(len(rows))),
            "process": [one.process for one, _ in rows],
            "type": [TYPES[one.type] for one, _ in rows],
            "invoked": [one.invoked for one, _ in rows],
            "completed": [one.completed for one, _ in rows],
            "clock_error": [0] * len(rows),
            "functions": [[each[0] for each in micros] for _, micros in rows],
            "keys": [[each[1] for each in micros] for _, micros in rows],
            "elements": [[each[2] for each in micros] for _, micros in rows],
            "reads": [[each[3] for each in micros] for _, micros in rows],
        },
        schema=TRANSACTION_SCHEMA,
    )
    names = {"key": tuple(keys.given()), "element": tuple(elements.given())}
    return Mapped(LIST_APPEND, what, (LIST_APPEND,), tables={LIST_APPEND: table}, names=names)


# Strings that are appended to -----------------------------------------------------------------------------------------


def map_strings(history: ForeignHistory) -> Mapped:
    """Map gets and appends: a list per key, whose elements are the appended strings.

    Raises ForeignTrouble for a string that cannot be split into these in exactly one way.
    """
    keys, elements = Numbering(PLAIN), Numbering(PLAIN)
    appended: dict[str, set[str]] = {}
    for one in history.operations:
        if one.more.get("key") is None:
            raise history.trouble(one.line, "has no :key", "a get or append states its key")
        if one.f == "append":
            if not isinstance(one.value, str) or not one.value:
                problem = f"an append of {shown(one.value)}"
                raise history.trouble(one.line, problem, "an append states a string that is not empty")
            appended.setdefault(shown(one.more["key"]), set()).add(one.value)
    rows: list[tuple[Operation, list[Micro]]] = []
    for one in history.operations:
        name = shown(one.more["key"])
        key = keys.of(one.more["key"])
        if one.f == "append":
            rows.append((one, [(APPEND, key, elements.of(one.value), None)]))
            continue
        found = None
        if one.type == "ok":
            parts = _taken_apart(one.answer or "", appended.get(name, set()))
            if parts is None:
                problem = f"{shown(one.answer)[:80]} is not made of the strings that were appended to {name} in one way"
                raise history.trouble(one.end_line, problem, "appended strings must be unique and none begin another")
            found = tuple(elements.of(part) for part in parts)
        rows.append((one, [(READ, key, 0, found)]))
    return _mapped(rows, keys, elements, "a list per key, of the strings appended to it")


def _taken_apart(text: Any, parts: set[str]) -> list[str] | None:
    """Split a text into the strings that it is made of; None unless at each place exactly one of them fits."""
    if not isinstance(text, str):
        return None
    lengths = sorted({len(part) for part in parts})
    at, found = 0, []
    while at < len(text):
        fits = [length for length in lengths if text[at : at + length] in parts and at + length <= len(text)]
        if len(fits) != 1:
            return None
        found.append(text[at : at + fits[0]])
        at += fits[0]
    return found
