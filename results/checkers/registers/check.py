"""Check registers: zones if values are unique, a search if they are not, and one result for all.

    table → columns → values → zones and versions → (ambiguous registers) → search → result

Registers are independent of each other (linearizability is local), so each is decided in the cheapest exact way. If
values are unique, that is the rules of `zones.py` and `versions.py`, whose cost does not depend on concurrency. The
other registers are searched, within a budget for each and one for all; a search that does not end is *unknown*, with
what was tried. If a cheap rule has found an anomaly already, the register is not searched.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from squall.results.checkers.common.text import grouped, several
from squall.results.checkers.registers.findings import RegisterFinding, RegisterFindings
from squall.results.checkers.registers.operations import (
    ABSENT,
    CAS,
    NEVER,
    NONE,
    OK,
    READ,
    REGISTER_FUNCTIONS,
    REGISTER_TYPES,
    Ints,
    Registers,
)
from squall.results.checkers.registers.result import RegisterOperationFacts, RegisterResult, RegisterWitness
from squall.results.checkers.registers.search import REFUSED, Budget, SearchOutcome, Start, State, Step, search
from squall.results.checkers.registers.values import Values, with_evidence
from squall.results.checkers.registers.versions import check_agreement, check_order
from squall.results.checkers.registers.window import smallest_window
from squall.results.checkers.registers.zones import Zones
from squall.results.history.ill_formed import IllFormedHistory

UNDECIDED_TOLD: Final = 8
_FUNCTION_NAMES: Final = {code: name for name, code in REGISTER_FUNCTIONS.items()}
_TYPE_NAMES: Final = {code: name for name, code in REGISTER_TYPES.items()}


@dataclass(frozen=True)
class Limits:
    """The budget of `each` register that needs a search, and the `seconds` of all searches together."""

    each: Budget = field(default_factory=Budget)
    seconds: float = 60.0


def check_registers(table: pa.Table, *, initial: int = ABSENT, limits: Limits | None = None) -> RegisterResult:
    """Check rows of `REGISTER_SCHEMA`. `initial` is the first value of every register. Raises IllFormedHistory."""
    return check_columns(Registers.from_table(table), initial=initial, limits=limits)


def check_columns(operations: Registers, *, initial: int = ABSENT, limits: Limits | None = None) -> RegisterResult:
    """Check operations on any number of registers, in any order."""
    began = time.perf_counter()
    _validate(operations)
    values = Values.of(operations, initial)
    zones = Zones(operations, values)
    findings = zones.findings
    check_agreement(operations, values, findings)
    check_order(zones, findings)
    findings.instances = [replace(one, rows=with_evidence(operations, values, one.rows)) for one in findings.instances]
    searches = _Searches(operations, initial, limits or Limits())
    ambiguous = np.flatnonzero(values.ambiguous)
    searches.decide([one for one in ambiguous.tolist() if one not in findings.registers], findings)
    present = np.bincount(operations.register[operations.has_effect], minlength=len(operations.names))
    telling = np.isin(np.arange(len(operations.names)), operations.register[operations.tells])
    decided = telling.copy()
    decided[[one for one, _ in searches.undecided]] = False
    return RegisterResult(
        registers=len(operations.names),
        operations=_counts(operations),
        checked=int(present[decided].sum()),
        by_zones=int((~values.ambiguous & (present > 0)).sum()),
        by_search=searches.decided,
        anomalies=findings.counts,
        wrong=tuple(operations.names[one] for one in sorted(findings.registers)),
        witnesses=tuple(_witness(operations, one) for one in findings.instances),
        undecided=tuple(sentence for _, sentence in searches.undecided[:UNDECIDED_TOLD]),
        undecided_count=len(searches.undecided),
        milliseconds=(time.perf_counter() - began) * 1000,
    )


def _validate(operations: Registers) -> None:
    """Require what must hold of every operation. Raises IllFormedHistory with the operation."""
    changes = operations.f != READ
    answered = (operations.type == OK) | operations.is_refusal
    for wrong, problem in (
        (operations.completed < operations.invoked, "completed before it was invoked"),
        (changes & (operations.value == NONE), "changes a register but does not say to which value"),
        ((operations.f == CAS) & (operations.expected == NONE), "is a compare-and-set without an expected value"),
        (answered & (operations.completed == NEVER), "was acknowledged or refused, but at no time"),
        (~np.isin(operations.f, list(_FUNCTION_NAMES)), "is not one of read, write and cas"),
        (~np.isin(operations.type, list(_TYPE_NAMES)), "is not one of ok, fail and info"),
    ):
        rows = np.flatnonzero(wrong)
        if len(rows):
            row = int(rows[0])
            raise IllFormedHistory(Path("registers"), row, f"operation {operations.op_id[row]} {problem}")


def _counts(operations: Registers) -> dict[str, int]:
    keys, counts = np.unique(operations.f * 8 + operations.type, return_counts=True)
    return {
        f"{_FUNCTION_NAMES[key >> 3]}.{_TYPE_NAMES[key & 7]}": count
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True)
    }


# Search -------------------------------------------------------------------------------------------------------------


class _Searches:
    """Searches ambiguous registers one after the other, the smallest first, while there is time."""

    def __init__(self, operations: Registers, initial: int, limits: Limits) -> None:
        self.operations = operations
        self.starts = (Start(State(initial)),)
        self.limits = limits
        self.deadline = time.monotonic() + limits.seconds
        self.decided = 0
        self.undecided: list[tuple[int, str]] = []

    def decide(self, registers: list[int], findings: RegisterFindings) -> None:
        rows = self._rows(registers)
        for register in sorted(registers, key=lambda one: len(rows[one])):
            steps = steps_of(self.operations, rows[register])
            left = self.deadline - time.monotonic()
            if left <= 0:
                self._undecided(register, f"{several(len(steps), 'operation')} were not looked at: no time was left")
                continue
            budget = replace(self.limits.each, seconds=min(left, self.limits.each.seconds))
            outcome = search(steps, self.starts, budget)
            if outcome.linearizable is None:
                self._undecided(register, _how_far(steps, outcome))
                continue
            self.decided += 1
            if not outcome.linearizable:
                window = smallest_window(steps, self.starts, budget)
                finding = RegisterFinding("nonlinearizable_register", register, window.rows, held=window.held)
                findings.add(finding.anomaly, 1, [register], [finding])

    def _rows(self, registers: list[int]) -> dict[int, Ints]:
        """The rows of each of these registers that state anything."""
        wanted = np.zeros(len(self.operations.names), np.bool_)
        wanted[registers] = True
        rows = np.flatnonzero(wanted[self.operations.register] & self.operations.has_effect)
        rows = rows[np.argsort(self.operations.register[rows], kind="stable")]
        bounds = np.searchsorted(self.operations.register[rows], registers)
        ends = np.searchsorted(self.operations.register[rows], registers, side="right")
        return {one: rows[low:high] for one, low, high in zip(registers, bounds, ends, strict=True)}

    def _undecided(self, register: int, sentence: str) -> None:
        self.undecided.append((register, f"register {self.operations.names[register]}: {sentence}"))


def steps_of(operations: Registers, rows: Ints) -> list[Step]:
    """The operations of one register in the form that the search uses."""
    kind = np.where(operations.observes[rows], READ, operations.f[rows])
    kind = np.where(operations.is_refusal[rows] & ~operations.observes[rows], REFUSED, kind)
    value = np.where(kind == READ, operations.found[rows], operations.value[rows])
    value[operations.is_false_refusal[rows]] = NONE  # a value that no register ever holds
    columns: Iterable[list[int]] = (
        one.tolist()
        for one in (
            kind,
            value,
            operations.expected[rows],
            operations.version[rows],
            operations.invoked[rows],
            operations.completed[rows],
            rows,
        )
    )
    return [Step(*one) for one in zip(*columns, strict=True)]


def _how_far(steps: list[Step], outcome: SearchOutcome) -> str:
    return (
        f"{grouped(outcome.steps)} steps did not suffice to order {several(len(steps), 'operation')}, up to "
        f"{outcome.most_open} of them open at once; the first {grouped(outcome.passed)} could be ordered"
    )


# Witnesses ----------------------------------------------------------------------------------------------------------


def _witness(operations: Registers, finding: RegisterFinding) -> RegisterWitness:
    rows = sorted(finding.rows, key=lambda row: (int(operations.invoked[row]), row))
    ids = operations.op_id
    return RegisterWitness(
        anomaly=finding.anomaly,
        register=operations.names[finding.register],
        operations=tuple(_facts(operations, row) for row in rows),
        orders=tuple((int(ids[first]), int(ids[second])) for first, second in finding.orders),
        held=finding.held,
    )


def _facts(operations: Registers, row: int) -> RegisterOperationFacts:
    def stated(column: Ints, nothing: int) -> int | None:
        return None if column[row] == nothing else int(column[row])

    return RegisterOperationFacts(
        op_id=int(operations.op_id[row]),
        f=_FUNCTION_NAMES[int(operations.f[row])],
        type=_TYPE_NAMES[int(operations.type[row])],
        process=int(operations.process[row]),
        invoked=int(operations.invoked[row]),
        completed=stated(operations.completed, NEVER),
        value=stated(operations.value, NONE),
        expected=stated(operations.expected, NONE),
        found=stated(operations.found, NONE),
        version=stated(operations.version, NONE),
        refused=bool(operations.refused[row]),
    )
