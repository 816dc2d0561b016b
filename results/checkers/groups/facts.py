"""Collect the facts that prove an anomaly of a consumer group, complete without the history.

The facts are plain values. The check names only the operations that contradict each other. This module adds those that
explain them: which response showed that a commit of unknown outcome was done, which refused commit had named a phantom
position, and to whom the record that a commit passes was delivered. Each has a role, which the description
(`results/witnesses/group.py`) uses. A few operations of the same group and topic-partition that were begun before and
after stand beside the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from squall.results.checkers.groups.rules import (
    COMMIT,
    GROUP_FUNCTIONS,
    JOIN,
    NOWHERE,
    POLL,
    POSITION,
    GroupFinding,
    GroupOperations,
    done_by,
)
from squall.results.checkers.kernels.operations import FAIL, INFO, OK, Ints
from squall.results.checkers.kernels.witness_context import witness_context
from squall.results.history.rows import TYPES

MOST_ALIKE: Final = 3
"""The most commits of one position that are shown; the last ones."""
_FUNCTION_NAMES: Final = {code: name for name, code in GROUP_FUNCTIONS.items()}
_TYPE_NAMES: Final = {code: name for name, code in TYPES.items()}

Parts = list[tuple[str, int]]
"""Roles and rows."""


class DeliveredOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """What a poll delivered: its ends, how many, and whether the witness's offset was among them."""

    first: int
    last: int
    count: int
    holds: bool


class GroupOperationFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation of a witness, and its `role` in the proof."""

    role: str
    op_id: int
    process: int
    group: int
    member: int
    f: str
    type: str
    invoked: int
    completed: int | None = None
    generation: int | None = None
    position: int | None = None
    assigned: tuple[int, ...] = ()
    delivered: DeliveredOffsets | None = None


class GroupWitness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One instance: the operations that prove it, in order of time, and some before and after.

    `partition` is -1 if no topic-partition is concerned, and `offset` that of a record or a position.
    """

    anomaly: str
    group: int
    partition: int
    offset: int
    operations: tuple[GroupOperationFacts, ...]
    before: tuple[GroupOperationFacts, ...] = ()
    after: tuple[GroupOperationFacts, ...] = ()

    def of(self, role: str) -> list[GroupOperationFacts]:
        """Return the operations with a role."""
        return [one for one in self.operations if one.role == role]


def group_witnesses(table: pa.Table, findings: Sequence[GroupFinding]) -> Iterator[GroupWitness]:
    """Yield the facts of some instances that `check_groups` found in a table."""
    if not findings:
        return
    operations = GroupOperations.of(table)
    for one in findings:
        yield _witness(table, operations, one)


def _witness(table: pa.Table, operations: GroupOperations, finding: GroupFinding) -> GroupWitness:
    here = _same_place(operations, finding)
    chosen: dict[int, str] = {}
    for role, row in _parts(operations, finding, here):
        chosen.setdefault(row, role)
    rows = sorted(chosen, key=lambda row: (int(operations.invoked[row]), row))
    before, after = witness_context(operations.invoked, here, finding.operations[-1], set(chosen))
    return GroupWitness(
        anomaly=finding.anomaly,
        group=finding.group,
        partition=finding.partition,
        offset=finding.offset,
        operations=tuple(_facts(table, row, chosen[row], finding) for row in rows),
        before=tuple(_facts(table, row, "before", finding) for row in before),
        after=tuple(_facts(table, row, "after", finding) for row in after),
    )


def _same_place(operations: GroupOperations, finding: GroupFinding) -> Ints:
    """The joins of the group if it is about owners or generations, else its operations on the topic-partition."""
    same = operations.group == finding.group
    if finding.anomaly in ("double_assignment", "generation_regress"):
        rows = np.flatnonzero(same & (operations.f == JOIN))
    else:
        rows = np.flatnonzero(same & (operations.f != JOIN) & (operations.partition == finding.partition))
    return rows[np.argsort(operations.invoked[rows], kind="stable")]


def _facts(table: pa.Table, row: int, role: str, finding: GroupFinding) -> GroupOperationFacts:
    one: dict[str, Any] = table.slice(row, 1).to_pylist()[0]
    offsets = one["delivered"]
    return GroupOperationFacts(
        role=role,
        op_id=one["op_id"],
        process=one["process"],
        group=one["group"],
        member=one["member"],
        f=_FUNCTION_NAMES[one["f"]],
        type=_TYPE_NAMES[one["type"]],
        invoked=one["invoked"],
        completed=one["completed"],
        generation=one["generation"],
        position=one["position"],
        assigned=tuple(one["assigned"]),
        delivered=DeliveredOffsets(
            first=min(offsets), last=max(offsets), count=len(offsets), holds=finding.offset in offsets
        )
        if offsets
        else None,
    )


