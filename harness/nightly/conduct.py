"""Carry out a night: clusters take items from the plan until none is due, and everything is written to the ledger.

Several clusters at once take the longest item first, one cluster the most valuable. An item is not begun if it does not
fit into what is left of the budget, so that a night is over by at most one item. A runner carries an attempt out
(`attempts.py`); tests have others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec

from squall.harness.errors import UsageError
from squall.harness.nightly.ledger.items import Item, Outcome
from squall.harness.nightly.ledger.ledger import Begun, Ended, Ledger, LeftOut, Lost
from squall.harness.nightly.ledger.night_state import ItemState, NightState, fold

LEAST_LIMIT_S = 900.0
LIMIT_FACTOR = 4.0
"""An attempt that takes so many times as long as expected, and at least `LEAST_LIMIT_S`, is ended as hung."""


@dataclass(frozen=True)
class Cluster:
    """Where items run: the hosts of an inventory, a lab that is up, or, with neither, labs made for each scenario."""

    name: str
    inventory: Path | None = None
    lab: str | None = None


class Attempt(Protocol):
    """A process that carries out an attempt."""

    pid: int
    pid_started: int

    async def outcome(self, limit_s: float) -> Outcome:
        """Wait for its end. If it takes longer it is ended, and its outcome is an error. Cancelled: it is ended."""
        ...


class Runner(Protocol):
    """Begins attempts."""

    async def begin(self, item: Item, attempt: int, cluster: Cluster) -> Attempt:
        """Start the process of an attempt."""
        ...


class HostWatch(Protocol):
    """Finds hosts of a cluster that are gone for good."""

    async def missing(self, cluster: Cluster) -> tuple[str, ...]:
        """Return the names of the hosts that are gone."""
        ...

    def without(self, cluster: Cluster, hosts: Sequence[str]) -> Cluster | None:
        """Return the cluster without these hosts; None if what is left is none."""
        ...


@dataclass
class Conductor:
    """A night under way. `left_s` returns the remaining time of its budget, None without one."""

    ledger: Ledger
    clusters: Sequence[Cluster]
    runner: Runner
    watch: HostWatch
    left_s: Callable[[], float | None]
    say: Callable[[str], None]
    on_change: Callable[[NightState], None] = lambda state: None
    fail_fast: bool = False

    def __post_init__(self) -> None:
        self._busy: set[str] = set()
        self._changed = asyncio.Event()

    @property
    def state(self) -> NightState:
        return fold(self.ledger.events)

    async def run(self) -> None:
        """Run all that is due and fits. When cancelled, attempts under way are ended and stay without an outcome."""
        lanes = [asyncio.create_task(self._lane(cluster)) for cluster in self.clusters]
        try:
            await asyncio.gather(*lanes)
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)
        for one in self.state.due:
            self.ledger.write(LeftOut(item=one.item.id, why="no hosts are left to run it on"))
        self.on_change(self.state)

    async def _lane(self, cluster: Cluster) -> None:
        place: Cluster | None = cluster
        while place is not None:
            self._leave_out()
            one = self._next()
            if one is not None:
                place = await self._attempt(one, place)
            elif self._busy:  # another cluster is at one that may have to be retried
                self._changed.clear()
                await self._changed.wait()
            else:
                return

    async def _missing(self, cluster: Cluster) -> tuple[str, ...]:
        """Return the hosts that are gone; none if that cannot be found out."""
        try:
            return await self.watch.missing(cluster)
        except UsageError as trouble:
            self.say(f"{'hosts':<11}of {cluster.name} may be missing: {trouble}")
            return ()

    def _leave_out(self) -> None:
        """Leave out what is due and does not fit, and everything after a failure if the night is to end at one."""
        state, left = self.state, self.left_s()
        failed = self.fail_fast and any(
            one.ended and not one.as_expected and not one.is_due(state.plan.retries) for one in state.items.values()
        )
        for one in self._due(state):
            if failed:
                self.ledger.write(LeftOut(item=one.item.id, why="the night ends at its first failure (--fail-fast)"))
            elif left is not None and one.choice.seconds > left:
                why = f"takes about {one.choice.seconds:.0f} s, {max(left, 0):.0f} s of the budget were left"
                self.ledger.write(LeftOut(item=one.item.id, why=why, budget=True))

    def _due(self, state: NightState) -> list[ItemState]:
        return [one for one in state.due if one.item.id not in self._busy]

    def _next(self) -> ItemState | None:
        due = self._due(self.state)
        if len(self.clusters) > 1:
            due.sort(key=lambda one: (len(one.ended), -one.choice.seconds))
        return due[0] if due else None

    async def _attempt(self, one: ItemState, cluster: Cluster) -> Cluster | None:
        """Carry out one attempt. Return the cluster to go on with, None if nothing is left of it."""
        item, number = one.item, one.begun + 1
        self._busy.add(item.id)
        began = time.monotonic()
        try:
            attempt = await self.runner.begin(item, number, cluster)
            self.ledger.write(
                Begun(
                    item=item.id,
                    attempt=number,
                    cluster=cluster.name,
                    pid=attempt.pid,
                    pid_started=attempt.pid_started,
                )
            )
            outcome = await attempt.outcome(max(LEAST_LIMIT_S, LIMIT_FACTOR * one.choice.seconds))
            seconds = time.monotonic() - began
            left: Cluster | None = cluster
            if outcome.ending in ("unknown", "error") and (missing := await self._missing(cluster)):
                outcome = as_lost(outcome, missing)
                left = self.watch.without(cluster, missing)
                self.ledger.write(Lost(cluster=cluster.name, hosts=missing, why=f"during {item.id}"))
                self.say(
                    f"{'lost':<11}{', '.join(missing)} of {cluster.name}"
                    + ("" if left else ": it is not used any more")
                )
            expected = item.is_expected(outcome.ending, outcome.anomalies)
            self.ledger.write(
                Ended(item=item.id, attempt=number, seconds=round(seconds, 1), as_expected=expected, outcome=outcome)
            )
        finally:
            self._busy.discard(item.id)
            self._changed.set()
        self.say(line_of(self.state.items[item.id], len(self.state.items)))
        self.on_change(self.state)
        return left


def as_lost(outcome: Outcome, hosts: Sequence[str]) -> Outcome:
    """Return the outcome of an attempt during which hosts were lost: unknown, whatever became of it."""
    lost = f"lost {'hosts' if len(hosts) > 1 else 'host'} {', '.join(hosts)}"
    problem = f"{lost}: {outcome.problem}" if outcome.problem else lost
    return msgspec.structs.replace(outcome, ending="unknown", cause="machine", problem=problem)


def line_of(one: ItemState, total: int) -> str:
    """Return the line about an item whose attempt has ended."""
    last = one.last
    if last is None:
        return f"{'':<11}{one.item.id}"
    mark = "✔" if last.as_expected else "✘"
    found = f" ({', '.join(last.outcome.anomalies)})" if last.outcome.anomalies else ""
    said = f"{mark} {one.item.id:<44} seed {one.item.seed:<6} {last.outcome.ending}{found}   {last.seconds:.0f} s"
    if not last.as_expected:
        said += f"   expected {one.item.expected}"
    return said if last.attempt == 1 else f"{said}   attempt {last.attempt}"


@dataclass(frozen=True)
class Stopwatch:
    """The remaining time of a budget: `spent_s` were used up by earlier sessions."""

    limit_s: float | None
    spent_s: float
    began: float

    @classmethod
    def begun(cls, limit_s: float | None, spent_s: float) -> Stopwatch:
        return cls(limit_s, spent_s, time.monotonic())

    def left_s(self) -> float | None:
        if self.limit_s is None:
            return None
        return self.limit_s - self.spent_s - (time.monotonic() - self.began)

    def limited_to(self, limit_s: float | None) -> Stopwatch:
        """Return a stopwatch that ends at this limit at the latest."""
        limits = [one for one in (self.limit_s, limit_s) if one is not None]
        return replace(self, limit_s=min(limits, default=None))

    def without(self, reserve_s: float) -> Stopwatch:
        """Return a stopwatch that ends earlier, by the time that the teardown needs."""
        return self if self.limit_s is None else replace(self, limit_s=self.limit_s - reserve_s)
