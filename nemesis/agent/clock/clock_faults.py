"""The verbs about clocks: `clock.set` for the wall clock, `clock.monotonic` for the monotonic clock.

`clock.set` jumps by `offset_s` or to `wall_s`, and then runs at `rate`; 0 is a clock that stands still. With `every_s`
it is a strobe, which alternates between that time and true time. The latest open fault applies.

`clock.monotonic` runs ahead by `offset_s` and at `rate`. It never goes back: when the last such fault ends, the clock
runs at the true rate again and keeps its lead, as after a suspended machine has woken up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from squall.nemesis.agent.clock.clock_page import ClockPage, Line
from squall.nemesis.agent.clock.clocks import SECOND, MachineClock, ProcessClocks
from squall.nemesis.agent.core.arguments import number, text
from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.core.manager import FaultVerb
from squall.nemesis.agent.core.processes import Processes
from squall.nemesis.agent.core.verb_error import VerbError

FASTEST = 100
SLOWEST_MONOTONIC = 0.1
"""A slower clock would be a pause, which is another fault."""
SHORTEST_PERIOD = 0.002


def clock_verbs(processes: Processes, clocks: ProcessClocks | MachineClock) -> dict[str, FaultVerb]:
    """The verbs of this module by name."""
    return {"clock.set": SetClock(processes, clocks), "clock.monotonic": SetMonotonic(processes, clocks)}


def why_no_monotonic(clocks: ProcessClocks | MachineClock) -> str | None:
    """Why monotonic clocks cannot be changed here; None if they can."""
    if isinstance(clocks, MachineClock):
        return "a machine's monotonic clock cannot be set; only lab hosts support this fault"
    if not clocks.shim_loads():
        return "needs the clock shim in C, which was not shipped (no C compiler there) or does not load here"
    return None


class SetClock:
    """`clock.set`"""

    def __init__(self, processes: Processes, clocks: ProcessClocks | MachineClock) -> None:
        self._processes = processes
        self._clocks = clocks

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name = text(arguments, "name")
        self._processes.definition(name)
        rate = number({"rate": 1.0, **arguments}, "rate")
        if not 0 <= rate <= FASTEST:
            raise VerbError("bad_argument", f"rate: {rate} must be at least 0, where it stands, and at most {FASTEST}")
        every = number({"every_s": 0.0, **arguments}, "every_s")
        if every and every < SHORTEST_PERIOD:
            raise VerbError("bad_argument", f"every_s: {every} must be at least {SHORTEST_PERIOD}, or 0 for no strobe")
        self._clocks.check()
        now = self._clocks.true_wall_ns()
        if "wall_s" in arguments:
            offset = number(arguments, "wall_s") - now / SECOND
        else:
            offset = number(arguments, "offset_s")
        return {"name": name, "offset_s": offset, "rate": rate, "every_s": every, "set_at": now}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        self._apply(entry, open_entries)
        return {"offset_s": entry.arguments["offset_s"], "method": self._clocks.method}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._apply(entry, remaining)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        if isinstance(self._clocks, MachineClock):
            self._clocks.apply("", remaining)
            return
        for name in self._processes.names():
            self._clocks.apply(name, [other for other in remaining if other.arguments["name"] == name])

    def _apply(self, entry: Entry, entries: Sequence[Entry]) -> None:
        """Apply the entries: to the one clock of a machine, or on a lab host to the clock of this process."""
        name = entry.arguments["name"]
        if isinstance(self._clocks, ProcessClocks):
            entries = [other for other in entries if other.arguments["name"] == name]
        self._clocks.apply(name, entries)


class SetMonotonic:
    """`clock.monotonic`"""

    def __init__(self, processes: Processes, clocks: ProcessClocks | MachineClock) -> None:
        self._processes = processes
        self._clocks = clocks

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name = text(arguments, "name")
        self._processes.definition(name)
        reason = why_no_monotonic(self._clocks)
        if reason:
            raise VerbError("unsupported", f"the monotonic clock of {name} is left alone: {reason}")
        offset, rate = number({"offset_s": 0.0, **arguments}, "offset_s"), number({"rate": 1.0, **arguments}, "rate")
        if offset < 0:
            raise VerbError(
                "bad_argument", f"offset_s: {offset} must not be negative: a monotonic clock never goes back"
            )
        if not SLOWEST_MONOTONIC <= rate <= FASTEST:
            raise VerbError("bad_argument", f"rate: {rate} must be at least {SLOWEST_MONOTONIC} and at most {FASTEST}")
        now = time.monotonic_ns()
        shown = self._page(name).monotonic().at(now) + round(offset * SECOND)
        return {"name": name, "offset_s": offset, "rate": rate, "base_real": now, "base_fake": shown}

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        told = entry.arguments
        page, now = self._page(told["name"]), time.monotonic_ns()
        line = Line(told["base_real"], told["base_fake"], told["rate"])
        if page.monotonic().at(now) > line.at(now):  # injected again after another one: continue from the present time
            line = Line(now, page.monotonic().at(now), told["rate"])
        page.set_monotonic(line)
        return {"offset_s": told["offset_s"], "rate": told["rate"]}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        self._go_on(entry.arguments["name"], remaining)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        for name in self._processes.names() if isinstance(self._clocks, ProcessClocks) else ():
            self._go_on(name, remaining)

    def _go_on(self, name: str, remaining: Sequence[Entry]) -> None:
        """Continue from the present time at the rate of the latest remaining fault, or at the true rate."""
        page, now = self._page(name), time.monotonic_ns()
        ours = [other for other in remaining if other.arguments["name"] == name]
        rate = ours[-1].arguments["rate"] if ours else 1.0
        page.set_monotonic(Line(now, page.monotonic().at(now), rate))

    def _page(self, name: str) -> ClockPage:
        assert isinstance(self._clocks, ProcessClocks)
        return self._clocks.page(name)
