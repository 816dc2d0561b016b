"""The fault verbs: journal first, then inject; undo, then forget.

What the host should suffer is a function of the open journal entries. Injecting adds an entry and undoing one
recomputes the rest, so overlapping faults heal one by one in any order, and healing twice does no harm:

* `net.drop`: the filter is written anew from the open entries;
* `net.shape`, `net.spoil` (`link_shaping.py`): so are the rules that queue packets, for an emulator that knows all
  open entries;
* `proc.kill`: the process is started again once no kill of it is open, unless it was stopped on purpose since;
* `proc.pause`: the very process that was paused goes on once no pause of it is open;
* `proc.power_loss`, `disk.wipe` (`power.py`), `disk.rewind` (`disk_copy.py`): as a kill, and the files of the process
  are damaged once;
* `disk.damage` (`file_damage.py`): what was there is kept, and put back if that was asked for;
* `disk.error`, `disk.slow`, `disk.lie`, `disk.fill` (`disk_faults.py`, `disk_lies.py`, `disk_fill.py`): the rules of
  the process's disk are written anew from the open entries;
* `proc.kill_at_call` (`failpoint.py`): so are they; once it has struck, the process is down until it is undone;
* `rpc.hold`, `rpc.cut`, `rpc.stream` (`rpc.py`): one proxy carries out the open ones; should it die, they end before
  their time;
* `clock.set`, `clock.monotonic` (`clock_faults.py`): the latest open fault of the process rules, or true time.

The time to live is enforced by the keeper, a process of its own that reads the same journal; no fault is injected
before it and its sentries are known to work, and before there is room on the disk to heal it with. Repeating a fault
verb with the same id renews its time to live. An entry that cannot be read is healed at once, as anything it could be.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from squall.nemesis.agent.core.arguments import number
from squall.nemesis.agent.core.journal import Entry, Journal
from squall.nemesis.agent.core.names import checked_id
from squall.nemesis.agent.core.trouble import Trouble
from squall.nemesis.agent.core.verbs import KILLS, TERM, alike


class FaultVerb(Protocol):
    """One kind of fault on this host."""

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments checked, with all that injecting and undoing need. Changes nothing."""
        ...

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        """Makes it so; `open_entries` are all of this verb, with this one."""
        ...

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        """Makes it unso, as far as `remaining` allow. May run again for the same entry."""
        ...


@runtime_checkable
class CarriedOut(Protocol):
    """A kind of fault that lasts only as long as a process of ours lives."""

    def broken(self, entry: Entry) -> bool:
        """Whether that process has died."""
        ...

    def note_broken(self, entry: Entry) -> None:
        """Keeps for whoever looks that the fault ended before its time."""
        ...


@runtime_checkable
class HealsUnknown(Protocol):
    """A kind of fault that can be reverted without its entry."""

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        """Revert whatever a fault of this id may have done, of which nothing else is known. Harmless if it is none of
        this kind. `remaining` are the open ones of this kind.
        """
        ...


class FaultDesk:
    """Injects and heals under the journal's lock."""

    def __init__(
        self,
        journal: Journal,
        verbs: dict[str, FaultVerb],
        ensure_guard: Callable[[], None],
        longest_ttl: float = 24 * 3600,
    ) -> None:
        self._journal = journal
        self._verbs = verbs
        self._ensure_guard = ensure_guard
        self._longest_ttl = longest_ttl

    def inject(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Journals and injects; a fault that cannot be injected leaves no entry."""
        id, ttl = checked_id(arguments), number(arguments, "ttl")
        if not 0 < ttl <= self._longest_ttl:
            raise Trouble("bad_argument", f"ttl: {ttl} must be more than 0 and at most {self._longest_ttl:g} s")
        fault = self._verbs[verb]
        with self._journal.locked():
            entry = self._journal.find(id)
            if entry and entry.verb != verb:
                raise Trouble("bad_argument", f"id: {id!r} is already an open {entry.verb}")
            prepared = entry.arguments if entry else fault.prepare(arguments)
            self._ensure_guard()
            if entry:
                entry = self._journal.renew(entry, ttl)
            else:
                entry = self._journal.open_entry(id, verb, ttl, prepared)
            try:
                return fault.inject(entry, self._open(verb))
            except Exception:
                with contextlib.suppress(Exception):  # what will not be undone stays open, for the keeper
                    self._undo(entry)
                raise

    def heal(self, id: str | None = None) -> list[str]:
        """Heals one fault, or all; says which were open. Raises Trouble if one would not heal, after the rest."""
        with self._journal.locked():
            return self._heal([entry for entry in self._journal.entries() if id in (None, entry.id)])

    def heal_expired(self) -> list[str]:
        """Heals what has outlived its time."""
        with self._journal.locked():
            return self._heal(self._journal.expired())

    def broken(self) -> list[Entry]:
        """What has not outlived its time, but the process that carries it out."""
        expired = {entry.id for entry in self._journal.expired()}
        return [entry for entry in self._journal.entries() if entry.id not in expired and self._is_broken(entry)]

    def heal_broken(self) -> list[str]:
        """Ends such faults, and keeps that they were cut short."""
        with self._journal.locked():
            broken = self.broken()
            for entry in broken:
                verb = self._verbs[entry.verb]
                assert isinstance(verb, CarriedOut)
                with contextlib.suppress(OSError):  # as on a full disk; that it is healed matters more
                    verb.note_broken(entry)
            return self._heal(broken)

    def _is_broken(self, entry: Entry) -> bool:
        verb = self._verbs.get(entry.verb)
        return isinstance(verb, CarriedOut) and verb.broken(entry)

    def forget(self, name: str) -> None:
        """Heals the kills and pauses of a process that is stopped or started on purpose. Lock held by caller."""
        for entry in self._journal.entries():
            if entry.verb in (*KILLS, "proc.pause") and entry.arguments.get("name") == name:
                self._undo(entry)

    def _heal(self, entries: Sequence[Entry]) -> list[str]:
        healed, failures = [], []
        for entry in entries:
            try:
                self._undo(entry)
                healed.append(entry.id)
            except Exception as trouble:
                failures.append(f"{entry.id} ({entry.verb}): {trouble}")
        if failures:
            rest = f"; healed: {', '.join(healed)}" if healed else ""
            raise Trouble("failed", f"not healed: {'; '.join(failures)}{rest}")
        return healed

    def _undo(self, entry: Entry) -> None:
        """Undone first, forgotten after: a crash between the two undoes once more, which is harmless."""
        if entry.verb in self._verbs:
            self._verbs[entry.verb].undo(entry, self._open(entry.verb, but=entry.id))
        else:
            self._undo_unknown(entry.id)
        self._journal.close(entry.id)

    def _undo_unknown(self, id: str) -> None:
        """Of a damaged entry only the id is known: all that it could stand for is reverted, kind by kind.

        Kills come last, after what has to be put right before a process is started again. Raises Trouble, after the
        rest, if a kind fails.
        """
        failures = []
        for name, verb in sorted(self._verbs.items(), key=lambda item: item[0] in ("proc.kill", TERM)):
            if isinstance(verb, HealsUnknown):
                try:
                    verb.undo_unknown(id, self._open(name, but=id))
                except Exception as trouble:
                    failures.append(f"{name}: {trouble}")
        if failures:
            raise Trouble("failed", f"its entry is damaged, and not all it could be is reverted: {'; '.join(failures)}")

    def _open(self, verb: str, but: str | None = None) -> list[Entry]:
        return [entry for entry in self._journal.entries() if entry.verb in alike(verb) and entry.id != but]
