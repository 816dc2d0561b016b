"""Faults that exclude each other on a host, because their evidence could not be told apart.

Three groups, by their effect on a host (docs/faults.md describes them for users):

* faults that *end* the node's process: it ends only once, and evidence of a second end would be that of the first;
* faults that *stop* it for a while: a missing process cannot be stopped, a stopped one cannot shut down cleanly;
* faults that set its wall *clock*: a process has one, and the last setting applies.

Only hosts named in the suite can be compared beforehand. Roles are resolved when faults start; two faults that then
affect the same host are detected by their evidence: the second is unproven, and the verdict unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from squall.nemesis.core.durations import write_seconds
from squall.nemesis.core.selector import Named, parts_of
from squall.nemesis.options import FaultOptions
from squall.nemesis.schedule import Schedule, ScheduledFault

ENDS = "ends its process"
STOPS = "stops its process"
SETS_CLOCK = "sets its clock"

DOES: Mapping[str, str] = {
    "kill": ENDS,
    "restart": ENDS,
    "power-loss": ENDS,
    "wipe-disk": ENDS,
    "kill-at-call": ENDS,
    "bounce": ENDS,
    "rolling-restart": ENDS,
    "host-down": ENDS,
    "pause": STOPS,
    "clock": SETS_CLOCK,
    "clock-strobe": SETS_CLOCK,
    "clock-freeze": SETS_CLOCK,
}

EXCLUDED: Mapping[frozenset[str], str] = {
    frozenset((ENDS,)): "a process can be ended only once at a time",
    frozenset((ENDS, STOPS)): "an ended process cannot be paused, and a paused process cannot stop cleanly",
    frozenset((SETS_CLOCK,)): "a process has one wall clock",
}


@dataclass(frozen=True)
class Clash:
    """Two faults of a schedule that exclude each other on a host."""

    first: ScheduledFault
    second: ScheduledFault
    host: str
    why: str

    def __str__(self) -> str:
        return f"{_told(self.first)} and {_told(self.second)} exclude each other on {self.host}: {self.why}"


def clashes(schedule: Schedule) -> Iterator[Clash]:
    """All pairs of faults that exclude each other and are open on the same named host at the same time."""
    for first, second in combinations(schedule.faults, 2):
        why = why_excluded(first.options, second.options)
        if not why or first.ends_at_s <= second.at_s or second.ends_at_s <= first.at_s:
            continue
        both = [host for host in _hosts(first) if host in _hosts(second)]
        if both:
            yield Clash(first, second, both[0], why)


def why_excluded(one: FaultOptions, other: FaultOptions) -> str:
    """Why the two cannot be told apart on one host; empty if they can."""
    done = frozenset(filter(None, (DOES.get(one.fault), DOES.get(other.fault))))
    both_known = one.fault in DOES and other.fault in DOES
    return EXCLUDED.get(done, "") if both_known else ""


def _hosts(fault: ScheduledFault) -> tuple[str, ...]:
    """The hosts it is certain to affect: none if its target is a role."""
    target = getattr(fault.options, "target", None)
    parts = parts_of(target) if isinstance(target, str) else ()
    return parts[0].hosts if len(parts) == 1 and isinstance(parts[0], Named) else ()


def _told(fault: ScheduledFault) -> str:
    return f"{fault.id} ({write_seconds(fault.at_s)} to {write_seconds(fault.ends_at_s)})"
