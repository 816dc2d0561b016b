"""Scenarios whose flakes do not fail a night for a limited time.

An entry names an owner, a reason and an end date. It excuses `unknown` and `error`, never `invalid`. Once its last day
is over it is itself a problem that fails the night, until it is removed or renewed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date

from squall.results.trends.flakes import Verdict


@dataclass(frozen=True)
class QuarantineEntry:
    """A scenario in quarantine up to and including the day `until`. Raises ValueError for an empty text."""

    scenario: str
    owner: str
    reason: str
    until: date

    def __post_init__(self) -> None:
        for name in ("scenario", "owner", "reason"):
            if not getattr(self, name).strip():
                raise ValueError(f"a quarantine entry needs its {name}")


@dataclass(frozen=True)
class Quarantine:
    """The entries that count today, and the problems of the list, each a sentence. A problem fails the night."""

    active: tuple[QuarantineEntry, ...]
    problems: tuple[str, ...]

    def excuses(self, scenario: str, verdict: Verdict) -> bool:
        """Whether this end of this scenario does not fail the night."""
        return verdict in ("unknown", "error") and any(one.scenario == scenario for one in self.active)


def quarantine_of(entries: Sequence[QuarantineEntry], scenarios: Collection[str], today: date) -> Quarantine:
    """Sort the entries into those that count today and problems: expired, twice, or of a scenario that is not known."""
    problems = [
        f"quarantine of {one.scenario} expired on {one.until} (owner {one.owner}: {one.reason}): repair the scenario, "
        "or renew the entry"
        for one in entries
        if one.until < today
    ]
    unknown = sorted({one.scenario for one in entries} - set(scenarios))
    problems += [f"quarantine of {one}: there is no such scenario" for one in unknown]
    twice = sorted(name for name, number in Counter(one.scenario for one in entries).items() if number > 1)
    problems += [f"quarantine of {one} is listed more than once" for one in twice]
    return Quarantine(tuple(one for one in entries if one.until >= today), tuple(problems))
