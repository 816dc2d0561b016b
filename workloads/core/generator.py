"""Generators: decide the next operation, as pure values (after Jepsen's).

The interpreter calls `op(context)`, which returns an *answer*, one of

    an Operation        do this now (`at` is the intended time, never later than `context.now`)
    Pending(until)      nothing now: call again at `until`, or after the next event if that is None
    None                exhausted: never anything again

together with the generator that replaces it; the old one is unchanged. The generator receives every invocation and
completion through `update(context, event)`, which also returns a generator. Time, free threads and processes come only
from the context, so a generator needs no world: tests drive it by hand, hosts and the simulation by
`harness/scenario/interpreter.py`, and the same seed gives the same operations.

Laws. `op` is called only while a context holds; an answer that is not carried out is dropped together with its
successor. Threads are numbers; sets of them are bit masks in an int, which makes a context a cheap value. Combinators
never inspect each other. Production, too, checks every answer by the rules of `Validated`: a broken generator must stop
a run, not distort a verdict. Objects made for every operation are structs and not dataclasses, which cost ten times as
much; an `update` that changes nothing returns the generator itself.

Randomness (`Mix`, `Stagger`) is counted, not drawn: the n-th choice is a function of (seed, n).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from operator import is_
from typing import Protocol

import msgspec

from squall.workloads.core.operation import FUNCTIONS, MARKER, OK, POLL, SEEK, SEND, Event, Operation, unique_value

NANOSECONDS = 1_000_000_000
SEEK_BACK = 1000
"""The most records that a seek goes back."""
_UNTIL_TOLD = 2**63 - 1
_EXHAUSTED = 2**63


class Context(msgspec.Struct, frozen=True, gc=False):
    """What a generator may know: the time, which threads are free, and their processes and clients.

    `free` is a bit mask of the free threads among `threads`; `processes` and `clients` are indexed by thread number;
    `last` is the thread that received work most recently, so that work rotates over the threads.
    """

    now: int
    free: int
    threads: int
    processes: Mapping[int, int]
    clients: Mapping[int, int]
    last: int = -1
    at: int = -1

    def meant(self) -> int:
        """The intended start of an operation made now."""
        return self.now if self.at < 0 else self.at

    def free_thread(self) -> int | None:
        """The next free thread after the last used one, in rotation."""
        if not self.free:
            return None
        above = self.free >> (self.last + 1) << (self.last + 1)
        mask = above or self.free
        return (mask & -mask).bit_length() - 1

    def only(self, threads: int) -> Context:
        """The same context, restricted to some threads."""
        return Context(
            self.now,
            self.free & threads,
            self.threads & threads,
            self.processes,
            self.clients,
            self.last,
            self.at,
        )

    def meant_at(self, at: int) -> Context:
        """The same context, for an operation that was due at `at`."""
        return Context(self.now, self.free, self.threads, self.processes, self.clients, self.last, at)

    def all_free(self) -> bool:
        return self.free == self.threads


class Pending(msgspec.Struct, frozen=True, gc=False):
    """Nothing to do now. `until` is when to call again; None means after the next event."""

    until: int | None = None


WAIT = Pending()
Answer = Operation | Pending | None


class Generator(Protocol):
    def op(self, context: Context) -> tuple[Answer, Generator]: ...

    def update(self, context: Context, event: Event) -> Generator: ...


class GeneratorError(Exception):
    """A generator broke a rule; the message states which and how."""


def threads_mask(threads: Sequence[int]) -> int:
    """A bit mask with these threads."""
    mask = 0
    for thread in threads:
        mask |= 1 << thread
    return mask


def random_fraction(seed: int, count: int) -> float:
    """The `count`-th number in [0, 1) of a seed (splitmix64)."""
    state = (seed * 0x9E3779B97F4A7C15 + (count + 1) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    state = ((state ^ state >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return ((state ^ state >> 31) >> 11) / (1 << 53)


# --- sources --------------------------------------------------------------------------------------


class Writes(msgspec.Struct, frozen=True):
    """Write the next unique value to one topic-partition, for ever."""

    topic: str
    partition: int
    f: str = SEND
    counter: int = 0

    def op(self, context: Context) -> tuple[Answer, Generator]:
        thread = context.free_thread()
        if thread is None:
            return WAIT, self
        process = context.processes[thread]
        value = unique_value(process, self.counter)
        operation = Operation(
            self.f,
            thread,
            process,
            context.clients[thread],
            context.meant(),
            self.topic,
            self.partition,
            value,
        )
        return operation, Writes(self.topic, self.partition, self.f, self.counter + 1)

    def update(self, context: Context, event: Event) -> Generator:
        return self


class Reads(msgspec.Struct, frozen=True):
    """Poll one topic-partition, or request its offsets, for ever."""

    topic: str
    partition: int
    f: str = POLL

    def op(self, context: Context) -> tuple[Answer, Generator]:
        thread = context.free_thread()
        if thread is None:
            return WAIT, self
        operation = Operation(
            self.f,
            thread,
            context.processes[thread],
            context.clients[thread],
            context.meant(),
            self.topic,
            self.partition,
        )
        return operation, self

    def update(self, context: Context, event: Event) -> Generator:
        return self


class Seeks(msgspec.Struct, frozen=True):
    """Send a process back to one of the last `SEEK_BACK` records of a topic-partition that have been read, for ever.

    The target is computed from `seed` and `count`.
    """

    topic: str
    partition: int
    seed: int = 0
    reached: int = -1
    """The highest offset that a poll has delivered."""
    count: int = 0

    def op(self, context: Context) -> tuple[Answer, Generator]:
        thread = context.free_thread()
        if thread is None:
            return WAIT, self
        back = random_fraction(self.seed, self.count) * min(self.reached + 1, SEEK_BACK)
        operation = Operation(
            SEEK,
            thread,
            context.processes[thread],
            context.clients[thread],
            context.meant(),
            self.topic,
            self.partition,
            max(0, self.reached - int(back)),
        )
        return operation, msgspec.structs.replace(self, count=self.count + 1)

    def update(self, context: Context, event: Event) -> Generator:
        offsets = () if event.completion is None else event.completion.offsets
        if not offsets or offsets[-1] <= self.reached:
            return self
        return msgspec.structs.replace(self, reached=offsets[-1])


# --- shaping in number and time -------------------------------------------------------------------


class Limit(msgspec.Struct, frozen=True):
    """At most so many operations."""

    remaining: int
    generator: Generator

    def op(self, context: Context) -> tuple[Answer, Generator]:
        if self.remaining <= 0:
            return None, self
        answer, after = self.generator.op(context)
        spent = 1 if isinstance(answer, Operation) else 0
        return answer, Limit(self.remaining - spent, after)

    def update(self, context: Context, event: Event) -> Generator:
        after = self.generator.update(context, event)
        return self if after is self.generator else Limit(self.remaining, after)


class Rate(msgspec.Struct, frozen=True):
    """An open-loop schedule: the n-th operation is due n/rate seconds after the first, however slow the system is.

    While no thread is free, due operations queue up and keep their intended times, so that latency includes the wait. A
    queue longer than `patience` nanoseconds is cut: load that could not be offered is not reported as offered.
    """

    per_second: float
    generator: Generator
    patience: int = 5 * NANOSECONDS
    origin: int = -1
    count: int = 0

    def op(self, context: Context) -> tuple[Answer, Generator]:
        if self.origin < 0:
            return Rate(self.per_second, self.generator, self.patience, context.now, 0).op(context)
        due = self.origin + int(self.count * NANOSECONDS / self.per_second)
        if due > context.now:
            return Pending(due), self
        if due < context.now - self.patience:
            started = Rate(self.per_second, self.generator, self.patience, context.now - self.patience // 2, 0)
            return started.op(context)
        answer, after = self.generator.op(context.meant_at(due))
        spent = 1 if isinstance(answer, Operation) else 0
        return answer, Rate(self.per_second, after, self.patience, self.origin, self.count + spent)

    def update(self, context: Context, event: Event) -> Generator:
        after = self.generator.update(context, event)
        if after is self.generator:
            return self
        return Rate(self.per_second, after, self.patience, self.origin, self.count)


@dataclass(frozen=True, slots=True)
class Stagger:
    """Operations at random intervals with this mean: a Poisson process, seeded."""

    mean: float
    seed: int
    generator: Generator
    due: int = -1
    count: int = 0

    def op(self, context: Context) -> tuple[Answer, Generator]:
        due = context.now if self.due < 0 else self.due
        if due > context.now:
            return Pending(due), self
        answer, after = self.generator.op(context.meant_at(due))
        if not isinstance(answer, Operation):
            return answer, replace(self, generator=after, due=due)
        gap = -log(1.0 - random_fraction(self.seed, self.count)) * self.mean
        return answer, replace(self, generator=after, due=due + int(gap * NANOSECONDS), count=self.count + 1)

    def update(self, context: Context, event: Event) -> Generator:
        return replace(self, generator=self.generator.update(context, event))


class TimeLimit(msgspec.Struct, frozen=True):
    """No new operations once this many seconds have passed since the first call of `op`."""

    seconds: float
    generator: Generator
    end: int = -1

    def op(self, context: Context) -> tuple[Answer, Generator]:
        end = self.end if self.end >= 0 else context.now + int(self.seconds * NANOSECONDS)
        if context.now >= end:
            return None, self
        answer, after = self.generator.op(context)
        if isinstance(answer, Pending):
            answer = Pending(end if answer.until is None else min(end, answer.until))
        return answer, TimeLimit(self.seconds, after, end)

    def update(self, context: Context, event: Event) -> Generator:
        after = self.generator.update(context, event)
        return self if after is self.generator else TimeLimit(self.seconds, after, self.end)


@dataclass(frozen=True, slots=True)
class Until:
    """The inner generator, until an event satisfies the condition."""

    reached: Callable[[Event], bool]
    generator: Generator
    ended: bool = False

    def op(self, context: Context) -> tuple[Answer, Generator]:
        if self.ended:
            return None, self
        answer, after = self.generator.op(context)
        return answer, Until(self.reached, after)

    def update(self, context: Context, event: Event) -> Generator:
        ended = self.ended or self.reached(event)
        return Until(self.reached, self.generator.update(context, event), ended)


def acknowledged(event: Event) -> bool:
    """A condition for `Until`: an operation completed ok."""
    return event.completion is not None and event.completion.type == OK


def until_acknowledged(topic: str, partition: int) -> Generator:
    """Write new marker values, one at a time, until one is acknowledged."""
    return Until(acknowledged, OneAtATime(Writes(topic, partition, MARKER)))


@dataclass(frozen=True, slots=True)
class OneAtATime:
    """The inner generator, but no new operation while one of its operations is open."""

    generator: Generator
    open: bool = False

    def op(self, context: Context) -> tuple[Answer, Generator]:
        if self.open:
            return WAIT, self
        answer, after = self.generator.op(context)
        return answer, OneAtATime(after, isinstance(answer, Operation))

    def update(self, context: Context, event: Event) -> Generator:
        return OneAtATime(self.generator.update(context, event), event.completion is None)


# --- combining ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Phases:
    """One generator after the other; the next begins when every thread is free again."""

    generators: tuple[Generator, ...]

    def op(self, context: Context) -> tuple[Answer, Generator]:
        if not self.generators:
            return None, self
        answer, after = self.generators[0].op(context)
        if answer is not None:
            return answer, Phases((after, *self.generators[1:]))
        if not context.all_free():
            return WAIT, self
        return Phases(self.generators[1:]).op(context)

    def update(self, context: Context, event: Event) -> Generator:
        if not self.generators:
            return self
        return Phases((self.generators[0].update(context, event), *self.generators[1:]))


class Mix(msgspec.Struct, frozen=True):
    """Each time one of these, chosen at random, until all are exhausted."""

    seed: int
    generators: tuple[Generator, ...]
    count: int = 0

    def op(self, context: Context) -> tuple[Answer, Generator]:
        if not self.generators:
            return None, self
        chosen = int(random_fraction(self.seed, self.count) * len(self.generators))
        answer, after = self.generators[chosen].op(context)
        before, behind = self.generators[:chosen], self.generators[chosen + 1 :]
        if answer is None:
            return Mix(self.seed, before + behind, self.count).op(context)
        spent = 1 if isinstance(answer, Operation) else 0
        return answer, Mix(self.seed, (*before, after, *behind), self.count + spent)

    def update(self, context: Context, event: Event) -> Generator:
        after = tuple([one.update(context, event) for one in self.generators])
        return self if all(map(is_, after, self.generators)) else Mix(self.seed, after, self.count)


class Reserve(msgspec.Struct, frozen=True):
    """Several generators side by side, each with its own threads: none can starve another.

    Shares take turns, so that a share that always has an operation leaves room for the rest. Shares must not overlap.

    A share is called only when its answer may have changed: it received an event of its threads, the time it returned
    has come, or it was never called. A share without a free thread is not called, since an event of its threads must
    come first. `quiet` holds, for each share, the time until which it need not be called (`_EXHAUSTED`: never again).
    """

    shares: tuple[tuple[int, Generator], ...]
    turn: int = 0
    quiet: tuple[int, ...] = ()
    awake: int = -1
    """A bit mask of the shares to call at any time; -1 for all."""
    nearest: int = -1
    """The earliest time, or an earlier bound of it, at which one of the other shares is due."""
    owners: Mapping[int, int] = msgspec.field(default_factory=dict)
    """The share of each thread; all successors have the same mapping."""

    def op(self, context: Context) -> tuple[Answer, Generator]:
        now, free = context.now, context.free
        shares, size = self.shares, len(self.shares)
        quiet: Sequence[int] = self.quiet or (-1,) * size
        noted: list[int] | None = None
        everybody = now >= self.nearest or self.awake < 0
        awake = (1 << size) - 1 if everybody else self.awake
        nearest = _EXHAUSTED if everybody else self.nearest
        changed: list[tuple[int, Generator]] | None = None
        for index in _round(awake, self.turn):
            threads, generator = shares[index]
            if quiet[index] > now:
                nearest = min(nearest, quiet[index])
                awake &= ~(1 << index)
                continue
            if not free & threads:
                continue
            answer, after = generator.op(context.only(threads))
            if isinstance(answer, Operation):
                if after is not generator:
                    changed = changed or list(shares)
                    changed[index] = (threads, after)
                # Shares not called yet are called next time, at this time or later.
                return answer, Reserve(
                    tuple(changed or shares), (index + 1) % size, tuple(quiet), awake, nearest, self.owners
                )
            awake &= ~(1 << index)
            if noted is None:
                quiet = noted = list(quiet)
            if answer is None:
                noted[index] = _EXHAUSTED
                continue
            noted[index] = _UNTIL_TOLD if answer.until is None else answer.until
            nearest = min(nearest, noted[index])
            if after is not generator:
                changed = changed or list(shares)
                changed[index] = (threads, after)
        if not awake and all(one == _EXHAUSTED for one in quiet):
            return None, self
        after_all = Reserve(tuple(changed or shares), self.turn, tuple(quiet), awake, nearest, self.owners)
        return WAIT if nearest >= _UNTIL_TOLD else Pending(nearest), after_all

    def update(self, context: Context, event: Event) -> Generator:
        if not self.owners:
            owners = {thread: index for index, (threads, _) in enumerate(self.shares) for thread in _threads(threads)}
            return Reserve(self.shares, self.turn, self.quiet, self.awake, self.nearest, owners).update(context, event)
        index = self.owners.get(event.operation.thread)
        if index is None:
            return self
        threads, generator = self.shares[index]
        after = generator.update(context.only(threads), event)
        told = bool(self.quiet) and self.quiet[index] not in (-1, _EXHAUSTED)
        if after is generator and not told:
            return self
        shares, quiet, awake = self.shares, self.quiet, self.awake
        if after is not generator:
            shares = (*shares[:index], (threads, after), *shares[index + 1 :])
        if told:
            quiet = (*quiet[:index], -1, *quiet[index + 1 :])
            awake = awake if awake < 0 else awake | 1 << index
        return Reserve(shares, self.turn, quiet, awake, self.nearest, self.owners)


def _round(mask: int, first: int) -> Iterator[int]:
    """The numbers in a bit mask from `first` on, and then those before it."""
    above = mask >> first << first
    for part in (above, mask ^ above):
        while part:
            lowest = part & -part
            yield lowest.bit_length() - 1
            part ^= lowest


def _threads(mask: int) -> Iterator[int]:
    return _round(mask, 0)


def each_thread(threads: Sequence[int], make: Callable[[int], Generator]) -> Reserve:
    """A separate generator for every thread."""
    return Reserve(tuple((1 << thread, make(thread)) for thread in threads))


@dataclass(frozen=True, slots=True)
class InOrder:
    """One generator after the other, without waiting for free threads in between."""

    generators: tuple[Generator, ...] = field(default=())

    def op(self, context: Context) -> tuple[Answer, Generator]:
        if not self.generators:
            return None, self
        answer, after = self.generators[0].op(context)
        if answer is None:
            return InOrder(self.generators[1:]).op(context)
        return answer, InOrder((after, *self.generators[1:]))

    def update(self, context: Context, event: Event) -> Generator:
        if not self.generators:
            return self
        return InOrder((self.generators[0].update(context, event), *self.generators[1:]))


# --- validation -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Validated:
    """Passes everything through and raises GeneratorError at the first answer that breaks a rule."""

    generator: Generator

    def op(self, context: Context) -> tuple[Answer, Generator]:
        answer, after = self.generator.op(context)
        if isinstance(answer, Operation):
            self.check(answer, context)
        return answer, Validated(after)

    def update(self, context: Context, event: Event) -> Generator:
        after = self.generator.update(context, event)
        return self if after is self.generator else Validated(after)

    @staticmethod
    def check(operation: Operation, context: Context) -> None:
        if not context.free >> operation.thread & 1:
            raise GeneratorError(f"{operation}: thread {operation.thread} is not free")
        if operation.process != context.processes[operation.thread]:
            raise GeneratorError(
                f"{operation}: thread {operation.thread} is process {context.processes[operation.thread]}"
            )
        if operation.at > context.now:
            raise GeneratorError(f"{operation}: meant for later than now, {context.now}; answer Pending")
        if operation.f not in FUNCTIONS:
            raise GeneratorError(f"{operation}: unknown function {operation.f!r}")
