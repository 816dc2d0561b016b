"""Forge histories of consumer groups: healthy ones from a seed, each anomaly, and its legal near-misses.

The healthy group goes through generations. In each, its members join at the same time, divide the topic-partitions,
request the positions, poll from there and commit what was delivered; some commits are refused or have an unknown
outcome. A reader without a group reads everything.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from squall.results.checkers.groups.rules import COMMIT, JOIN, NOBODY, NOWHERE, POLL, POSITION
from squall.results.checkers.kernels.operations import FAIL, INFO, OK
from squall.results.history.table_schemas import GROUP_SCHEMA

PARTITIONS: Final = 4
RECORDS: Final = 60
GROUP: Final = 1
UNREAD: Final = 15
"""An offset that the later of two forged commits passes, and the earlier does not."""


@dataclass(frozen=True)
class GroupOperation:
    """One operation with its completion; with `completed` None it has no completion.

    Without a `process`, a free process of the member carries it out (`_processes`).
    """

    f: int
    member: int
    invoked: int
    completed: int | None
    type: int = OK
    group: int = GROUP
    generation: int | None = None
    partition: int | None = None
    position: int | None = None
    assigned: tuple[int, ...] = ()
    delivered: tuple[int, ...] = ()
    process: int | None = None


History = list[GroupOperation]
Injection = Callable[[History, random.Random], History]


def group_table(history: Sequence[GroupOperation]) -> pa.Table:
    """Return the columns of some operations."""
    return pa.table(
        {
            "op_id": list(range(len(history))),
            "process": _processes(history),
            "group": [one.group for one in history],
            "member": [one.member for one in history],
            "f": [one.f for one in history],
            "type": [one.type for one in history],
            "invoked": [one.invoked for one in history],
            "completed": [one.completed for one in history],
            "clock_error": [0] * len(history),
            "generation": [one.generation for one in history],
            "partition": [one.partition for one in history],
            "position": [one.position for one in history],
            "assigned": [one.assigned for one in history],
            "delivered": [one.delivered for one in history],
        },
        schema=GROUP_SCHEMA,
    )


def _processes(history: Sequence[GroupOperation]) -> list[int]:
    """Choose the process of each operation.

    A process does one operation at a time, and no more after one of unknown outcome: its member continues with another
    process, whose number is higher by 100 or more.
    """
    step = max([99, *(one.member for one in history)]) + 1
    chosen = [0] * len(history)
    free: dict[int, float] = {}
    for row in sorted(range(len(history)), key=lambda row: history[row].invoked):
        one = history[row]
        process = one.member
        while one.process is None and free.get(process, one.invoked) > one.invoked:
            process += step
        chosen[row] = process if one.process is None else one.process
        free[chosen[row]] = math.inf if one.completed is None or one.type == INFO else one.completed
    return chosen


class _Group:
    """A correct group, generation by generation."""

    def __init__(self, seed: int, generations: int) -> None:
        self.rng = random.Random(f"group/{seed}")
        self.history: History = []
        self.committed = [NOWHERE] * PARTITIONS
        self.now = 0
        for generation in range(1, generations + 1):
            self._generation(generation)
        for partition in range(PARTITIONS):
            begun = self._tick()
            run = tuple(range(RECORDS))
            self._add(POLL, 99, begun, self._tick(), group=NOBODY, partition=partition, delivered=run)

    def _tick(self) -> int:
        self.now += self.rng.randrange(2, 6)
        return self.now

    def _add(self, f: int, member: int, begun: int, ended: int | None, **facts: object) -> None:
        self.history.append(GroupOperation(f, member, begun, ended, **facts))  # type: ignore[arg-type]

    def _generation(self, generation: int) -> None:
        members = self.rng.sample(range(1, 9), self.rng.randrange(1, 4))
        begun = [self._tick() for _ in members]
        for number, member in enumerate(members):
            given = tuple(one for one in range(PARTITIONS) if one % len(members) == number)
            self._add(JOIN, member, begun[number], self._tick(), generation=generation, assigned=given)
        for number, member in enumerate(members):
            for partition in range(number, PARTITIONS, len(members)):
                self._consume(member, generation, partition)

    def _consume(self, member: int, generation: int, partition: int) -> None:
        position = self.committed[partition]
        begun = self._tick()
        self._add(POSITION, member, begun, self._tick(), partition=partition, position=position)
        at = max(0, position)
        for _ in range(self.rng.randrange(1, 4)):
            end = min(RECORDS, at + self.rng.randrange(1, 8))
            begun = self._tick()
            self._add(POLL, member, begun, self._tick(), partition=partition, delivered=tuple(range(at, end)))
            at = end
            outcome = self.rng.choices((OK, FAIL, INFO), (8, 1, 1))[0]
            begun = self._tick()
            facts = {"generation": generation, "partition": partition, "position": at, "type": outcome}
            self._add(COMMIT, member, begun, None if outcome == INFO else self._tick(), **facts)
            if outcome == OK or (outcome == INFO and self.rng.random() < 0.5):
                self.committed[partition] = at


def healthy_group(seed: int, generations: int = 6) -> History:
    """Return the history of a correct group."""
    return _Group(seed, generations).history


# Anomalies ------------------------------------------------------------------------------------------------------------


def _end_of(history: History) -> int:
    return max(one.completed or one.invoked for one in history) + 10


def _last_generation(history: History) -> int:
    return max(one.generation or 0 for one in history)


def _told(history: History, position: int, partition: int = 0) -> History:
    """A member receives a position after everything else."""
    end = _end_of(history)
    return [*history, GroupOperation(POSITION, 50, end, end + 1, partition=partition, position=position)]


def _two_commits(history: History) -> History:
    """Add two commits of a separate topic-partition, one after the other, after their records were read."""
    end, generation = _end_of(history), _last_generation(history)
    facts = {"partition": 40, "generation": generation}
    read = GroupOperation(POLL, 50, end, end + 1, partition=40, delivered=tuple(range(20)))
    first = GroupOperation(COMMIT, 50, end + 2, end + 3, position=10, **facts)  # type: ignore[arg-type]
    second = GroupOperation(COMMIT, 50, end + 4, end + 5, position=20, **facts)  # type: ignore[arg-type]
    return [*history, read, first, second]


def _stale(history: History, rng: random.Random) -> History:
    return _told(_two_commits(history), 10, 40)


def _forgotten(history: History, rng: random.Random) -> History:
    """A group receives that it has no position, although it had committed one."""
    return _told(_two_commits(history), NOWHERE, 40)


def _went_back(history: History, rng: random.Random) -> History:
    """Of two commits the later has an unknown outcome; once its position was returned, the earlier one is stale."""
    *before, read, first, second = _two_commits(history)
    unknown = replace(second, type=INFO, completed=None)
    return _told(_told([*before, read, first, unknown], 20, 40), 10, 40)


def _invented(history: History, rng: random.Random) -> History:
    return _told(_two_commits(history), 5, 40)


def _refused_but_stored(history: History, rng: random.Random) -> History:
    *before, second = _two_commits(history)
    return _told([*before, replace(second, type=FAIL)], 20, 40)


def _shared(history: History, rng: random.Random) -> History:
    """A member is assigned a topic-partition of another member, in the same generation."""
    joins = [one for one in history if one.f == JOIN]
    one = rng.choice([one for one in joins if one.assigned])
    other = replace(one, member=60, assigned=(rng.choice(one.assigned),))
    return [*history, other]


def _old_generation(history: History, rng: random.Random) -> History:
    end, newest = _end_of(history), _last_generation(history)
    return [*history, GroupOperation(JOIN, 60, end, end + 5, generation=newest - rng.randrange(1, newest))]


def _zombie(history: History, rng: random.Random) -> History:
    """A member of an older generation commits what was delivered to it, and is not refused."""
    *before, first, second = _two_commits(history)
    return [*before, first, replace(second, generation=_last_generation(history) - 1)]


def _ahead(history: History, rng: random.Random) -> History:
    """A commit passes a record that was not delivered to the group."""
    *before, read, first, second = _two_commits(history)
    gap = rng.randrange(1, 20)
    short = replace(read, delivered=tuple(one for one in read.delivered if one != gap))
    return [*before, replace(read, group=NOBODY, member=70), short, first, second]


def _unknown(commit: GroupOperation) -> GroupOperation:
    return replace(commit, type=INFO, completed=None)


def _zombie_told(history: History, rng: random.Random) -> History:
    """Whether a zombie's commit was refused is unknown until its position is returned."""
    *before, commit = _zombie(history, rng)
    return _told([*before, _unknown(commit)], 20, 40)


