"""Describe witnesses of registers in words: the operations, and why they cannot be put in order."""

from __future__ import annotations

from typing import Final

import msgspec

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.common.text import clock, short_value
from squall.results.checkers.registers.operations import ABSENT
from squall.results.checkers.registers.result import RegisterOperationFacts, RegisterResult, RegisterWitness
from squall.results.history.segments import FaultWindow
from squall.results.witnesses.witness import WitnessLine, faults_between

MOST_FAULTS: Final = 3


class ToldRegister(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of an anomaly, described."""

    anomaly: str
    title: str
    lines: tuple[WitnessLine, ...]
    hint: str
    facts: RegisterWitness

    def __str__(self) -> str:
        lines = [f"  {line.subject} │ {line.text}{f' │ {line.time}' if line.time else ''}" for line in self.lines]
        return "\n".join((self.title, *lines, f"  look for: {self.hint}"))


def tell_registers(
    result: RegisterResult, origin: int = 0, faults: tuple[FaultWindow, ...] = ()
) -> tuple[ToldRegister, ...]:
    """Describe all witnesses of a result. `origin` is when the load began; faults that held meanwhile are named."""
    return tuple(tell_register(one, origin, faults) for one in result.witnesses)


def tell_register(facts: RegisterWitness, origin: int = 0, faults: tuple[FaultWindow, ...] = ()) -> ToldRegister:
    """Describe one witness."""
    anomaly = ANOMALIES[facts.anomaly]
    lines = []
    if facts.held:
        held = " or ".join(value_text(one) for one in facts.held)
        lines.append(WitnessLine("before", f"the register held {held} in every order of the earlier operations"))
    lines += [_operation_line(one, origin) for one in facts.operations]
    by_id = {one.op_id: one for one in facts.operations}
    lines += [WitnessLine("so", _order_text(by_id[first], by_id[second])) for first, second in facts.orders]
    lines += _fault_lines(facts, origin, faults)
    return ToldRegister(
        anomaly=facts.anomaly,
        title=f"register {facts.register}: {anomaly.headline(1)}.",
        lines=tuple(lines),
        hint=anomaly.hint,
        facts=facts,
    )


def value_text(value: int | None) -> str:
    """A value for people: `7`, `4·1093` if it carries its process, or `nothing`."""
    if value is None:
        return "something"
    if value == ABSENT:
        return "nothing"
    return short_value(value)


def _operation_line(one: RegisterOperationFacts, origin: int) -> WitnessLine:
    moment = one.completed if one.completed is not None else one.invoked
    began = f", begun at {clock(one.invoked, origin)}"
    return WitnessLine(f"process {one.process}", f"{_what(one)}{_outcome(one)}{began}", clock(moment, origin))


def _what(one: RegisterOperationFacts) -> str:
    if one.f == "read":
        return f"read {value_text(one.found)}"
    if one.f == "write":
        return f"write of {value_text(one.value)}"
    return f"compare-and-set of {value_text(one.expected)} to {value_text(one.value)}"


def _outcome(one: RegisterOperationFacts) -> str:
    version = "" if one.version is None else f", version {one.version}"
    if one.refused:
        return f" refused: it held {value_text(one.found) if one.found is not None else 'another value'}{version}"
    if one.type == "fail":
        return " failed"
    if one.type == "info":
        return ", outcome unknown, may count once at any time since"
    return version if one.f == "read" else f" acknowledged{version}"


def _order_text(first: RegisterOperationFacts, second: RegisterOperationFacts) -> str:
    return f"the {_what(first)} had ended before the {_what(second)} began, so it comes first"


def _fault_lines(facts: RegisterWitness, origin: int, faults: tuple[FaultWindow, ...]) -> list[WitnessLine]:
    begun = min(one.invoked for one in facts.operations)
    ended = max(one.completed or one.invoked for one in facts.operations)
    return [
        WitnessLine("under fault", one.name, f"{clock(one.injected, origin, 1)} to {clock(one.healed, origin, 1)}")
        for one in faults_between(faults, begun, ended)[:MOST_FAULTS]
    ]
