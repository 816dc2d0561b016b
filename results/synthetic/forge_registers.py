"""Forge histories of registers: healthy ones, and the same with an injected anomaly or its near-miss.

The healthy history is that of registers that work: processes read, write and compare-and-set; every operation takes
effect at one instant between its invocation and its completion. Some operations have an unknown outcome, of which some
take effect; some fail; a compare-and-set that meets another value is refused. Written values are unique, unless
`repeated` states from how many values they are drawn. `forge.py` does the same for logs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from squall.results.checkers.registers.operations import ABSENT, RegisterOperation

MILLISECOND: Final = 1_000_000
STRANGER: Final = 1 << 50
"""Values from here on are never written in a healthy history."""


@dataclass
class RegisterForge:
    """Makes one healthy history of several registers. Writers draw from `repeated` values; 0: values are unique."""

    seed: int
    operations: int = 200
    registers: int = 3
    processes: int = 6
    versions: bool = True
    repeated: int = 0
    history: list[RegisterOperation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"registers/{self.seed}")
        self.holds = [ABSENT] * self.registers
        self.version = [0] * self.registers
        self.counter = 0
        for process, invoked, effect, completed in sorted(self._plan(), key=lambda one: one[2]):
            self.history.append(self._operation(process, invoked, effect, completed))
        self.history.sort(key=lambda one: one.invoked)

    def _plan(self) -> list[tuple[int, int, int, int]]:
        """Plan process, invocation, effect and completion of each operation; no process has two at a time."""
        rng, plan = self.rng, []
        free = [rng.randrange(1, 5 * MILLISECOND) for _ in range(self.processes)]
        for _ in range(self.operations):
            slot = min(range(self.processes), key=free.__getitem__)
            invoked = free[slot]
            effect = invoked + rng.randrange(1, 4 * MILLISECOND)
            completed = effect + rng.randrange(1, 4 * MILLISECOND)
            plan.append((slot, invoked, effect, completed))
            free[slot] = completed + rng.randrange(1, 2 * MILLISECOND)
        return plan

    def _operation(self, slot: int, invoked: int, effect: int, completed: int) -> RegisterOperation:
        rng = self.rng
        place = rng.randrange(self.registers)
        f = rng.choice(("read", "read", "write", "cas"))
        fate = rng.random()
        kind = "info" if fate < 0.04 else "fail" if fate < 0.07 else "ok"
        process = slot if kind != "info" else 1000 + len(self.history)
        one = RegisterOperation(f, process, invoked, completed if kind != "info" else None, kind, register=f"r{place}")
        if kind != "ok":
            one = replace(one, error="timed_out" if kind == "info" else "not_sent")
        if f == "read":
            return self._answered(replace(one, found=self.holds[place]), place) if kind == "ok" else one
        one = replace(one, value=self._fresh())
        if f == "cas":
            expected = self.holds[place] if rng.random() < 0.7 else self._guess()
            one = replace(one, expected=expected)
            if expected != self.holds[place]:
                if kind != "ok":
                    return one
                refused = replace(one, type="fail", refused=True, found=self.holds[place])
                return self._answered(refused, place)
        if kind == "ok" or (kind == "info" and rng.random() < 0.5):
            assert one.value is not None
            self.holds[place] = one.value
            self.version[place] += rng.randrange(1, 3)
        return self._answered(one, place) if kind == "ok" else one

    def _fresh(self) -> int:
        self.counter += 1
        return self.rng.randrange(1, self.repeated + 1) if self.repeated else self.counter

    def _guess(self) -> int:
        """A value that the register may have held."""
        return self.rng.randrange(1, 1 + (self.repeated or self.counter))

    def _answered(self, one: RegisterOperation, place: int) -> RegisterOperation:
        return replace(one, version=self.version[place]) if self.versions else one


def healthy_registers(
    seed: int, operations: int = 200, *, versions: bool = False, repeated: int = 0
) -> list[RegisterOperation]:
    """Return the history of registers that work."""
    return RegisterForge(seed, operations, versions=versions, repeated=repeated).history


# Anomalies ------------------------------------------------------------------------------------------------------------

History = list[RegisterOperation]
RegisterInjection = Callable[[History, random.Random], History]


def _swap(history: History, old: RegisterOperation, new: RegisterOperation) -> History:
    return [new if one is old else one for one in history]


def _writers(history: History) -> dict[tuple[str, int], RegisterOperation]:
    """The operation that wrote, or may have written, each value."""
    return {(one.register, one.value): one for one in history if one.value is not None and one.type != "fail"}


def _reads(history: History) -> list[tuple[RegisterOperation, RegisterOperation]]:
    """Reads, with the acknowledged change whose value they show."""
    writers = _writers(history)
    pairs = []
    for one in history:
        if one.f == "read" and one.found is not None:
            writer = writers.get((one.register, one.found))
            if writer is not None and writer.type == "ok":
                pairs.append((one, writer))
    return pairs


def _ended(one: RegisterOperation) -> int:
    assert one.completed is not None
    return one.completed


def _phantom(history: History, rng: random.Random) -> History:
    """A read shows a value that was never written."""
    read, _ = rng.choice(_reads(history))
    return _swap(history, read, replace(read, found=STRANGER))


def _aborted(history: History, rng: random.Random) -> History:
    """A write failed, and is read nevertheless."""
    _, writer = rng.choice([pair for pair in _reads(history) if pair[1].f == "write"])
    return _swap(history, writer, replace(writer, type="fail", version=None, error="not_sent"))


def _future(history: History, rng: random.Random) -> History:
    """A read completed before the write of its value was invoked."""
    read, writer = rng.choice([pair for pair in _reads(history) if pair[1].f == "write" and pair[1].invoked > 9])
    early = replace(read, process=2000, invoked=writer.invoked - 3, completed=writer.invoked - 1)
    return [*history, early]


def _replaced(history: History, rng: random.Random) -> tuple[RegisterOperation, RegisterOperation]:
    """Two reads of different values of one register; the value of the second was written after the first read ended."""
    pairs = _reads(history)
    return rng.choice(
        [
            (earlier, later)
            for earlier, _ in pairs
            for later, writer in pairs
            if earlier.register == later.register and writer.invoked > _ended(earlier)
        ]
    )


def _stale(history: History, rng: random.Random) -> History:
    """A read shows a value that had been replaced, by a value that others see, before the read began."""
    earlier, later = _replaced(history, rng)
    return [*history, replace(earlier, process=2001, invoked=_ended(later) + 1, completed=_ended(later) + 3)]


def _lost(history: History, rng: random.Random) -> History:
    """An acknowledged write that is never seen, although later reads should see it."""
    read, writer = rng.choice([pair for pair in _reads(history) if pair[0].invoked > _ended(pair[1]) + 5])
    lost = RegisterOperation(
        "write", 2002, _ended(writer) + 1, read.invoked - 1, register=read.register, value=STRANGER + 1
    )
    return [*history, lost]


def _double_cas(history: History, rng: random.Random) -> History:
    """A second compare-and-set succeeds from a value that another one has replaced."""
    one = rng.choice([one for one in history if one.f == "cas" and one.type == "ok"])
    return [*history, replace(one, process=2003, value=STRANGER + 2, version=None)]


def _false_refusal(history: History, rng: random.Random) -> History:
    """A compare-and-set is refused, and the response shows the very value that it expected."""
    one = rng.choice([one for one in history if one.refused])
    return _swap(history, one, replace(one, expected=one.found))


def _version_conflict(history: History, rng: random.Random) -> History:
    """A read names the version of another value."""
    earlier, later = _replaced(history, rng)
    return _swap(history, earlier, replace(earlier, version=later.version))


def _version_regress(history: History, rng: random.Random) -> History:
    """Of two writes one after the other, the later has the lower version, in all responses."""
    writes = [one for one in history if one.f == "write" and one.type == "ok"]
    first, second = rng.choice(
        [
            (one, other)
            for one in writes
            for other in writes
            if one.register == other.register and _ended(one) < other.invoked
        ]
    )
    exchange = {(one.register, one.value): other.version for one, other in ((first, second), (second, first))}

    def told(one: RegisterOperation) -> RegisterOperation:
        held = one.found if one.f == "read" or one.refused else one.value
        assert held is not None
        return replace(one, version=exchange.get((one.register, held), one.version))

    return [one if one.version is None else told(one) for one in history]


def _impossible_among_repeated(history: History, rng: random.Random) -> History:
    """Values are written repeatedly, and a read shows one that cannot have been the register's value then."""
    start = max(one.completed or one.invoked for one in history) + 1
    register = rng.choice(history).register
    first, second = rng.sample(range(STRANGER + 3, STRANGER + 9), 2)
    values = [first, second, first, second]
    writes = [
        RegisterOperation("write", 2004, start + 4 * place, start + 4 * place + 2, register=register, value=value)
        for place, value in enumerate(values)
    ]
    end = start + 4 * len(values)
    return [*history, *writes, RegisterOperation("read", 2005, end, end + 2, register=register, found=first)]


