"""Check consumer groups: who owns what, and which position a group receives (G1 to G5 below).

A group's members join generations, each of which gives every topic-partition to at most one member; they commit
positions (the offset of the next record they want) and receive the group's position when they start. The rules:

double_assignment   in one generation a topic-partition belongs to one member only
generation_regress  a member that joins when a generation was complete for some member does not get an older one
zombie_commit       a commit of an older generation is refused once a newer one is complete for some member; one of
                    unknown outcome that was certainly done (see stale_commit) was not refused
phantom_commit      a position that a group receives was committed, or the group receives that there is none
stale_commit        it was not already replaced: no commit that lies wholly between the commit of that position and
                    the request. A commit of unknown outcome may take effect late; once a position was returned that
                    only one commit can have put there, that commit was done by then. A returned position of none is
                    stale once any commit was done. Where no position was committed twice, this is decided exactly: the
                    times from a position's first completion to its last invocation must not overlap with another's
commit_ahead        when a commit was certainly done (see stale_commit), every record below its position that was ever
                    delivered had been requested, by then, by some poll of a member that delivered it. Records below
                    the first that was delivered to the group are exempt, and so is everything after a poll of the
                    group of unknown outcome

A refused commit, a commit of unknown outcome that is never seen, and records delivered twice after a new generation are
legal. The rules for generations are those of the classic protocol, where a join answers for the whole group; commits
without a generation are exempt from them, and joins that state no generation are not held to any. If no join of a group
states it, owners and generations were not checked, and the verdict is not valid. If positions were committed twice,
some stale ones may escape `stale_commit`, which never accuses wrongly: it does not search through all orders. For the
same reason a commit of unknown outcome is not judged while another commit may have put its position there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from squall.results.checkers.common.text import several
from squall.results.checkers.kernels.operations import FAIL, INFO, NEVER, NONE, OK, Flags, Ints
from squall.results.checkers.transactions.columns import (
    UnusableTransactions,
    conformed,
    refuse_impossible,
    refuse_overlaps,
)
from squall.results.checkers.transactions.versions import spread
from squall.results.history.table_schemas import GROUP_SCHEMA

JOIN: Final = 0
COMMIT: Final = 1
POSITION: Final = 2
POLL: Final = 3
GROUP_FUNCTIONS: Final = {"join": JOIN, "commit": COMMIT, "position": POSITION, "poll": POLL}

_NAMES: Final = {code: name for name, code in GROUP_FUNCTIONS.items()}

NOWHERE: Final = -1
"""The position of a group that has committed none."""
NOBODY: Final = -1
"""The group of a reader that is in none."""
WITNESSES: Final = 8


@dataclass(frozen=True)
class GroupOperations:
    """One element per operation, then one per topic-partition assigned, and one per offset delivered."""

    op_id: Ints
    group: Ints
    member: Ints
    f: Ints
    type: Ints
    invoked: Ints
    completed: Ints
    generation: Ints
    partition: Ints
    position: Ints
    joiner: Ints
    assigned: Ints
    poll: Ints
    delivered: Ints

    @classmethod
    def of(cls, table: pa.Table) -> GroupOperations:
        """Read rows of `GROUP_SCHEMA`; widen intervals by the error of the clock.

        Raises UnusableTransactions if they are not possible, or lack what the rules need.
        """
        table = conformed(table, GROUP_SCHEMA, unknown_within=frozenset())
        error, kind = _numbers(table, "clock_error", 0), _numbers(table, "type", INFO)
        if (error < 0).any():
            raise UnusableTransactions("the error of a clock must not be negative")
        asked, process = _numbers(table, "invoked", 0), _numbers(table, "process", -1)
        answered = np.where(kind == INFO, NEVER, _numbers(table, "completed", NEVER))
        made = cls(
            op_id=_numbers(table, "op_id", -1),
            group=_numbers(table, "group", NOBODY),
            member=_numbers(table, "member", -1),
            f=_numbers(table, "f", -1),
            type=kind,
            invoked=asked - error,
            completed=np.where(answered == NEVER, NEVER, answered + error),
            generation=_numbers(table, "generation", int(NONE)),
            partition=_numbers(table, "partition", -1),
            position=_numbers(table, "position", int(NONE)),
            joiner=_owners(table, "assigned"),
            assigned=np.asarray(pc.list_flatten(table["assigned"]), dtype=np.int64),
            poll=_owners(table, "delivered"),
            delivered=np.asarray(pc.list_flatten(table["delivered"]), dtype=np.int64),
        )
        refuse_impossible(made.op_id, kind, asked, answered)
        by_process = np.lexsort((answered, asked, process))
        refuse_overlaps(made.op_id, process, asked, answered, by_process, what="operation")
        _refuse_silent(made)
        return made

    def of_kind(self, f: int, *types: int) -> Ints:
        """The operations of one function with one of some outcomes."""
        return np.flatnonzero((self.f == f) & np.isin(self.type, types))


def _refuse_silent(operations: GroupOperations) -> None:
    """Require what the rules need of every operation. Raises UnusableTransactions.

    A position of none is stated explicitly, so a missing one has no meaning; a commit of an unknown position could
    explain every position.
    """
    acknowledged, perhaps = operations.type == OK, operations.type != FAIL
    told, commit, poll = ((operations.f == kind) for kind in (POSITION, COMMIT, POLL))
    delivers = np.isin(np.arange(len(operations.f)), operations.poll)
    placed = (told & acknowledged) | (commit & perhaps) | (poll & perhaps & (delivers | ~acknowledged))
    _refuse(operations, acknowledged & (operations.completed == NEVER), "has no end")
    _refuse(operations, told & acknowledged & (operations.position == NONE), "has no position")
    _refuse(operations, commit & perhaps & (operations.position < 0), "has no position")
    _refuse(operations, placed & (operations.partition < 0), "has no topic-partition")


def _refuse(operations: GroupOperations, wrong: Flags, problem: str) -> None:
    if wrong.any():
        one = int(np.flatnonzero(wrong)[0])
        name = _NAMES.get(int(operations.f[one]), "operation")
        what = f"an acknowledged {name}" if operations.type[one] == OK else f"a {name} of unknown outcome"
        raise UnusableTransactions(f"operation {operations.op_id[one]}, {what}, {problem}")


def _numbers(table: pa.Table, name: str, null: int) -> Ints:
    return np.asarray(pc.fill_null(table[name].cast(pa.int64()), null), dtype=np.int64)


def _owners(table: pa.Table, name: str) -> Ints:
    return np.repeat(np.arange(len(table)), np.asarray(pc.list_value_length(table[name])).astype(np.int64))


@dataclass(frozen=True)
class GroupFinding:
    """One instance: the operations that prove it, by row, and the topic-partition and offset it is about."""

    anomaly: str
    operations: tuple[int, ...]
    group: int
    partition: int = -1
    offset: int = -1


@dataclass
class GroupFindings:
    """Anomalies by name with their number, a few instances of each; how many operations there were to judge."""

    counts: dict[str, int] = field(default_factory=dict)
    instances: list[GroupFinding] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    undecided: tuple[str, ...] = ()

    def add(self, found: list[GroupFinding]) -> None:
        for one in found:
            self.counts[one.anomaly] = self.counts.get(one.anomaly, 0) + 1
            if self.counts[one.anomaly] <= WITNESSES:
                self.instances.append(one)

    @property
    def verdict(self) -> str:
        """Valid only if members joined, positions were returned, records were delivered, and nothing is undecided."""
        if self.counts:
            return "invalid"
        return "valid" if not self.undecided and all(self.checked.get(name) for name in GROUP_FUNCTIONS) else "unknown"


def check_groups(table: pa.Table) -> GroupFindings:
    """Apply all rules to a table of `GROUP_SCHEMA`."""
    findings = GroupFindings()
    try:
        operations = GroupOperations.of(table)
    except UnusableTransactions as trouble:
        findings.undecided = (str(trouble),)
        return findings
    findings.checked = {name: len(operations.of_kind(code, OK)) for name, code in GROUP_FUNCTIONS.items()}
    findings.undecided = _unchecked_owners(operations)
    places = list(_by_place(operations))
    done = _done_by(operations, places)
    findings.add(_double_assignments(operations))
    findings.add(_old_generations(operations, done))
    existing = _existing(operations)
    for rows in places:
        findings.add(_positions_told(operations, rows, done) or _entangled(operations, rows))
        findings.add(_ahead(operations, rows, existing, done))
    return findings


def _done_by(operations: GroupOperations, places: list[Ints]) -> Ints:
    """By operation: for a commit of a group, when it was certainly done (`done_by`), else NEVER."""
    done = np.full(len(operations.f), NEVER, np.int64)
    for rows in places:
        commits = rows[(operations.f[rows] == COMMIT) & (operations.type[rows] != FAIL)]
        told = rows[(operations.f[rows] == POSITION) & (operations.type[rows] == OK)]
        done[commits] = done_by(operations, commits, told)
    return done


# Generations ----------------------------------------------------------------------------------------------------------


def _telling_joins(operations: GroupOperations) -> Ints:
    """The acknowledged joins that state their generation; that of the others is unknown."""
    joins = operations.of_kind(JOIN, OK)
    return joins[operations.generation[joins] != NONE]


def _unchecked_owners(operations: GroupOperations) -> tuple[str, ...]:
    """The groups with joins of which no generation is known."""
    joined = operations.group[operations.of_kind(JOIN, OK)]
    silent = np.setdiff1d(joined, operations.group[_telling_joins(operations)])
    reason = "no acknowledged join has a generation, so owners and generations were not checked"
    more = len(silent) - WITNESSES
    rest = (f"and {several(more, 'group')} more",) if more > 0 else ()
    return (*(f"group {group}: {reason}" for group in silent[:WITNESSES].tolist()), *rest)


def _double_assignments(operations: GroupOperations) -> list[GroupFinding]:
    """Topic-partitions that two members had in one generation."""
    given = np.flatnonzero(np.isin(operations.joiner, _telling_joins(operations)))
    joiner, partition = operations.joiner[given], operations.assigned[given]
    group, generation, member = operations.group[joiner], operations.generation[joiner], operations.member[joiner]
    order = np.lexsort((member, partition, generation, group))
    found = []
    last: tuple[int, ...] = ()
    for first, second in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        place = (int(group[first]), int(generation[first]), int(partition[first]))
        if place != (group[second], generation[second], partition[second]) or member[first] == member[second]:
            continue
        if place != last:
            proof = (int(joiner[first]), int(joiner[second]))
            found.append(GroupFinding("double_assignment", proof, place[0], place[2]))
        last = place
    return found


def _old_generations(operations: GroupOperations, done: Ints) -> list[GroupFinding]:
    """Joins, and commits that were certainly done, of a generation older than one complete before their invocation."""
    found = []
    joins, commits = _telling_joins(operations), np.flatnonzero(done < NEVER)
    for anomaly, rows in (("generation_regress", joins), ("zombie_commit", commits)):
        for group in np.unique(operations.group[rows]).tolist():
            complete = joins[operations.group[joins] == group]
            complete = complete[np.argsort(operations.completed[complete], kind="stable")]
            newest = _newest(operations.generation[complete])
            here = rows[(operations.group[rows] == group) & (operations.generation[rows] != NONE)]
            at = np.searchsorted(operations.completed[complete], operations.invoked[here]) - 1
            known = at >= 0
            proof = complete[newest[at[known]]]
            old = operations.generation[here[known]] < operations.generation[proof]
            found += [
                GroupFinding(anomaly, (int(newer), int(one)), group, int(operations.partition[one]))
                for newer, one in zip(proof[old], here[known][old], strict=True)
            ]
    return found


def _newest(generation: Ints) -> Ints:
    """By place: where the greatest generation up to there is."""
    best = np.maximum.accumulate(generation)
    fresh = np.concatenate((np.ones(1, np.bool_), best[1:] > best[:-1]))[: len(best)]
    return np.maximum.accumulate(np.where(fresh, np.arange(len(best)), 0))


# Positions ------------------------------------------------------------------------------------------------------------


def _by_place(operations: GroupOperations) -> Iterator[Ints]:
    """The commits, positions and polls of each group and topic-partition."""
    rows = np.flatnonzero((operations.f != JOIN) & (operations.group != NOBODY))
    rows = rows[np.lexsort((operations.invoked[rows], operations.partition[rows], operations.group[rows]))]
    changes = (np.diff(operations.group[rows]) != 0) | (np.diff(operations.partition[rows]) != 0)
    yield from (part for part in np.split(rows, np.flatnonzero(changes) + 1) if len(part))


def _positions_told(operations: GroupOperations, rows: Ints, done_at: Ints) -> list[GroupFinding]:
    """Positions of one group and topic-partition that were never committed, or that had been replaced."""
    commits = rows[(operations.f[rows] == COMMIT) & (operations.type[rows] != FAIL)]
    told = rows[(operations.f[rows] == POSITION) & (operations.type[rows] == OK)]
    begun, position, done = operations.invoked[commits], operations.position[commits], done_at[commits]
    found = []
    for one in told.tolist():
        candidates = (position == operations.position[one]) & (begun <= operations.completed[one])
        place = (int(operations.group[one]), int(operations.partition[one]), int(operations.position[one]))
        if operations.position[one] != NOWHERE and not candidates.any():
            found.append(GroupFinding("phantom_commit", (one,), *place))
            continue
        before = done < operations.invoked[one]
        if not before.any():
            continue
        latest = int(np.flatnonzero(before)[np.argmax(begun[before])])
        replaced = done[candidates] < begun[latest]
        if replaced.all():
            proof = (*commits[candidates][:1].tolist(), int(commits[latest]), one)
            found.append(GroupFinding("stale_commit", proof, *place))
    return found


def _entangled(operations: GroupOperations, rows: Ints) -> list[GroupFinding]:
    """Positions of one group and topic-partition that were the group's at times which exclude each other.

    Exact if no position was committed twice (Gibbons and Korach's zones); otherwise nothing is reported. A position was
    the group's all the time from the first completion among its commit and responses to the last invocation, if that is
    later; if not, at some moment in between.
    """
    commits = rows[(operations.f[rows] == COMMIT) & (operations.type[rows] != FAIL)]
    answers = rows[(operations.f[rows] == POSITION) & (operations.type[rows] == OK)]
    told = answers[operations.position[answers] != NOWHERE]
    nowhere = answers[operations.position[answers] == NOWHERE]
    if len(np.unique(operations.position[commits])) < len(commits):
        return []
    shown = np.isin(operations.position[commits], operations.position[told])
    commits = commits[(operations.type[commits] == OK) | shown]
    commits = commits[np.argsort(operations.position[commits])]
    at = np.searchsorted(operations.position[commits], operations.position[told])
    first_end, last_begin = operations.completed[commits].copy(), operations.invoked[commits].copy()
    np.minimum.at(first_end, at, operations.completed[told])
    np.maximum.at(last_begin, at, operations.invoked[told])
    if len(nowhere):
        first_end = np.append(first_end, NONE)
        last_begin = np.append(last_begin, operations.invoked[nowhere].max())
        commits = np.append(commits, nowhere[np.argmax(operations.invoked[nowhere])])
    clash = _clash(first_end, last_begin)
    if clash is None:
        return []
    both = tuple(int(commits[one]) for one in clash)
    place = (int(operations.group[both[0]]), int(operations.partition[both[0]]), int(operations.position[both[0]]))
    return [GroupFinding("stale_commit", both, *place)]


def _clash(first_end: Ints, last_begin: Ints) -> tuple[int, int] | None:
    """Two values, one of which was there all the time, and the other certainly at some moment of that time."""
    lasting = np.flatnonzero(first_end < last_begin)
    lasting = lasting[np.argsort(first_end[lasting], kind="stable")]
    overlap = np.flatnonzero(first_end[lasting[1:]] < np.maximum.accumulate(last_begin[lasting])[:-1])
    if len(overlap):
        later = int(overlap[0]) + 1
        earlier = int(np.argmax(last_begin[lasting[:later]]))
        return int(lasting[earlier]), int(lasting[later])
    brief = np.flatnonzero(first_end >= last_begin)
    if len(lasting) == 0 or len(brief) == 0:
        return None
    at = np.searchsorted(first_end[lasting], last_begin[brief]) - 1
    inside = np.flatnonzero((at >= 0) & (first_end[brief] < last_begin[lasting[np.maximum(at, 0)]]))
    return (int(lasting[at[inside[0]]]), int(brief[inside[0]])) if len(inside) else None


def done_by(operations: GroupOperations, commits: Ints, told: Ints) -> Ints:
    """By commit that was not refused: when it was certainly done, NEVER if that is not known.

    The only commit that can have put a returned position there was done by then. That holds for a commit of unknown
    outcome, too, and may be long before the completion of an acknowledged one.
    """
    done = operations.completed[commits].copy()
    position, begun = operations.position[commits], operations.invoked[commits]
    for one in told.tolist():
        candidates = np.flatnonzero((position == operations.position[one]) & (begun <= operations.completed[one]))
        if len(candidates) == 1:
            done[candidates] = np.minimum(done[candidates], operations.completed[one])
    return done


def _existing(operations: GroupOperations) -> dict[int, Ints]:
    """By topic-partition: the offsets that were delivered to any reader."""
    partition = operations.partition[operations.poll]
    order = np.lexsort((operations.delivered, partition))
    names, begins = np.unique(partition[order], return_index=True)
    parts = np.split(operations.delivered[order], begins[1:])
    return {name: np.unique(part) for name, part in zip(names.tolist(), parts, strict=True)} if len(names) else {}


def _ahead(operations: GroupOperations, rows: Ints, everywhere: dict[int, Ints], done: Ints) -> list[GroupFinding]:
    """Records that a commit of one group and topic-partition passes and that no member had requested by then."""
    polls = rows[operations.f[rows] == POLL]
    unknown = operations.invoked[polls[operations.type[polls] == INFO]].min(initial=NEVER)
    commits = rows[done[rows] < unknown]
    partition = int(operations.partition[rows[0]])
    begins = np.searchsorted(operations.poll, polls)
    own = spread(begins, np.searchsorted(operations.poll, polls, side="right") - begins)
    if len(own) == 0 or len(commits) == 0:
        return []
    existing = everywhere[partition]
    asked = np.full(len(existing), NEVER, np.int64)
    at = np.searchsorted(existing, operations.delivered[own])
    np.minimum.at(asked, at, operations.invoked[operations.poll[own]])
    order = commits[np.argsort(operations.position[commits], kind="stable")]
    past = np.searchsorted(operations.position[order], existing, side="right")
    first = _earliest_from(done[order])
    passed = past < len(order)
    ahead = passed & (existing >= operations.delivered[own].min())
    proof = order[first[np.minimum(past, len(order) - 1)]]
    ahead &= asked > done[proof]
    group = int(operations.group[rows[0]])
    return [
        GroupFinding("commit_ahead", (int(proof[one]),), group, partition, int(existing[one]))
        for one in np.flatnonzero(ahead)
    ]


def _earliest_from(times: Ints) -> Ints:
    """By place: where the least time from there on is."""
    backwards = times[::-1]
    least = np.minimum.accumulate(backwards)
    fresh = np.concatenate((np.ones(1, np.bool_), least[1:] < least[:-1]))[: len(times)]
    at = np.maximum.accumulate(np.where(fresh, np.arange(len(times)), 0))
    return (len(times) - 1 - at)[::-1]
