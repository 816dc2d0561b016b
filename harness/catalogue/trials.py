"""Turn the trials of the catalogue into faults of one run: which rows these hosts can show, and the results.

A trial is an entry of a suite without times, which are set here. A fault ends soon after it has shown its effect, so
windows are seldom used up. Its hosts `b1`, `c1` and so on stand for the first, second, … broker and controller of any
inventory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from squall.harness.catalogue.abilities import Abilities
from squall.harness.errors import UsageError
from squall.harness.scenario.inventory import Inventory
from squall.harness.yaml_source import suggestion
from squall.nemesis.catalogue import ROWS, CatalogueRow
from squall.nemesis.core.evidence import FaultRecord, in_words
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.schedule import Schedule, ScheduledFault, build_schedule

WINDOW_SECONDS = 5.0
"""The window in which a fault must show its effect; it ends soon after that."""
LONGEST_TRIAL_SECONDS = 60.0
STANDS_FOR = re.compile(r"\b([bc])(\d)\b")
GROUPED = ("sequence", "parallel", "mix")

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


@dataclass(frozen=True)
class Trial:
    """A row of the catalogue, ready to be carried out."""

    row: CatalogueRow
    schedule: Schedule

    @property
    def what(self) -> str:
        """Return the faults by name, each once: `pause, kill`."""
        return ", ".join(dict.fromkeys(fault.options.fault for fault in self.schedule.faults))


@dataclass(frozen=True)
class Result:
    """The result of a row: `reason` says why it is skipped or not verified. Times in seconds."""

    number: int
    row: str
    faults: str
    outcome: str
    """`verified`, `failed` or `skipped`."""
    reason: str = ""
    targets: str = ""
    before: str = ""
    during: str = ""
    after: str = ""
    inject_s: float | None = None
    heal_s: float | None = None
    whole_s: float | None = None
    """How long after healing the cluster became whole again."""
    records: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def chosen_rows(only: Sequence[str]) -> tuple[CatalogueRow, ...]:
    """Return the rows of these numbers or names, or with a trial of such a fault; all if none is named.

    Raises UsageError.
    """
    if not only:
        return ROWS
    known = {name for row in ROWS for name in _names_of(row)}
    for one in only:
        if one not in known:
            raise UsageError(f"--only {one}: no row and no trial is called that{suggestion(one, known)}")
    return tuple(row for row in ROWS if _names_of(row) & set(only))


def _names_of(row: CatalogueRow) -> set[str]:
    """Return the words that select a row: its number, its name, the faults of its trial."""
    return {str(row.number), row.name, *(fault["fault"] for fault in flat(row.trial))}


def flat(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the single faults of an entry."""
    for key in GROUPED:
        if key in entry:
            return [fault for step in entry[key] for fault in flat(step)]
    return [entry] if "fault" in entry else []


def trial_of(row: CatalogueRow, inventory: Inventory, seed: int) -> Trial:
    """Return the row's faults, from second 0 on. Their ids begin with the row's number."""
    entry = ENTRY.validate_python({"at": 0, **_timed(_named(row.trial, inventory))})
    schedule = build_schedule([entry], LONGEST_TRIAL_SECONDS, seed)
    return Trial(row, replace(schedule, faults=tuple(_numbered(fault, row.number) for fault in schedule.faults)))


def _numbered(fault: ScheduledFault, row: int) -> ScheduledFault:
    follows = f"row-{row}-{fault.follows}" if fault.follows is not None else None
    return replace(fault, id=f"row-{row}-{fault.id}", follows=follows)


def _timed(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry with windows added where it has no duration."""
    for key in GROUPED:
        if key in entry:
            return {**entry, key: [_timed(step) for step in entry[key]]}
    return {"for": WINDOW_SECONDS, **entry} if "fault" in entry else dict(entry)


def _named(value: Any, inventory: Inventory) -> Any:
    """Return the value with the inventory's own names in place of b1, c1, …"""
    if isinstance(value, Mapping):
        return {key: _named(one, inventory) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_named(one, inventory) for one in value]
    if not isinstance(value, str):
        return value
    hosts = {"b": inventory.brokers, "c": inventory.controllers}

    def own_name(match: re.Match[str]) -> str:
        group, number = hosts[match[1]], int(match[2])
        return group[number - 1].name if 0 < number <= len(group) else match[0]

    return STANDS_FOR.sub(own_name, value)


def why_not(trial: Trial, abilities: Abilities) -> str:
    """Return why these hosts cannot carry it out; empty if they can."""
    if trial.row.clients and not abilities.clients:
        return f"needs a client host, and {abilities.source} has none"
    reasons = (abilities.why_not(fault.options) for fault in trial.schedule.faults)
    return next((reason for reason in reasons if reason), "")


def skipped(row: CatalogueRow, reason: str, faults: str = "") -> Result:
    return Result(row.number, row.name, faults, "skipped", reason)


def judged(trial: Trial, records: Sequence[FaultRecord], whole_s: float | None, trouble: str) -> Result:
    """Return the result: verified if every fault was seen to take effect and to end, and the cluster recovered."""
    reasons = [trouble] if trouble else []
    if len(records) < len(trial.schedule.faults):
        reasons.append(f"{len(records)} of {len(trial.schedule.faults)} faults took place")
    reasons += [record.detail or "no evidence" for record in records if not (record.proven and record.healed)]
    inject = [record.inject_ns for record in records if record.inject_ns is not None]
    heal = [record.heal_ns for record in records if record.heal_ns is not None]
    return Result(
        number=trial.row.number,
        row=trial.row.name,
        faults=trial.what,
        outcome="failed" if reasons else "verified",
        reason="; ".join(reasons),
        targets=_each(f"{', '.join(record.targets)}" for record in records),
        before=_each(in_words(record.evidence_before) for record in records),
        during=_each(record.detail for record in records),
        after=_each(in_words(record.evidence_after) for record in records),
        inject_s=max(inject) / 1e9 if inject else None,
        heal_s=max(heal) / 1e9 if heal else None,
        whole_s=whole_s,
        records=tuple(record.to_json() for record in records),
    )


def _each(texts: Iterable[str]) -> str:
    return "; then ".join(dict.fromkeys(text for text in texts if text))