def _unknown_ahead(history: History, rng: random.Random) -> History:
    """The later of two commits, of unknown outcome, passes a record that was not delivered to the group."""
    *before, read, first, second = _two_commits(history)
    short = replace(read, delivered=tuple(one for one in read.delivered if one != UNREAD))
    return [*before, replace(read, group=NOBODY, member=70), short, first, _unknown(second)]


def _ahead_told(history: History, rng: random.Random) -> History:
    """Whether a commit ahead of delivery was done is unknown until its position is returned."""
    return _told(_unknown_ahead(history, rng), 20, 40)


INJECTIONS: Final[dict[str, tuple[str, Injection]]] = {
    "position of yesterday": ("stale_commit", _stale),
    "position forgotten": ("stale_commit", _forgotten),
    "position that went back": ("stale_commit", _went_back),
    "position nobody committed": ("phantom_commit", _invented),
    "refused commit stored": ("phantom_commit", _refused_but_stored),
    "two owners": ("double_assignment", _shared),
    "older generation": ("generation_regress", _old_generation),
    "commit of a zombie": ("zombie_commit", _zombie),
    "unknown commit of a zombie": ("zombie_commit", _zombie_told),
    "commit ahead of delivery": ("commit_ahead", _ahead),
    "unknown commit ahead of delivery": ("commit_ahead", _ahead_told),
}


