"""Carries out a schedule: each fault at its time, with evidence, and always healed.

One occurrence: aim (waiting a little for a leader, if there is none) → observe → inject → observe until it is proven →
wait → heal → observe until it is over → `FaultRecord`. Occurrences run concurrently as tasks; a step of a sequence
waits for the previous one. An error of one fault is noted in its record and stops nothing else. When the runner is
cancelled, it heals every host before it ends. If even that fails, the hosts revert every fault at its time to live.

Runs in both worlds: time comes from `now_ns` and `sleep`, and it uses only primitives that the simulated loop has
(docs/architecture.md).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from squall.nemesis.core.evidence import Facts, FaultRecord, HealReport, heal_all
from squall.nemesis.core.fault import ActsByItself, DelayedEvidence, Fault, FaultContext
from squall.nemesis.core.grudge import Grudge, grudge_of, pairs_of
from squall.nemesis.core.ports import (
    NODE_PROCESS,
    ClusterOperator,
    ClusterView,
    Host,
    HostUnreachable,
    Knock,
    LoadHost,
    NowNs,
    Sleep,
    VerbFailed,
)
from squall.nemesis.core.selector import NoTarget, Target
from squall.nemesis.registry import build_fault
from squall.nemesis.schedule import Schedule, ScheduledFault

Phase = Literal["started", "proven", "unproven", "healed", "unhealed"]


@dataclass(frozen=True)
class NemesisEvent:
    """An event of a fault, for the screen and the history. The last event of a fault has its `record`."""

    at_ns: int
    phase: Phase
    id: str
    kind: str
    targets: tuple[str, ...]
    role: str
    text: str
    record: FaultRecord | None = None


@dataclass(frozen=True)
class Patience:
    """How long the runner waits for each step, in seconds."""

    aim: float = 5.0
    hold: float = 2.0
    end: float = 15.0
    between_looks: float = 0.1
    shown: float | None = None
    """How long a proven fault continues if its window is longer: trials need no more."""
    ttl_margin: float = 5.0


@dataclass
class _Occurrence:
    """A fault under way, and its observations so far."""

    scheduled: ScheduledFault
    fault: Fault
    target: Target = field(default_factory=lambda: Target((), "nobody"))
    injected_at_ns: int | None = None
    inject_ns: int | None = None
    healed_at_ns: int | None = None
    heal_ns: int | None = None
    before: Facts = field(default_factory=dict)
    during: Facts = field(default_factory=dict)
    after: Facts = field(default_factory=dict)
    proven: bool = False
    healed: bool = False
    detail: list[str] = field(default_factory=list)

    def record(self) -> FaultRecord:
        return FaultRecord(
            id=self.scheduled.id,
            kind=self.fault.kind,
            targets=self.target.hosts,
            role=self.target.role,
            injected_at_ns=self.injected_at_ns,
            healed_at_ns=self.healed_at_ns,
            evidence_before=self.before,
            evidence_during=self.during,
            evidence_after=self.after,
            proven=self.proven,
            healed=self.healed,
            detail="; ".join(self.detail),
            inject_ns=self.inject_ns,
            heal_ns=self.heal_ns,
        )


class NemesisRunner:
    """Runs one schedule once. `report` is called for every event, in order of time."""

    def __init__(
        self,
        schedule: Schedule,
        hosts: Mapping[str, Host],
        cluster: ClusterView,
        *,
        now_ns: NowNs,
        sleep: Sleep,
        report: Callable[[NemesisEvent], None],
        process: str = NODE_PROCESS,
        ports: Mapping[str, int] | None = None,
        patience: Patience | None = None,
        operator: ClusterOperator | None = None,
        loads: Mapping[str, LoadHost] | None = None,
        knock: Knock | None = None,
    ) -> None:
        self._schedule = schedule
        self._hosts = hosts
        self._cluster = cluster
        self._now_ns = now_ns
        self._sleep = sleep
        self._report = report
        self._process = process
        self._ports = dict(ports or {})
        self._patience = patience or Patience()
        self._operator = operator
        self._moving: set[tuple[str, int]] = set()
        self._loads = dict(loads or {})
        self._knock = knock
        self._done = {fault.id: asyncio.Event() for fault in schedule.faults}
        self._open: dict[str, _Occurrence] = {}
        self._aimed_at: dict[str, tuple[str, ...]] = {}
        self.records: list[FaultRecord] = []
        self.heal_report: HealReport | None = None

    async def run(self, started_ns: int | None = None) -> list[FaultRecord]:
        """Run all faults, with times counted from `started_ns` (default: now). Returns their records.

        If cancelled, it heals all hosts, completes the records of the open faults, then raises.
        """
        started = self._now_ns() if started_ns is None else started_ns
        tasks = [
            asyncio.get_running_loop().create_task(self._in_its_time(fault, started)) for fault in self._schedule.faults
        ]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._heal_what_is_open()
            raise
        return self.records

    async def _in_its_time(self, scheduled: ScheduledFault, started: int) -> None:
        if scheduled.follows is not None:
            await self._done[scheduled.follows].wait()
        await self._sleep(max(0.0, scheduled.at_s - (self._now_ns() - started) / 1e9))
        occurrence = _Occurrence(scheduled, build_fault(scheduled.options, self._context(scheduled)))
        try:
            await self._run_fault(occurrence)
        except Exception as trouble:
            # An error of one fault must not end the others; without proof the verdict is unknown anyway.
            occurrence.detail.append(f"{type(trouble).__name__}: {trouble}")
            await self._end(occurrence)
        self._done[scheduled.id].set()

    def _context(self, scheduled: ScheduledFault) -> FaultContext:
        return FaultContext(
            id=scheduled.id,
            hosts=self._hosts,
            cluster=self._cluster,
            now_ns=self._now_ns,
            sleep=self._sleep,
            rng=random.Random(scheduled.seed),
            process=self._process,
            ports=self._ports,
            cuts_by_others=lambda: self._cuts_except(scheduled.id),
            earlier=self._aimed_at.get,
            operator=self._operator,
            moving=self._moving,
            loads=self._loads,
            knock=self._knock,
            length_s=scheduled.for_s,
        )

    def _cuts_except(self, id: str) -> Grudge:
        return grudge_of(
            pair
            for other, occurrence in self._open.items()
            if other != id
            for pair in pairs_of(occurrence.fault.cuts())
        )

    async def _run_fault(self, occurrence: _Occurrence) -> None:
        scheduled = occurrence.scheduled
        if not await self._aim(occurrence):
            self._conclude(occurrence)
            return
        occurrence.before = await occurrence.fault.observe()
        self._open[scheduled.id] = occurrence
        occurrence.injected_at_ns = self._now_ns()
        self._tell("started", occurrence, f"for {scheduled.for_s:g} s")
        await occurrence.fault.inject(scheduled.for_s + self._patience.ttl_margin)
        holds_since = self._now_ns()
        occurrence.inject_ns = holds_since - occurrence.injected_at_ns
        await self._prove(occurrence)
        await self._sleep(self._left(occurrence, holds_since))
        await self._end(occurrence)

    def _left(self, occurrence: _Occurrence, holds_since: int) -> float:
        """The rest of the window in seconds, or as much of it as is needed."""
        left = occurrence.scheduled.for_s - (self._now_ns() - holds_since) / 1e9
        if occurrence.proven and self._patience.shown is not None:
            left = min(left, self._patience.shown)
        return max(0.0, left)

    async def _aim(self, occurrence: _Occurrence) -> bool:
        """Resolve the selector within the patience for it. Returns whether it found a target."""
        deadline = self._now_ns() + round(self._patience.aim * 1e9)
        while True:
            try:
                occurrence.target = await occurrence.fault.aim()
                label = occurrence.scheduled.options.label
                if label is not None:
                    self._aimed_at[label] = occurrence.target.hosts
                return True
            except Exception as trouble:  # a view of the cluster has its own errors: retry in any case
                if self._now_ns() >= deadline:
                    reason = str(trouble) if isinstance(trouble, NoTarget) else repr(trouble)
                    occurrence.detail.append(f"no target: {reason}")
                    return False
            await self._sleep(self._patience.between_looks)

    async def _prove(self, occurrence: _Occurrence) -> None:
        """Observe until the fault shows; the last observation is the evidence."""
        length = occurrence.scheduled.for_s
        longest = length if occurrence.fault.waits_to_show else min(self._patience.hold, length)
        if isinstance(occurrence.fault, DelayedEvidence):
            longest = length + occurrence.fault.evidence_lag
        deadline = self._now_ns() + round(longest * 1e9)
        while True:
            occurrence.during = await occurrence.fault.observe()
            reason = occurrence.fault.check_effect(occurrence.before, occurrence.during)
            if reason is None or self._now_ns() >= deadline:
                break
            await self._sleep(self._patience.between_looks)
        occurrence.proven = reason is None
        text = reason or occurrence.fault.told(occurrence.during)
        occurrence.detail.append(text)
        self._tell("proven" if occurrence.proven else "unproven", occurrence, text)

    async def _end(self, occurrence: _Occurrence) -> None:
        """Heal, observe until the end shows, and conclude. Raises nothing."""
        if occurrence.injected_at_ns is None:
            self._conclude(occurrence)
            return
        began = self._now_ns()
        deadline = began + round(self._patience.end * 1e9)
        reason: str | None = "not observed after healing"
        while reason is not None:
            try:
                await occurrence.fault.heal()
                if occurrence.healed_at_ns is None:
                    occurrence.healed_at_ns = self._now_ns()
                    occurrence.heal_ns = occurrence.healed_at_ns - began
                occurrence.after = await occurrence.fault.observe()
                reason = occurrence.fault.shows_end(occurrence.before, occurrence.after)
            except (VerbFailed, HostUnreachable) as trouble:
                reason = str(trouble)
            if reason is not None:
                if self._now_ns() >= deadline:
                    break
                await self._sleep(self._patience.between_looks)
        occurrence.healed = reason is None
        if reason is not None:
            occurrence.detail.append(f"not healed: {reason}")
        self._conclude(occurrence)

    def _conclude(self, occurrence: _Occurrence) -> None:
        self._open.pop(occurrence.scheduled.id, None)
        record = occurrence.record()
        self.records.append(record)
        never = occurrence.injected_at_ns is None
        phase: Phase = "unproven" if never else "healed" if record.healed else "unhealed"
        self._tell(phase, occurrence, record.detail, record)

    def _tell(self, phase: Phase, occurrence: _Occurrence, text: str, record: FaultRecord | None = None) -> None:
        target = occurrence.target
        self._report(
            NemesisEvent(
                at_ns=self._now_ns(),
                phase=phase,
                id=occurrence.scheduled.id,
                kind=occurrence.fault.kind,
                targets=target.hosts,
                role=target.role,
                text=text,
                record=record,
            )
        )

    async def _heal_what_is_open(self) -> None:
        """After a cancellation: heal every host, and record the faults that were open."""
        for occurrence in list(self._open.values()):
            if isinstance(occurrence.fault, ActsByItself):
                await occurrence.fault.stand_down()
        self.heal_report = await heal_all({**self._hosts, **{name: load.host for name, load in self._loads.items()}})
        for occurrence in list(self._open.values()):
            occurrence.healed_at_ns = occurrence.healed_at_ns or self._now_ns()
            occurrence.healed = self.heal_report.whole
            occurrence.detail.append("interrupted")
            self._conclude(occurrence)


def unproven(records: list[FaultRecord]) -> list[FaultRecord]:
    """The faults that prove nothing: their verdict is unknown."""
    return [record for record in records if not record.proven]
