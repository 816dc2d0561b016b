"""When each fault of the kill storm has to be over, judged fault by fault.

A fault is judged by its own deadline: the one in its journal entry on the host, which is the time of journalling plus
the `ttl` that its verb ordered. The deadline of one fault never excuses another. Three things keep that honest:

* No entry may have more time left than its verb orders at most (`longest_ttl`): a deadline that is set too late, or
  postponed, is a failure of its own.
* An entry of which no copy can be read counts as expired (`nemesis/agent/core/journal.py`): its deadline is the end of
  the strike.
* What a fault leaves on a host beside its entry (a mark: a rule, an interface that is down, a mount, a node that is
  missing) is due with the last entry of that host, and at the earliest when a fault begun at the end of the strike is
  due. An entry with extra time (`EXTRA_S`) stands for a node that is down, so it excuses nothing but a missing node.

All times are seconds of CLOCK_MONOTONIC, which the hosts of a lab share with this machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from squall.nemesis.faults.disk.damage import UNTIL_RESTORED
from squall.nemesis.options import Restart

LONGEST_S = 3.0
TTL_MARGIN_S = 1.0
GRACE_S = 5.0
"""Within this time after its own time to live, no fault may be open."""
ROUNDING_S = 0.05
EXTRA_S: Mapping[str, float] = {
    "proc.term": Restart.model_fields["patience"].default,
    "proc.kill": UNTIL_RESTORED,
}
"""What a verb orders beyond window and margin: the time a clean stop may take; damaged files are restored first."""


def longest_ttl(verb: str) -> float:
    """The longest time to live that the storm orders by this verb, in seconds."""
    return LONGEST_S + TTL_MARGIN_S + EXTRA_S.get(verb, 0.0)


@dataclass(frozen=True)
class OpenFault:
    """An entry of a host's journal. `deadline` is None if no copy of it can be read."""

    name: str
    verb: str = "damaged"
    deadline: float | None = None

    @classmethod
    def of(cls, name: str, copies: list[str]) -> OpenFault:
        """The first copy that can be read counts, as for the host."""
        for copy in copies:
            try:
                entry = json.loads(copy)
                return cls(name, entry["verb"], float(entry["deadline"]))
            except (ValueError, TypeError, KeyError):
                continue
        return cls(name)


def monotonic_of(uptime: float) -> float:
    """The time of /proc/uptime, which counts sleep of the machine, as CLOCK_MONOTONIC, which does not."""
    return uptime - time.clock_gettime(time.CLOCK_BOOTTIME) + time.clock_gettime(time.CLOCK_MONOTONIC)


@dataclass
class Lateness:
    """How long after its deadline a fault was over, in seconds; negative if before."""

    seen_open: float = float("-inf")
    """The latest look at which one was still open."""
    gone: float = float("-inf")
    """The latest first look at which one was no longer open: the fault ended before it."""
    faults: int = 0

    def __str__(self) -> str:
        return f"last seen open {self.seen_open:+.1f} s, gone by {self.gone:+.1f} s after its time to live"


@dataclass
class Deadlines:
    """Of one round, whose strike was over at `struck`."""

    struck: float
    lateness: Lateness = field(default_factory=Lateness)
    _due: dict[tuple[str, str], float] = field(default_factory=dict)
    _verbs: dict[tuple[str, str], str] = field(default_factory=dict)
    _open: set[tuple[str, str]] = field(default_factory=set)

    @property
    def last(self) -> float:
        """When the last fault seen so far is due."""
        return max([self.struck + LONGEST_S + TTL_MARGIN_S, *self._due.values()])

    def late(self, host: str, at: float, faults: Sequence[OpenFault], marks: Sequence[str]) -> list[str]:
        """What of faults is there, at a look at a host at the time `at`, and should be over."""
        found = [line for fault in faults for line in self._judge(host, at, fault)]
        self._note_what_is_gone(host, at, {fault.name for fault in faults})
        for mark in marks:
            seconds = at - self._due_of_mark(host, mark)
            if not faults:
                self._note("seen_open", seconds)
            if seconds > GRACE_S:
                found.append(f"{host}: {seconds:.1f} s after the time to live: {mark}")
        return found

    def _due_of_mark(self, host: str, mark: str) -> float:
        missing = mark.startswith("missing: process")
        due = [self._due[key] for key in self._due if key[0] == host and (missing or self._verbs[key] not in EXTRA_S)]
        return max([self.struck + LONGEST_S + TTL_MARGIN_S, *due])

    def _judge(self, host: str, at: float, fault: OpenFault) -> list[str]:
        key, found = (host, fault.name), []
        due = self.struck if fault.deadline is None else fault.deadline
        if key not in self._due:
            self.lateness.faults += 1
        self._due[key], self._verbs[key] = due, fault.verb
        self._open.add(key)
        self._note("seen_open", at - due)
        if due - at > longest_ttl(fault.verb) + ROUNDING_S:
            found.append(
                f"{host}: {fault.name} ({fault.verb}) has {due - at:.1f} s left, and was ordered for at most "
                f"{longest_ttl(fault.verb):g} s"
            )
        if at - due > GRACE_S:
            found.append(f"{host}: {fault.name} ({fault.verb}) is open {at - due:.1f} s after its time to live")
        return found

    def _note_what_is_gone(self, host: str, at: float, names: set[str]) -> None:
        for key in [key for key in self._open if key[0] == host and key[1] not in names]:
            self._open.remove(key)
            self._note("gone", at - self._due[key])

    def _note(self, kind: str, seconds: float) -> None:
        setattr(self.lateness, kind, max(getattr(self.lateness, kind), seconds))
