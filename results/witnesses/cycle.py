"""Describe witnesses of transactions in words: who did what, and why each must come before the next.

A cycle is described by its transactions, T1 to Tn, and then by the chain of reasons that leads from T1 back to T1. A
contradiction is described by the operations concerned. Lists are shown by their ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.common.text import clock
from squall.results.checkers.transactions.facts import MicroFacts, StepFacts, TransactionFacts, TransactionWitness
from squall.results.witnesses.witness import WitnessLine

MOST_OPERATIONS: Final = 6
_TYPES: Final = {"ok": "committed", "fail": "aborted", "info": "outcome unknown"}


def tell_transactions(witness: TransactionWitness, origin: int) -> tuple[WitnessLine, ...]:
    """Describe a witness in words; times count from `origin`."""
    lines = [_transaction(at, one, witness, origin) for at, one in enumerate(witness.transactions)]
    lines += [WitnessLine("because", _reason(step, witness, origin)) for step in witness.steps]
    lines += [WitnessLine("because", text) for text in _contradiction(witness)]
    if witness.steps:
        circle = " → ".join([*(name(step.source) for step in witness.steps), name(witness.steps[0].source)])
        lines.append(WitnessLine("so", f"{circle}: no order of these transactions explains what they read"))
    if witness.group > len(witness.transactions):
        lines.append(WitnessLine("besides", f"{witness.group} transactions in all are entangled in this way"))
    return tuple(lines)


def title_of(witness: TransactionWitness) -> str:
    """What is wrong, in one sentence."""
    return ANOMALIES[witness.anomaly].headline(1)


def name(place: int) -> str:
    """The name of a transaction of a witness: T1, T2, …"""
    return f"T{place + 1}"


def _transaction(at: int, one: TransactionFacts, witness: TransactionWitness, origin: int) -> WitnessLine:
    keys = {step.key for step in witness.steps if at in (step.source, step.target) and step.key is not None}
    places = {number for transaction, number in witness.places if transaction == at}
    concerned = [
        micro for number, micro in enumerate(one.operations) if number in places or (micro.key in keys and not places)
    ]
    shown = (concerned or list(one.operations))[:MOST_OPERATIONS]
    left = len(one.operations) - len(shown)
    text = ", ".join(operation(micro) for micro in shown) or "nothing"
    more = f" and {left} more" if left else ""
    begun = f"begun at {clock(one.invoked, origin, 6)}"
    return WitnessLine(
        f"{name(at)}, process {one.process}",
        f"{text}{more}; {_TYPES[one.type]}; {begun}",
        clock(one.completed, origin, 6),
    )


def operation(micro: MicroFacts) -> str:
    """`append 5 to key 3` or `read key 3: … 4 5`."""
    if micro.f == "append":
        return f"append {micro.element} to key {micro.key}"
    if micro.length < 0:
        return f"read key {micro.key}, answer unknown"
    if micro.length == 0:
        return f"read key {micro.key}: empty"
    before = "… " if micro.since else ""
    after = " …" if micro.since + len(micro.shown) < micro.length else ""
    return f"read key {micro.key}: {before}{' '.join(map(str, micro.shown))}{after}"


# Reasons --------------------------------------------------------------------------------------------------------------


def _reason(step: StepFacts, witness: TransactionWitness, origin: int) -> str:
    tells: dict[str, Callable[[StepFacts, TransactionWitness, int], str]] = {
        "ww": _overwrites,
        "wr": _reads,
        "rw": _misses,
        "process": _same_process,
        "realtime": _ended_before,
    }
    return f"{name(step.source)} comes before {name(step.target)}: {tells[step.order](step, witness, origin)}"


def _overwrites(step: StepFacts, witness: TransactionWitness, origin: int) -> str:
    if step.unread:
        return (
            f"{name(step.source)} appended {step.previous}, the last element of key {step.key} in any read, and "
            f"{name(step.target)} appended {step.element}, which no read shows"
        )
    return (
        f"in key {step.key}, {name(step.source)}'s {step.previous} is followed by {name(step.target)}'s {step.element}"
    )


def _reads(step: StepFacts, witness: TransactionWitness, origin: int) -> str:
    return f"{name(step.target)} read {step.element} in key {step.key}, which {name(step.source)} had appended"


def _misses(step: StepFacts, witness: TransactionWitness, origin: int) -> str:
    state = "empty" if step.previous is None else f"only as far as {step.previous}"
    if step.unread:
        return (
            f"{name(step.source)} read key {step.key} {state}, and {name(step.target)} appended {step.element} to it, "
            "which no read shows"
        )
    return (
        f"{name(step.source)} read key {step.key} {state}; the next element is {step.element}, which "
        f"{name(step.target)} appended"
    )


def _same_process(step: StepFacts, witness: TransactionWitness, origin: int) -> str:
    return f"process {witness.transactions[step.source].process} had ended the one when it began the other"


def _ended_before(step: StepFacts, witness: TransactionWitness, origin: int) -> str:
    first, second = witness.transactions[step.source], witness.transactions[step.target]
    return (
        f"{name(step.source)} had ended at {clock(first.completed, origin, 6)}, before {name(step.target)} began at "
        f"{clock(second.invoked, origin, 6)}"
    )


def _contradiction(witness: TransactionWitness) -> list[str]:
    """Why the operations of a witness that is no cycle cannot all be true."""
    if witness.steps:
        return []
    reader = name(witness.places[-1][0]) if witness.places else name(0)
    writer = name(witness.places[0][0]) if witness.places else name(0)
    element = witness.element
    texts = {
        "G1a": f"{reader} read {element}, but {writer}, which had appended it, was aborted",
        "G1b": f"{reader} read as far as {element}, after which {writer} appended more to the same key",
        "internal": (
            f"{reader}'s later operation does not continue its earlier one on the same key"
            if element is None
            else f"{writer} appended {element} after its other element, and {reader} read it before that one"
        ),
        "incompatible_order": "neither list is a beginning of the other, and lists only ever grow",
        "duplicate_element": "every element was appended once",
        "phantom_element": f"{element} was never appended to this key",
    }
    return [texts[witness.anomaly]]