def _unknown_commit_late(history: History, rng: random.Random) -> History:
    """A commit of unknown outcome that takes effect after another."""
    *before, read, first, second = _two_commits(history)
    unknown = replace(first, type=INFO, completed=None)
    return _told(_told([*before, read, unknown, second], 20, 40), 10, 40)


def _asked_meanwhile(history: History, rng: random.Random) -> History:
    """A position requested while a commit is in flight may be the old one."""
    spoilt = _two_commits(history)
    second = spoilt[-1]
    asked = GroupOperation(POSITION, 51, second.invoked, second.invoked + 9, partition=40, position=10)
    return [*spoilt, asked]


def _same_generation_again(history: History, rng: random.Random) -> History:
    """A member that joins again gets the same generation and assignment."""
    newest = [one for one in history if one.f == JOIN and one.generation == _last_generation(history)]
    one, end = rng.choice(newest), _end_of(history)
    return [*history, replace(one, invoked=end, completed=end + 5)]


def _handed_over(history: History, rng: random.Random) -> History:
    """Another member has the topic-partition, in the next generation."""
    one, end = rng.choice([one for one in history if one.f == JOIN]), _end_of(history)
    generation = _last_generation(history) + 1
    return [*history, replace(one, member=60, invoked=end, completed=end + 5, generation=generation)]


def _zombie_refused(history: History, rng: random.Random) -> History:
    *before, commit = _zombie(history, rng)
    return [*before, replace(commit, type=FAIL)]


def _zombie_just_before(history: History, rng: random.Random) -> History:
    """A commit that was invoked before the next generation was complete."""
    *before, commit = _zombie(history, rng)
    newer = GroupOperation(JOIN, 60, 1, commit.invoked, generation=_last_generation(history) + 1)
    return [*before, replace(commit, generation=_last_generation(history)), newer]


def _begins_in_the_midst(history: History, rng: random.Random) -> History:
    """A group that starts in the middle of the log need not receive the records before."""
    *before, read, first, second = _two_commits(history)
    return [*before, replace(read, group=NOBODY), replace(read, delivered=read.delivered[5:]), first, second]


def _zombie_untold(history: History, rng: random.Random) -> History:
    """A zombie's commit of unknown outcome that was refused, as far as later responses show."""
    *before, commit = _zombie(history, rng)
    return _told([*before, _unknown(commit)], 10, 40)


def _zombie_not_alone(history: History, rng: random.Random) -> History:
    """A member of the new generation committed the zombie's position, too; both outcomes are unknown."""
    *before, commit = _zombie(history, rng)
    other = replace(commit, member=51, generation=_last_generation(history))
    return _told([*before, _unknown(commit), _unknown(other)], 20, 40)


def _ahead_untold(history: History, rng: random.Random) -> History:
    """A commit of unknown outcome and ahead of delivery that was not done, as far as later responses show."""
    return _told(_unknown_ahead(history, rng), 10, 40)


def _late_and_no_longer_ahead(history: History, rng: random.Random) -> History:
    """What a commit of unknown outcome passed was delivered to another member before its position was returned."""
    spoilt = _unknown_ahead(history, rng)
    end = _end_of(spoilt)
    return _told([*spoilt, GroupOperation(POLL, 51, end, end + 1, partition=40, delivered=(UNREAD,))], 20, 40)


NEAR_MISSES: Final[dict[str, Injection]] = {
    "a commit of unknown outcome that comes true late": _unknown_commit_late,
    "a position asked for during a commit": _asked_meanwhile,
    "the same generation again": _same_generation_again,
    "a topic-partition handed over": _handed_over,
    "a zombie that is refused": _zombie_refused,
    "a commit of a zombie that was never told": _zombie_untold,
    "the same commit of a zombie and of the new generation": _zombie_not_alone,
    "a commit just before a new generation": _zombie_just_before,
    "a commit ahead of delivery that was never told": _ahead_untold,
    "a commit ahead of delivery that comes true late": _late_and_no_longer_ahead,
    "a group that begins in the midst of the log": _begins_in_the_midst,
}
