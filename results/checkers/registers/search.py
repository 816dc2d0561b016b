"""Search for a linearization of one register: exact for any values, within a budget.

This is the fallback of zones.

Just-in-time linearization (Lowe 2017, and Knossos' `linear`). The history is read in order of time with all
*configurations* that it allows so far: what the register holds, which of the open operations have taken effect, and
which changes of unknown outcome. Nothing takes effect before it must: when an operation ends, every configuration in
which it has not taken effect is developed until it has, or is dropped. If none is left, the history is not
linearizable, and the operation that just ended shows it.

Four reductions, all exact, keep the number of configurations small:

reads       an open read that is legal now takes effect at once, since it changes nothing;
twins       of open changes that do the same, the one that must end first takes effect first;
less spent  of two configurations that differ only in changes of unknown outcome, the one that used fewer of these can
            do everything that the other can;
not yet     a change of unknown outcome takes effect only if an open operation is there to meet its value, since it
            may as well come just before the first one that does.

Besides, changes of unknown outcome whose value was never met are left out, unless some refusal does not state what it
met, and a configuration is dropped as soon as a change with a higher version has passed an open operation that names a
lower one. Versions are compared, not counted.

The number of configurations may still grow exponentially with the number of operations open at a time. A budget of
steps and seconds ends that; the outcome is then None, *unknown*, and says how far the search came.
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from squall.results.checkers.registers.operations import ABSENT, NEVER, NONE

READ: Final = 0
WRITE: Final = 1
CAS: Final = 2
REFUSED: Final = 3
"""A compare-and-set that was refused and does not state what it met."""

STEPS_BETWEEN_LOOKS: Final = 512


class State(NamedTuple):
    """What a register holds. `exact` means that its version is `version`; otherwise its version is above that."""

    value: int
    version: int = NONE
    exact: bool = False


class Step(NamedTuple):
    """An operation in the search.

    `value` is what is written or met, `expected` what must be there (or, when refused, must not). `row` is for the
    caller.
    """

    kind: int
    value: int
    expected: int
    version: int
    invoked: int
    completed: int
    row: int

    @property
    def must(self) -> bool:
        """Whether it certainly took effect."""
        return self.completed != NEVER


class Start(NamedTuple):
    """An initial configuration: the state, and the rows of changes of unknown outcome already used."""

    state: State
    used: frozenset[int] = frozenset()


FRESH: Final = (Start(State(ABSENT)),)


@dataclass(frozen=True)
class Budget:
    """What a search may cost before it ends in unknown."""

    steps: int = 2_000_000
    seconds: float = 10.0


@dataclass(frozen=True)
class SearchOutcome:
    """The outcome of a search; `linearizable` None means that the budget was spent.

    `row` is the operation at whose end no configuration was left, or at which the search stopped. `before` are the
    configurations at the last moment before that at which no operation was open, `since` that moment. `passed`
    operations had been put in order.
    """

    linearizable: bool | None
    steps: int
    row: int = -1
    before: tuple[Start, ...] = ()
    since: int = NONE
    passed: int = 0
    most_open: int = 0


class _Spent(Exception):
    """The budget is spent."""


def search(
    steps: Iterable[Step],
    starts: Sequence[Start] = FRESH,
    budget: Budget | None = None,
    *,
    look_ahead: bool = True,
) -> SearchOutcome:
    """Decide whether these operations on one register can be put in an order that respects time, from one of `starts`.

    Without `look_ahead`, versions of operations that have not ended are not considered: more steps, but a failure then
    shows at the end of the first operation with which it is certain.
    """
    return _Search(relevant(list(steps)), starts, budget or Budget(), look_ahead).run()


def relevant(steps: list[Step]) -> list[Step]:
    """Remove changes of unknown outcome that can explain nothing."""
    if any(one.kind == REFUSED for one in steps):
        return steps
    certain = [one for one in steps if one.must or one.kind == READ]
    doubtful = [one for one in steps if not one.must and one.kind != READ]
    met = {one.value if one.kind == READ else one.expected for one in certain if one.kind in (READ, CAS)}
    while more := {one.expected for one in doubtful if one.kind == CAS and one.value in met} - met:
        met |= more
    kept = {one.row for one in doubtful if one.value in met}
    return [one for one in steps if one.must or one.kind == READ or one.row in kept]


@dataclass
class _Open:
    """Open operations by what they do: bits of reads by what they meet, and queues of twins."""

    reads: dict[tuple[int, int], int] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)
    any_refused: int = 0
    twins: dict[tuple[int, int, int, int], list[tuple[int, int, int]]] = field(default_factory=dict)
    versioned: dict[int, int] = field(default_factory=dict)  # bit of an operation that must take effect → its version

    def add(self, step: Step, bit: int) -> None:
        if step.kind == READ:
            key = (step.value, step.version)
            self.reads[key] = self.reads.get(key, 0) | bit
        elif step.kind == REFUSED:
            self.refused[step.expected] = self.refused.get(step.expected, 0) | bit
            self.any_refused |= bit
        else:
            queue = self.twins.setdefault(step[:4], [])
            insort(queue, (step.completed, step.invoked, bit))
        if step.must and step.version != NONE:
            self.versioned[bit] = step.version

    def remove(self, step: Step, bit: int) -> None:
        if step.kind == READ:
            self.reads[step.value, step.version] &= ~bit
        elif step.kind == REFUSED:
            self.refused[step.expected] &= ~bit
            self.any_refused &= ~bit
        else:
            queue = self.twins[step[:4]]
            queue.remove((step.completed, step.invoked, bit))
            if not queue:
                del self.twins[step[:4]]
        self.versioned.pop(bit, None)


Configuration = tuple[State, int, int]
"""What the register holds, bits of open operations that took effect, bits of spent changes of unknown outcome."""


class _Search:
    def __init__(self, steps: list[Step], starts: Sequence[Start], budget: Budget, look_ahead: bool) -> None:
        self.steps = steps
        self.look_ahead = look_ahead
        self.budget = budget
        self.open = _Open()
        self.bits: dict[int, int] = {}
        self.free: list[int] = []
        self.wanted = 0  # bits of changes of unknown outcome
        self.next_bit = 1
        self.spent_steps = 0
        self.deadline = time.monotonic() + budget.seconds
        self.starts = starts
        self.row_of: dict[int, int] = {}

    def run(self) -> SearchOutcome:
        events = sorted(
            [(one.invoked, 0, number) for number, one in enumerate(self.steps)]
            + [(one.completed, 1, number) for number, one in enumerate(self.steps) if one.must]
        )
        doubtful = sorted((one.row, number) for number, one in enumerate(self.steps) if not one.must)
        for _, number in doubtful:
            self._number(number)
            self.wanted |= self.bits[number]
        of_row = {row: self.bits[number] for row, number in doubtful}
        configurations: set[Configuration] = {
            (one.state, 0, sum(of_row.get(row, 0) for row in one.used)) for one in self.starts
        }
        quiet, since = configurations, NONE
        open_now = most_open = passed = 0
        for moment, ends, number in events:
            step = self.steps[number]
            if not ends:
                if step.must:
                    if not open_now:
                        quiet, since = configurations, moment
                    self._number(number)
                    open_now += 1
                    most_open = max(most_open, open_now)
                self.open.add(step, self.bits[number])
                continue
            try:
                configurations = self._through(configurations, number)
            except _Spent:
                return SearchOutcome(None, self.spent_steps, step.row, (), since, passed, most_open)
            if not configurations:
                before = tuple(self._start(one) for one in quiet)
                return SearchOutcome(False, self.spent_steps, step.row, before, since, passed, most_open)
            open_now -= 1
            passed += 1
        return SearchOutcome(True, self.spent_steps, passed=passed, most_open=most_open)

    def _number(self, number: int) -> None:
        if self.free and self.steps[number].must:
            self.bits[number] = self.free.pop()
        else:
            self.bits[number] = self.next_bit
            self.next_bit <<= 1
        self.row_of[self.bits[number]] = self.steps[number].row

    def _start(self, configuration: Configuration) -> Start:
        used = configuration[2]
        return Start(configuration[0], frozenset(row for bit, row in self.row_of.items() if bit & used & self.wanted))

    def _through(self, configurations: set[Configuration], number: int) -> set[Configuration]:
        """Pass the end of an operation: return the configurations in which it has taken effect, without its bit."""
        bit = self.bits.pop(number)
        reached: dict[tuple[State, int], list[int]] = {}
        stack = []
        for state, taken, used in configurations:
            if taken & bit:
                _keep(reached, (state, taken & ~bit), used)
            else:
                stack.append((state, taken, used))
        visited: dict[tuple[State, int], list[int]] = {}
        while stack:
            self._count()
            state, taken, used = stack.pop()
            taken |= self._legal_reads(state)
            if taken & bit:
                _keep(reached, (state, taken & ~bit), used)
                continue
            if _keep(visited, (state, taken), used):
                self._develop(state, taken, used, stack)
        self.open.remove(self.steps[number], bit)
        self.free.append(bit)
        return {(state, taken, used) for (state, taken), many in reached.items() for used in many}

    def _count(self) -> None:
        self.spent_steps += 1
        if self.spent_steps > self.budget.steps or (
            self.spent_steps % STEPS_BETWEEN_LOOKS == 0 and time.monotonic() > self.deadline
        ):
            raise _Spent

    def _legal_reads(self, state: State) -> int:
        """Bits of open reads and refusals that are legal now and change nothing."""
        opened = self.open
        legal = opened.reads.get((state.value, NONE), 0)
        if state.exact:
            legal |= opened.reads.get((state.value, state.version), 0)
        if opened.any_refused:
            legal |= opened.any_refused & ~opened.refused.get(state.value, 0)
        return legal

    def _develop(self, state: State, taken: int, used: int, stack: list[Configuration]) -> None:
        """Let one more operation take effect: each kind of change once, and reads that state the version."""
        gone = taken | used
        for (kind, value, expected, version), queue in self.open.twins.items():
            if kind == CAS and expected != state.value:
                continue
            bit = next((bit for _, _, bit in queue if not gone & bit), 0)
            if not bit or (version != NONE and version <= state.version):
                continue
            after = State(value, version, True) if version != NONE else State(value, state.version, False)
            if self.look_ahead and version != NONE and self._passed_by(version, gone | bit):
                continue
            if bit & self.wanted:
                if self._needed(after.value, gone | bit):
                    stack.append((after, taken, used | bit))
            else:
                stack.append((after, taken | bit, used))
        if not state.exact:
            for (value, version), bits in self.open.reads.items():
                if bits & ~taken and value == state.value and version > state.version and version != NONE:
                    stack.append((State(value, version, True), taken, used))

    def _needed(self, value: int, gone: int) -> bool:
        """Whether some open operation would meet this value: otherwise nothing is lost by applying it later."""
        opened = self.open
        if opened.any_refused & ~opened.refused.get(value, 0) & ~gone:
            return True
        if any(met == value and bits & ~gone for (met, _), bits in opened.reads.items()):
            return True
        return any(
            kind == CAS and expected == value and any(not bit & gone for _, _, bit in queue)
            for (kind, _, expected, _), queue in opened.twins.items()
        )

    def _passed_by(self, version: int, gone: int) -> bool:
        """Whether an operation that must still take effect has a lower version."""
        return any(lower < version and not bit & gone for bit, lower in self.open.versioned.items())


def _keep(known: dict[tuple[State, int], list[int]], key: tuple[State, int], used: int) -> bool:
    """Keep only the smallest sets of spent changes. Returns whether this one was kept."""
    many = known.get(key)
    if many is None:
        known[key] = [used]
        return True
    if any(one & used == one for one in many):
        return False
    many[:] = [one for one in many if used & one != used]
    many.append(used)
    return True
