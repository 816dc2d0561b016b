"""`cpu.throttle`: a process gets only a share of one processor.

There are two drivers. On real hosts: control groups (`cgroups.py`), by which the kernel limits the process. Otherwise a
*duty cycle*: a helper stops and continues the process ten times a second, so that it runs for its share of the time.
That needs no root and leaves nothing behind, so the hosts of a lab, which share one machine, always use it.

The driver is chosen when the fault begins and kept in its entry. With several throttles of a process the smallest share
applies. The helper leaves a process stopped while a `proc.pause` is open, and continues it when the throttle ends.

    python3 -u program.py process.throttle --state DIR --helper NAME --ready DESCRIPTOR --pid PID --started TICKS
"""

from __future__ import annotations

import argparse
import secrets
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import number
from squall.nemesis.agent.core.helpers import Helpers, announce
from squall.nemesis.agent.core.journal import Entry, Journal, boot_id
from squall.nemesis.agent.core.processes import Identity, Processes, send_signal, state_of, wait_for_state
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.process import cgroups
from squall.nemesis.agent.process.signals import ProcessFault, identity_in

VERB = "cpu.throttle"
PAUSE = "proc.pause"
DUTY = "duty cycle"
PERIOD = 0.1
SHORTEST_RUN = 0.002


class Throttle(ProcessFault):
    """The fault verb."""

    def __init__(self, processes: Processes, journal: Journal, state: Path, *, lab: bool) -> None:
        super().__init__(processes)
        self._journal = journal
        self._helpers = Helpers(state, "process.throttle")
        self._lab = lab

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        share = number(arguments, "share")
        if not 0 < share < 1:
            raise VerbError("bad_argument", f"share: {share} must be more than 0 and less than 1 (one processor)")
        prepared = {**super().prepare(arguments), "share": share, "driver": DUTY}
        groups = None if self._lab else cgroups.usable()
        if groups is not None:
            home = groups.home_of(prepared["pid"])
            others = [entry for entry in self._of(identity_in_arguments(prepared)) if "home" in entry.arguments]
            home = others[0].arguments["home"] if others else home
            group = others[0].arguments["group"] if others else f"squall-{secrets.token_hex(6)}"
            prepared |= {"driver": groups.name, "home": home, "group": group}
        return prepared

    def _of(self, identity: Identity) -> list[Entry]:
        """The open throttles of a process."""
        return [one for one in self._journal.entries() if one.verb == VERB and identity_in(one) == identity]

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        identity = identity_in(entry)
        if entry.arguments["driver"] == DUTY:
            self._helpers.start(helper_of(identity), "--pid", str(identity.pid), "--started", str(identity.started))
        else:
            self._hold(entry, [one for one in open_entries if identity_in(one) == identity])
        return {"pid": identity.pid, "driver": entry.arguments["driver"]}

    def _hold(self, entry: Entry, entries: Sequence[Entry]) -> None:
        share = min(float(one.arguments["share"]) for one in entries)
        groups_of(entry).hold(entry.arguments["group"], entry.arguments["pid"], share)

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        identity = identity_in(entry)
        others = [one for one in remaining if identity_in(one) == identity]
        if entry.arguments["driver"] != DUTY:
            if others and state_of(identity) != "absent":
                self._hold(others[0], others)
            else:
                groups_of(entry).release(entry.arguments["group"], entry.arguments["home"])
            return
        self._helpers.end(helper_of(identity))
        if others:
            self.inject(others[0], others)
        elif not is_paused(self._journal, identity):
            send_signal(identity, signal.SIGCONT)
            wait_for_state(identity, ("running", "absent"), timeout=5)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        """Delete control groups that belong to no open fault. A helper ends because its fault is not in the journal."""
        kept = {other.arguments.get("group") for other in remaining}
        for groups in () if self._lab else cgroups.candidates():
            for group in groups.made_by_us():
                if group not in kept:
                    groups.release(group, "/")

    def broken(self, entry: Entry) -> bool:
        """Whether the helper has died, which may have left the process stopped."""
        if entry.arguments["driver"] != DUTY or state_of(identity_in(entry)) == "absent":
            return False
        return self._helpers.alive(helper_of(identity_in(entry))) is None

    def note_broken(self, entry: Entry) -> None:
        """Does nothing: `probe.resources` reports that the fault is not open any more."""


def identity_in_arguments(arguments: dict[str, Any]) -> Identity:
    return Identity(arguments["pid"], arguments["started"])


def groups_of(entry: Entry) -> cgroups.CpuGroups:
    """The groups that the fault began with. Raises VerbError."""
    for one in cgroups.candidates():
        if one.name == entry.arguments["driver"] and one.why_not() is None:
            return one
    raise VerbError("failed", f"{entry.arguments['driver']} worked when the fault began and does not now")


def helper_of(identity: Identity) -> str:
    return f"throttle-{identity.pid}-{identity.started}"


def is_paused(journal: Journal, identity: Identity) -> bool:
    return any(entry.verb == PAUSE and identity_in(entry) == identity for entry in journal.entries())


# --- The helper ----------------------------------------------------------------------------------------------------


def share_now(journal: Journal, identity: Identity) -> float | None:
    """The smallest share of the throttles that are open and in time; None if there is none."""
    now, boot = journal.monotonic(), boot_id()
    shares = [
        float(entry.arguments["share"])
        for entry in journal.entries()
        if entry.verb == VERB and identity_in(entry) == identity and not entry.expired(now, boot)
    ]
    return min(shares, default=None)


def go_on(journal: Journal, identity: Identity) -> None:
    if not is_paused(journal, identity):
        send_signal(identity, signal.SIGCONT)


def cycle(journal: Journal, identity: Identity) -> None:
    """Stop and continue the process until no throttle is open or the process has ended."""
    try:
        while state_of(identity) != "absent" and (share := share_now(journal, identity)) is not None:
            run = max(SHORTEST_RUN, share * PERIOD)
            go_on(journal, identity)
            time.sleep(run)
            send_signal(identity, signal.SIGSTOP)
            time.sleep(max(0.0, PERIOD - run))
    finally:
        go_on(journal, identity)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="lets a process run for a share of the time")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--helper", required=True)
    parser.add_argument("--ready", type=int, required=True, metavar="DESCRIPTOR")
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--started", type=int, required=True)
    options = parser.parse_args(argv)
    announce(options.state, options.helper, options.ready)
    cycle(Journal(options.state), Identity(options.pid, options.started))
    return 0
