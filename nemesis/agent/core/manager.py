"""The fault verbs: write a journal entry, then inject; revert, then remove the entry.

The state of the host is a function of the open journal entries. Injecting adds an entry; reverting removes one and
recomputes the state from the rest. So overlapping faults heal one by one in any order, and healing twice is harmless:

* `net.drop`: the filter is rewritten from the open entries;
* `net.shape`, `net.spoil` (`link_shaping.py`): the rules that queue packets are rewritten from the open entries, for an
  emulator that knows all of them;
* `proc.kill`: the process is restarted once no kill of it is open, unless it was stopped on purpose since;
* `proc.pause`: the same process that was paused continues once no pause of it is open;
* `proc.power_loss`, `disk.wipe` (`power.py`), `disk.rewind` (`disk_copy.py`): as a kill, and the files of the process
  are damaged once;
* `disk.damage` (`file_damage.py`): the old content is kept, and restored if the fault asks for that;
* `disk.error`, `disk.slow`, `disk.lie`, `disk.fill` (`disk_faults.py`, `disk_lies.py`, `disk_fill.py`): the rules of
  the process's disk are rewritten from the open entries;
* `proc.kill_at_call` (`failpoint.py`): a rule of the same disk; after it has struck, the process is down until the
  fault is reverted;
* `rpc.hold`, `rpc.cut`, `rpc.stream` (`rpc.py`): one proxy carries out the open ones; if the proxy dies, they end
  before their time;
* `clock.set`, `clock.monotonic` (`clock_faults.py`): the latest open fault of the process decides; without one, the
  process sees the true time.

The keeper enforces the time to live. It is a separate process that reads the same journal. No fault is injected before
the keeper and its sentries are known to work and the disk has room to heal the fault. Repeating a fault verb with the
same id renews its time to live. An unreadable entry is healed at once, as every fault it could be.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from squall.nemesis.agent.core.arguments import number
from squall.nemesis.agent.core.journal import Entry, Journal
from squall.nemesis.agent.core.names import checked_id
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.core.verbs import KILLS, TERM, verb_family


class FaultVerb(Protocol):
    """One kind of fault on this host."""

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Check the arguments and return them with all that injecting and reverting need. Changes nothing."""
        ...

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        """Inject the fault. `open_entries` are all entries of this verb's family, this one included."""
        ...

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        """Revert the fault unless an entry in `remaining` requires it. Idempotent."""
        ...


@runtime_checkable
class CarriedOut(Protocol):
    """A kind of fault that lasts only as long as a process of the agent lives."""

    def broken(self, entry: Entry) -> bool:
        """Whether that process has died."""
        ...

    def note_broken(self, entry: Entry) -> None:
        """Record as evidence that the fault ended before its time."""
        ...


@runtime_checkable
class HealsUnknown(Protocol):
    """A kind of fault that can be reverted without its entry."""

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        """Revert everything that a fault with this id may have done when only the id is known. Harmless if the fault
        was of another kind. `remaining` are the open entries of this kind.
        """
        ...


class FaultManager:
    """Injects and heals faults under the journal's lock."""

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
        """Write the entry and inject. A fault that cannot be injected leaves no entry."""
        id, ttl = checked_id(arguments), number(arguments, "ttl")
        if not 0 < ttl <= self._longest_ttl:
            raise VerbError("bad_argument", f"ttl: {ttl} must be more than 0 and at most {self._longest_ttl:g} s")
        fault = self._verbs[verb]
        with self._journal.locked():
            entry = self._journal.find(id)
            if entry and entry.verb != verb:
                raise VerbError("bad_argument", f"id: {id!r} is already an open {entry.verb}")
            prepared = entry.arguments if entry else fault.prepare(arguments)
            self._ensure_guard()
            if entry:
                entry = self._journal.renew(entry, ttl)
            else:
                entry = self._journal.open_entry(id, verb, ttl, prepared)
            try:
                return fault.inject(entry, self._open(verb))
            except Exception:
                with contextlib.suppress(Exception):  # if this fails, the entry stays open for the keeper
                    self._undo(entry)
                raise

    def heal(self, id: str | None = None) -> list[str]:
        """Heal one fault, or all. Returns the ids that were open. Raises VerbError after the rest if one does not
        heal.
        """
        with self._journal.locked():
            return self._heal([entry for entry in self._journal.entries() if id in (None, entry.id)])

    def heal_expired(self) -> list[str]:
        """Heal the faults whose time to live is over."""
        with self._journal.locked():
            return self._heal(self._journal.expired())

    def broken(self) -> list[Entry]:
        """The faults within their time to live whose process has died."""
        expired = {entry.id for entry in self._journal.expired()}
        return [entry for entry in self._journal.entries() if entry.id not in expired and self._is_broken(entry)]

    def heal_broken(self) -> list[str]:
        """Heal such faults, and record that they ended early."""
        with self._journal.locked():
            broken = self.broken()
            for entry in broken:
                verb = self._verbs[entry.verb]
                assert isinstance(verb, CarriedOut)
                with contextlib.suppress(OSError):  # as on a full disk; healing matters more
                    verb.note_broken(entry)
            return self._heal(broken)

    def _is_broken(self, entry: Entry) -> bool:
        verb = self._verbs.get(entry.verb)
        return isinstance(verb, CarriedOut) and verb.broken(entry)

    def forget(self, name: str) -> None:
        """Heal the kills and pauses of a process that is stopped or started on purpose. The caller holds the lock."""
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
            raise VerbError("failed", f"not healed: {'; '.join(failures)}{rest}")
        return healed

    def _undo(self, entry: Entry) -> None:
        """Revert first, then remove the entry: a crash in between reverts twice, which is harmless."""
        if entry.verb in self._verbs:
            self._verbs[entry.verb].undo(entry, self._open(entry.verb, but=entry.id))
        else:
            self._undo_unknown(entry.id)
        self._journal.close(entry.id)

    def _undo_unknown(self, id: str) -> None:
        """Revert, kind by kind, every fault that a damaged entry could be: only its id is known.

        Kills come last, after everything that must be reverted before a process restarts. Raises VerbError, after the
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
            raise VerbError(
                "failed", f"its entry is damaged, and not all it could be is reverted: {'; '.join(failures)}"
            )

    def _open(self, verb: str, but: str | None = None) -> list[Entry]:
        return [entry for entry in self._journal.entries() if entry.verb in verb_family(verb) and entry.id != but]