@dataclass(frozen=True)
class RegisterCase:
    """A way to change a healthy history, and the anomaly that this makes; None for a near-miss.

    `versions` and `repeated` describe the healthy history.
    """

    anomaly: str | None
    change: RegisterInjection
    versions: bool = False
    repeated: int = 0

    def history(self, seed: int, operations: int = 200) -> History:
        healthy = healthy_registers(seed, operations, versions=self.versions, repeated=self.repeated)
        return self.change(healthy, random.Random(f"case/{seed}"))


REGISTER_INJECTIONS: Final[dict[str, RegisterCase]] = {
    "read of a value nobody wrote": RegisterCase("register_phantom", _phantom),
    "read of a failed write": RegisterCase("register_aborted_read", _aborted),
    "read before the write": RegisterCase("register_future_read", _future),
    "read of a replaced value": RegisterCase("stale_register_read", _stale),
    "acknowledged write nobody sees": RegisterCase("lost_register_write", _lost),
    "two cas from one value": RegisterCase("register_double_cas", _double_cas),
    "refusal of what was expected": RegisterCase("register_false_refusal", _false_refusal),
    "one version, two values": RegisterCase("register_version_conflict", _version_conflict, versions=True),
    "later write, lower version": RegisterCase("register_version_regress", _version_regress, versions=True),
    "impossible read of a repeated value": RegisterCase(
        "nonlinearizable_register", _impossible_among_repeated, repeated=5
    ),
}
"""The injections by name: the anomaly that each must raise, and how it is injected."""


