"""The state of a finding tonight, from the nights on which its scenario ran: new, ongoing, rare or resolved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Literal

from squall.results.trends.findability import Findability

State = Literal["new", "ongoing", "rare", "resolved"]
RARE_RATE = 0.1
"""A finding that shows in fewer runs than this share is rare."""


@dataclass(frozen=True)
class Night:
    """How many runs of the scenario a night had that could show the finding, and how many did. Raises ValueError.

    A run that ended `unknown` or in error shows nothing and is not counted.
    """

    night: date
    runs: int
    seen: int

    def __post_init__(self) -> None:
        if not 0 <= self.seen <= self.runs:
            raise ValueError(f"{self.seen} of {self.runs} runs is no count")


@dataclass(frozen=True)
class FindingState:
    """A finding tonight.

    `first_seen` is the night of the first sighting of all, `seen` and `runs` count since it appeared or came back.
    `returned` says that it had been resolved before. `still_there` is the probability that it is, after the clean
    runs since the last sighting, and `clean_runs_needed` says how many more a fix needs to be believed.
    """

    state: State
    first_seen: date
    last_seen: date
    seen: int
    runs: int
    clean_runs: int
    returned: bool
    still_there: float
    clean_runs_needed: int


@dataclass(frozen=True)
class _Appearance:
    """A finding from its appearance to its last sighting, and the clean runs since."""

    began: date
    last: date
    seen: int
    runs: int
    clean: int = 0

    @property
    def findability(self) -> Findability:
        return Findability(self.seen, self.runs)

    @property
    def resolved(self) -> bool:
        return self.clean >= self.findability.clean_runs_needed()

    def after(self, night: Night) -> _Appearance:
        if not night.seen:
            return _Appearance(self.began, self.last, self.seen, self.runs, self.clean + night.runs)
        runs = self.runs + self.clean + night.runs
        return _Appearance(self.began, night.night, self.seen + night.seen, runs)


def finding_state(nights: Iterable[Night]) -> FindingState | None:
    """The state on the last of the nights; None if the finding was never seen.

    New: seen on the last night for the first time, or for the first time since it was resolved. Resolved: enough clean
    runs since the last sighting. Otherwise rare if few runs show it, else ongoing, whether it was seen on the last
    night or not. Raises ValueError if a night is listed twice.
    """
    ordered = sorted(nights, key=lambda one: one.night)
    if len({one.night for one in ordered}) < len(ordered):
        raise ValueError("a night is listed more than once")
    first: date | None = None
    now: _Appearance | None = None
    returned = False
    for night in ordered:
        if now is not None and not (night.seen and now.resolved):
            now = now.after(night)
        elif night.seen:
            returned = now is not None
            first = first or night.night
            now = _Appearance(night.night, night.night, night.seen, night.runs)
    if now is None or first is None:
        return None
    findability = now.findability
    return FindingState(
        state=_state(now, ordered[-1].night),
        first_seen=first,
        last_seen=now.last,
        seen=now.seen,
        runs=now.runs,
        clean_runs=now.clean,
        returned=returned,
        still_there=findability.still_there(now.clean),
        clean_runs_needed=findability.clean_runs_still_needed(now.clean),
    )


def _state(now: _Appearance, tonight: date) -> State:
    if now.began == tonight:
        return "new"
    if now.resolved:
        return "resolved"
    return "rare" if now.findability.rate < RARE_RATE else "ongoing"
