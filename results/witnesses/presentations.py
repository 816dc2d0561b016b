"""Describe and draw the instances of an anomaly that checks other than that of logs found, by the kind of their facts.

Facts are made where a check runs, which may be a Spark worker; words and pictures are made of them in the control
process, from the faults of the run as well. So a check's declaration (`checkers/registry.py`) names the kind of its
facts, and what they look like is declared here: this folder knows the facts of all checks, and no check knows this
folder. A check that describes its proofs in words itself (`Proof`) needs no presentation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.common.text import clock, grouped
from squall.results.checkers.further import FurtherWitness, PluginWitness
from squall.results.checkers.groups.facts import GroupWitness
from squall.results.checkers.registers.result import RegisterWitness
from squall.results.checkers.replicas.facts import ReplicaWitness
from squall.results.checkers.transactions.facts import TransactionWitness
from squall.results.checkers.transactions.log_facts import LogWitness
from squall.results.history.operation_tables import KINDS
from squall.results.witnesses.cycle import tell_transactions, title_of
from squall.results.witnesses.cycle_diagram import cycle_diagram
from squall.results.witnesses.group import group_diagram, group_title, tell_group
from squall.results.witnesses.log import log_diagram, log_title, tell_log
from squall.results.witnesses.register import tell_register
from squall.results.witnesses.register_diagram import register_diagram
from squall.results.witnesses.witness import Surroundings, WitnessLine, faults_between

MOST_FAULTS: Final = 3

Told = tuple[str, tuple[WitnessLine, ...]]
"""A title and lines."""


class Timed(Protocol):
    """An operation of any kind, as a witness holds it."""

    @property
    def op_id(self) -> int: ...

    @property
    def invoked(self) -> int: ...

    @property
    def completed(self) -> int | None: ...


def _no_diagram(facts: Any, around: Surroundings) -> str:
    return ""


@dataclass(frozen=True)
class Presentation:
    """How facts of one kind are shown. `tell` takes the name of the check as well."""

    tell: Callable[[str, Any, Surroundings], Told]
    draw: Callable[[Any, Surroundings], str] = _no_diagram
    """Returns SVG; an empty string for what only words describe."""


def tell_facts(check: str, witness: FurtherWitness, around: Surroundings) -> Told:
    """Describe an instance that a check found."""
    presentation, facts = _presented(witness)
    return presentation.tell(check, facts, around)


def draw_facts(witness: FurtherWitness, around: Surroundings) -> str:
    """Draw an instance; an empty string if only words describe it."""
    presentation, facts = _presented(witness)
    return presentation.draw(facts, around)


def _presented(witness: FurtherWitness) -> tuple[Presentation, Any]:
    (found,) = ((one, facts) for field, one in PRESENTATIONS.items() if (facts := getattr(witness, field)) is not None)
    return found


# Each kind of facts ---------------------------------------------------------------------------------------------------


def _tell_register(check: str, facts: RegisterWitness, around: Surroundings) -> Told:
    register = tell_register(facts, around.origin, around.faults)
    return register.title, register.lines


def _draw_register(facts: RegisterWitness, around: Surroundings) -> str:
    return register_diagram(facts, around.origin, around.faults)


def _tell_transactions(check: str, facts: TransactionWitness, around: Surroundings) -> Told:
    told = tell_transactions(facts, around.origin)
    return f"{check}: {title_of(facts)}.", (*told, *_faults(facts.transactions, around))


def _draw_transactions(facts: TransactionWitness, around: Surroundings) -> str:
    return cycle_diagram(facts, around.origin)


def _tell_log(check: str, facts: LogWitness, around: Surroundings) -> Told:
    told, proof = tell_log(facts, around.origin), facts.transactions
    return log_title(facts), (*told, *_faults(proof, around), _rows(check, proof))


def _tell_group(check: str, facts: GroupWitness, around: Surroundings) -> Told:
    told, proof = tell_group(facts, around.origin), facts.operations
    return group_title(facts), (*told, *_faults(proof, around), _rows(check, proof))


def _tell_replica(check: str, facts: ReplicaWitness, around: Surroundings) -> Told:
    at = "" if facts.offset < 0 else f" at offset {grouped(facts.offset)}"
    title = f"{facts.place}: {ANOMALIES[facts.anomaly].headline(1)}{at and ','}{at}."
    rows = WitnessLine("rows", f"{facts.place}{at} in {facts.file}")
    return title, (*(WitnessLine(subject, text) for subject, text in facts.evidence), rows)


def _tell_in_words(check: str, facts: PluginWitness, around: Surroundings) -> Told:
    return f"{check}: {facts.title}", tuple(WitnessLine(subject, text) for subject, text in facts.lines)


PRESENTATIONS: Final[Mapping[str, Presentation]] = {
    "register": Presentation(_tell_register, _draw_register),
    "transactions": Presentation(_tell_transactions, _draw_transactions),
    "log": Presentation(_tell_log, log_diagram),
    "group": Presentation(_tell_group, group_diagram),
    "replica": Presentation(_tell_replica),
    "plugin": Presentation(_tell_in_words),
}
"""By the field of `FurtherWitness` that holds the facts."""


# What several have in common ------------------------------------------------------------------------------------------


def _rows(check: str, proof: Iterable[Timed]) -> WitnessLine:
    """Where to look up the operations of the proof."""
    return WitnessLine("rows", f"op_id {', '.join(str(one.op_id) for one in proof)} in {KINDS[check].file}")


def _faults(proof: Sequence[Timed], around: Surroundings) -> tuple[WitnessLine, ...]:
    """The faults that held between the first invocation and the last known completion of the proof."""
    begun = min(one.invoked for one in proof)
    ended = max(one.invoked if one.completed is None else one.completed for one in proof)
    return tuple(
        WitnessLine(
            "under fault", one.name, f"{clock(one.injected, around.origin, 1)} to {clock(one.healed, around.origin, 1)}"
        )
        for one in faults_between(around.faults, begun, ended)[:MOST_FAULTS]
    )