# Roles ----------------------------------------------------------------------------------------------------------------


def _parts(operations: GroupOperations, finding: GroupFinding, here: Ints) -> Parts:
    proof = list(finding.operations)
    if finding.anomaly == "double_assignment":
        return [("owner", row) for row in proof]
    if finding.anomaly == "generation_regress":
        return [("newer", proof[0]), ("older", proof[1])]
    if finding.anomaly == "zombie_commit":
        unknown = [("older", proof[1])] if operations.type[proof[1]] == INFO else []
        return [("newer", proof[0]), ("older", proof[1]), *_seen(operations, here, unknown)]
    if finding.anomaly == "phantom_commit":
        return [("told", proof[0]), *_never_committed(operations, here, finding)]
    if finding.anomaly == "commit_ahead":
        ahead = [("ahead", proof[0])]
        return [*ahead, *_seen(operations, here, ahead), *_passed(operations, here, finding)]
    if operations.f[proof[-1]] == POSITION:
        return [("told", proof[-1]), *_replaced(operations, here, proof)]
    both = zip(("lasting", "other"), proof, strict=True)
    return [(role, one) for role, row in both for one in _zone(operations, here, row)]


def _never_committed(operations: GroupOperations, here: Ints, finding: GroupFinding) -> Parts:
    """Commits of the returned position that cannot have put it there: refused, or begun only later."""
    same = here[(operations.f[here] == COMMIT) & (operations.position[here] == finding.offset)]
    refused = same[operations.type[same] == FAIL][-MOST_ALIKE:].tolist()
    later = same[operations.type[same] != FAIL][:1].tolist()
    return [("refused", row) for row in refused] + [("later", row) for row in later]


def _replaced(operations: GroupOperations, here: Ints, proof: list[int]) -> Parts:
    """The commit that replaced the returned position, that position's commits, and responses that show them done."""
    told, latest = proof[-1], proof[-2]
    commits = here[(operations.f[here] == COMMIT) & (operations.type[here] != FAIL)]
    alike = commits[
        (operations.position[commits] == operations.position[told])
        & (operations.invoked[commits] <= operations.completed[told])
    ]
    parts = [("replaced", row) for row in alike[-MOST_ALIKE:].tolist()] + [("latest", latest)]
    return [*parts, *_seen(operations, here, parts)]


def _seen(operations: GroupOperations, here: Ints, shown: Parts) -> Parts:
    """For commits that were done before their acknowledgement: the response that shows it by their position."""
    commits = here[(operations.f[here] == COMMIT) & (operations.type[here] != FAIL)]
    answers = here[(operations.f[here] == POSITION) & (operations.type[here] == OK)]
    done = dict(zip(commits.tolist(), done_by(operations, commits, answers).tolist(), strict=True))
    parts: Parts = []
    for role, row in shown:
        if done[row] < operations.completed[row]:
            same = (operations.position[answers] == operations.position[row]) & (
                operations.completed[answers] == done[row]
            )
            parts += [(f"{role} seen", one) for one in answers[same][:1].tolist()]
    return parts


def _zone(operations: GroupOperations, here: Ints, row: int) -> list[int]:
    """For a position: its commit, and what ended first and began last among that and the responses that returned it."""
    position = operations.position[row]
    answers = here[(operations.f[here] == POSITION) & (operations.type[here] == OK)]
    every = np.append(answers[operations.position[answers] == position], row)
    last = int(every[np.argmax(operations.invoked[every])])
    return [last] if position == NOWHERE else [row, int(every[np.argmin(operations.completed[every])]), last]


def _passed(operations: GroupOperations, here: Ints, finding: GroupFinding) -> Parts:
    """Which other reader received the passed record, and the group's first poll that delivered it, too late."""
    holds = np.unique(operations.poll[operations.delivered == finding.offset])
    holds = holds[operations.partition[holds] == finding.partition]
    inside = np.isin(holds, here)
    others, late = holds[~inside], holds[inside]
    first = others[np.argsort(operations.completed[others], kind="stable")][:1].tolist()
    late = late[np.argsort(operations.invoked[late], kind="stable")][:1].tolist()
    own = np.flatnonzero(np.isin(operations.poll, here[operations.f[here] == POLL]))
    begin = own[np.argsort(operations.delivered[own], kind="stable")][:1]
    parts = [("given", row) for row in first] + [("late", row) for row in late]
    return parts + [("begin", int(row)) for row in operations.poll[begin]]
