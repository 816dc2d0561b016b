"""Choose the items of a night by their value within a budget of time and money, and say what is left out and why. Pure.

The value of an item is the sum of

    8   it was never run
    4   its last run did not end as expected
    4   it has a finding of the last two weeks
    log2(1 + days since it was last run)
    60 / (60 + seconds), so that of two equal ones the cheaper comes first

Items are taken in the order of their value as long as they fit; one that does not fit is left out, and cheaper ones
behind it may still fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from squall.harness.nightly.ledger.items import Item
from squall.harness.nightly.ledger.ledger import Choice, Omission
from squall.harness.nightly.plan.sharding import makespan

NEVER_RUN, FAILED, FINDING = 8.0, 4.0, 4.0
LONG_AGO_DAYS = 30.0


@dataclass(frozen=True)
class Past:
    """What is known of earlier runs of an item. `seconds` is the median of their durations, None if there is none."""

    runs: int = 0
    days: float = 0.0
    failed: bool = False
    findings: int = 0
    seconds: float | None = None


@dataclass(frozen=True)
class Candidate:
    """An item that may be chosen."""

    item: Item
    past: Past = Past()

    @property
    def seconds(self) -> float:
        """How long it should take."""
        return self.item.usual_s if self.past.seconds is None else self.past.seconds


@dataclass(frozen=True)
class Budget:
    """What a night may use. `reserve_s` is for hooks and set-up; `seconds` None means no limit."""

    seconds: float | None = None
    money: float | None = None
    price_per_hour: float = 0.0
    reserve_s: float = 0.0

    @property
    def limit_s(self) -> float | None:
        """How long the night may last, by time and by money."""
        limits = [] if self.seconds is None else [self.seconds]
        if self.money is not None and self.price_per_hour > 0:
            limits.append(self.money / self.price_per_hour * 3600)
        return min(limits, default=None)

    def cost(self, seconds: float) -> float:
        """Return what so much time costs."""
        return seconds * self.price_per_hour / 3600


@dataclass(frozen=True)
class Plan:
    """What is to be run, in the order of value, and what is not."""

    chosen: tuple[Choice, ...]
    left_out: tuple[Omission, ...]
    seconds: float
    """How long the chosen items take, with the reserve."""


def value_of(candidate: Candidate) -> tuple[float, str]:
    """Return what a run of it is worth, and the reasons in words."""
    past = candidate.past
    cheap = 60 / (60 + candidate.seconds)
    if not past.runs:
        return NEVER_RUN + cheap, "never run"
    reasons = []
    value = cheap + log2(1 + min(max(past.days, 0.0), LONG_AGO_DAYS))
    if past.failed:
        value += FAILED
        reasons.append("last run not as expected")
    if past.findings:
        value += FINDING
        reasons.append("open findings" if past.findings > 1 else "an open finding")
    reasons.append("run today" if past.days < 1 else f"last run {past.days:.0f} days ago")
    return value, ", ".join(reasons)


def choose(candidates: Sequence[Candidate], budget: Budget, clusters: int = 1) -> Plan:
    """Choose within the budget, for so many clusters that work at once."""
    limit = budget.limit_s
    room = None if limit is None else limit - budget.reserve_s
    chosen: list[Choice] = []
    left_out: list[Omission] = []
    rated = sorted(((*value_of(one), one) for one in candidates), key=lambda one: (-one[0], one[2].item.id))
    for value, why, one in rated:
        taken = [choice.seconds for choice in chosen]
        if room is None or makespan([*taken, one.seconds], clusters) <= room:
            chosen.append(Choice(item=one.item, seconds=one.seconds, value=round(value, 2), why=why))
            continue
        left = max(0.0, room - makespan(taken, clusters))
        reason = f"takes about {one.seconds:.0f} s, {left:.0f} s of {limit:.0f} s were left; {why}"
        left_out.append(Omission(item=one.item, seconds=one.seconds, value=round(value, 2), why=reason))
    seconds = makespan([one.seconds for one in chosen], clusters) + budget.reserve_s
    return Plan(tuple(chosen), tuple(left_out), seconds)
