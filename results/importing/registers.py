"""Map operations on registers (Jepsen, Knossos, Porcupine), and gets and puts of keys.

    read   [nil → v]        `read` that found v; nil is a register that holds nothing
    write  v                `write`
    cas    [old new]        `cas`

With Jepsen's `independent` tests each value is a pair `[key value]`, and each key a register. To Jepsen a failed `cas`
states nothing about the register, because it drops failed operations; to Porcupine's etcd model it states that the
register held another value (`refused`).
"""

from __future__ import annotations

from typing import Any, Final

from squall.results.history.operation_tables import REGISTERS
from squall.results.history.rows import ABSENT, RegisterCompletion, RegisterInvocation
from squall.results.importing.edn import shown
from squall.results.importing.mapped import Mapped, Pair
from squall.results.importing.numbering import Numbering
from squall.results.importing.reading import ForeignHistory, Operation

FUNCTIONS: Final = ("read", "write", "cas")
SINGLE: Final = "x"
"""The name of the only register of a history."""
PLAIN: Final = 1 << 60
"""Integers from 0 up to this stand for themselves."""
BEFORE: Final = 2_000
"""How long before the first operation the initial value is written, in nanoseconds."""


def is_of_registers(history: ForeignHistory) -> bool:
    """Whether all functions are those of registers."""
    return all(one.f in FUNCTIONS for one in history.operations)


def map_registers(history: ForeignHistory, *, refusals: bool, initial: Any = None) -> Mapped:
    """Map operations on registers. Raises ForeignTrouble.

    `refusals`: a failed cas states that the register held another value. `initial` is the first value of each register.
    """
    paired = _paired(history)
    values = Numbering(PLAIN)
    pairs: list[Pair] = []
    registers: dict[str, None] = {}
    for one in history.operations:
        if one.f not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            raise history.trouble(one.line, f":f {one.f!r} is not a function of a register", f"there are {known}")
        key, value = _split(history, one.line, one.value) if paired else (None, one.value)
        register = SINGLE if key is None else shown(key)
        registers[register] = None
        answer = one.answer
        if paired and one.type == "ok":
            answer = _split(history, one.end_line, answer)[1]
        pairs.append(_pair(history, one, register, value, answer, values, refusals))
    if initial is not None and history.operations:
        pairs = [*_initial(history, list(registers), values.of(initial)), *pairs]
    return Mapped(
        kind=REGISTERS,
        what="a register per key of [key value]" if paired else "one register",
        checks=(REGISTERS,),
        pairs=tuple(pairs),
        names={"value": tuple(values.given())},
    )


def _pair(
    history: ForeignHistory,
    one: Operation,
    register: str,
    value: Any,
    answer: Any,
    values: Numbering,
    refusals: bool,
) -> Pair:
    put, expected = None, None
    if one.f == "cas":
        if not isinstance(value, tuple) or len(value) != 2:
            raise history.trouble(one.line, f"a cas of {shown(value)}", "a cas has the value [old new]")
        expected, put = _number(values, value[0]), _number(values, value[1])
    elif one.f == "write":
        if value is None:
            raise history.trouble(one.line, "a write of nil", "a write states its value")
        put = _number(values, value)
    begun = RegisterInvocation(one.f, one.process, 0, one.invoked, one.invoked, register, put, expected)
    if one.completed is None:
        return begun, None
    found = _number(values, answer) if one.f == "read" and one.type == "ok" else None
    refused = refusals and one.f == "cas" and one.type == "fail"
    return begun, RegisterCompletion(one.process, one.type, one.completed, found=found, refused=refused)


def _number(values: Numbering, value: Any) -> int:
    return ABSENT if value is None else values.of(value)


def _initial(history: ForeignHistory, registers: list[str], value: int) -> list[Pair]:
    """Make a write of the initial value to each register, before all other operations."""
    fresh = 1 + max(one.process for one in history.operations)
    first = min(one.invoked for one in history.operations)
    return [
        (
            RegisterInvocation("write", fresh + at, 0, first - BEFORE, first - BEFORE, register, value, None),
            RegisterCompletion(fresh + at, "ok", first - BEFORE + 1),
        )
        for at, register in enumerate(registers)
    ]


def _paired(history: ForeignHistory) -> bool:
    """Whether the values of all operations are pairs of a key and a value."""
    return bool(history.operations) and all(_is_pair(one) for one in history.operations)


def _is_pair(one: Operation) -> bool:
    if not isinstance(one.value, tuple) or len(one.value) != 2:
        return False
    return one.f != "cas" or (isinstance(one.value[1], tuple) and len(one.value[1]) == 2)


def _split(history: ForeignHistory, line: int | None, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, tuple) or len(value) != 2:
        raise history.trouble(line, f"the value {shown(value)} is not a [key value]", "the other operations have pairs")
    return value[0], value[1]


# Keys and values ------------------------------------------------------------------------------------------------------

KV: Final = {"get": "read", "put": "write"}


def map_keys(history: ForeignHistory) -> Mapped:
    """Map gets and puts of keys, each key to a register. The empty string is the value of a key that was never put.

    Raises ForeignTrouble, also for an append: its effect depends on the earlier value, and Squall has no check for
    appends together with puts.
    """
    values = Numbering(PLAIN)
    pairs: list[Pair] = []
    for one in history.operations:
        if one.f not in KV:
            remedy = "histories of get and put are judged as registers, those of get and append as lists"
            raise history.trouble(one.line, f":f {one.f!r} beside get and put has no check", remedy)
        key = one.more.get("key")
        if key is None:
            raise history.trouble(one.line, "has no :key", "a get or put states its key")
        if one.f == "put" and one.value in (None, ""):
            raise history.trouble(one.line, f"a put of {shown(one.value)}", "a put states its value")
        put = values.of(one.value) if one.f == "put" else None
        begun = RegisterInvocation(KV[one.f], one.process, 0, one.invoked, one.invoked, shown(key), put, None)
        if one.completed is None:
            pairs.append((begun, None))
            continue
        found = None
        if one.f == "get" and one.type == "ok":
            found = ABSENT if one.answer in (None, "") else values.of(one.answer)
        pairs.append((begun, RegisterCompletion(one.process, one.type, one.completed, found=found)))
    return Mapped(REGISTERS, "a register per key", (REGISTERS,), tuple(pairs), names={"value": tuple(values.given())})