# Near-misses ----------------------------------------------------------------------------------------------------------


def _read_overlapping_the_next_write(history: History, rng: random.Random) -> History:
    """A read shows a value that was replaced during the read: it began before the write of the new value had ended."""
    earlier, later = _replaced(history, rng)
    writer = _writers(history)[later.register, later.found or 0]
    return [*history, replace(earlier, process=2001, completed=_ended(writer) + 9)]


def _read_overlapping_its_write(history: History, rng: random.Random) -> History:
    """A read ends before the write of its value ends, but not before that write began."""
    read, writer = rng.choice([pair for pair in _reads(history) if pair[1].f == "write"])
    return [*_swap(history, writer, replace(writer, invoked=0, process=2000)), replace(read, process=2001)]


def _info_write_nobody_reads(history: History, rng: random.Random) -> History:
    return [*history, RegisterOperation("write", 2002, 5, None, "info", register="r0", value=STRANGER)]


def _info_write_that_comes_late(history: History, rng: random.Random) -> History:
    """A write of unknown outcome takes effect after everything else."""
    end = max(one.completed or one.invoked for one in history)
    write = RegisterOperation("write", 2002, 5, None, "info", register="r0", value=STRANGER)
    return [*history, write, RegisterOperation("read", 2003, end + 1, end + 2, register="r0", found=STRANGER)]


def _info_cas_twice(history: History, rng: random.Random) -> History:
    """A second compare-and-set from the same value has an unknown outcome, and its effect is never seen."""
    one = rng.choice([one for one in history if one.f == "cas" and one.type == "ok"])
    return [*history, replace(one, process=2003, value=STRANGER, version=None, type="info", completed=None)]


def _failed_write_nobody_reads(history: History, rng: random.Random) -> History:
    return [*history, RegisterOperation("write", 2004, 5, 9, "fail", register="r0", value=STRANGER)]


def _versions_with_gaps(history: History, rng: random.Random) -> History:
    """Versions grow by more than one."""
    return [one if one.version is None else replace(one, version=7 * one.version) for one in history]


def _some_versions_unknown(history: History, rng: random.Random) -> History:
    return [one if rng.random() < 0.5 else replace(one, version=None) for one in history]


def _untouched(history: History, rng: random.Random) -> History:
    return history


def _refusals_without_reason(history: History, rng: random.Random) -> History:
    """Refusals do not state which value they met."""
    return [replace(one, found=None, version=None) if one.refused else one for one in history]


REGISTER_NEAR_MISSES: Final[dict[str, RegisterCase]] = {
    "a read that overlaps the next write": RegisterCase(None, _read_overlapping_the_next_write),
    "a read that overlaps its write": RegisterCase(None, _read_overlapping_its_write),
    "a write of unknown outcome nobody reads": RegisterCase(None, _info_write_nobody_reads),
    "a write of unknown outcome that comes late": RegisterCase(None, _info_write_that_comes_late),
    "a second cas of unknown outcome": RegisterCase(None, _info_cas_twice),
    "a failed write nobody reads": RegisterCase(None, _failed_write_nobody_reads),
    "versions with gaps": RegisterCase(None, _versions_with_gaps, versions=True),
    "versions that only some answers name": RegisterCase(None, _some_versions_unknown, versions=True),
    "values written again": RegisterCase(None, _untouched, repeated=3),
    "refusals that do not say what they met": RegisterCase(None, _refusals_without_reason),
}
"""Legal histories that resemble an anomaly, by name."""
