"""The watcher of the cluster: what changed, and from when to when it was answered at all (P12, P19)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from squall.harness.scenario.cluster import NodeNames, Watcher
from squall.results.history.segments import ClusterObservation
from squall.workloads.clients.common.client import ClusterState, PartitionState


class View:
    """Answers what it is told to, one after the other, and then never again."""

    def __init__(self, answers: Sequence[ClusterState | Exception | None]) -> None:
        self.names = NodeNames({1: "b1", 2: "b2"})
        self.answers = list(answers)
        self.asked = 0

    async def state(self) -> ClusterState | None:
        self.asked += 1
        if not self.answers:
            raise asyncio.CancelledError
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def state(leader: int = 1, epoch: int = 1) -> ClusterState:
    partition = PartitionState("events", 0, leader, epoch, (1, 2), (1, 2))
    return ClusterState((), (partition,), 3, 1)


def watched(*answers: ClusterState | Exception | None) -> list[ClusterObservation]:
    """What is told of looks that were made at 10, 20, 30 and so on."""
    told: list[ClusterObservation] = []
    view = View(answers)

    async def no_sleep(seconds: float) -> None: ...

    watcher = Watcher(view, lambda: 10 * view.asked, no_sleep, told.append)  # type: ignore[arg-type]
    with contextlib.suppress(asyncio.CancelledError, RuntimeError):
        asyncio.run(watcher.run())
    return told


def stretches(told: Sequence[ClusterObservation]) -> list[tuple[int | None, int]]:
    return [(one.since, one.time) for one in told if one.kind == "watched"]


def test_at_its_end_it_tells_since_when_it_had_looked() -> None:
    told = watched(state(), state(), state(leader=2, epoch=2))
    assert stretches(told) == [(10, 30)]
    assert [(one.node, one.epoch, one.time) for one in told if one.kind == "leader"] == [("b1", 1, 10), ("b2", 2, 30)]


def test_looks_that_nobody_answers_are_no_looks() -> None:
    assert stretches(watched(state(), state(), None, OSError("gone"), state(), None)) == [(10, 20), (50, 50)]
    assert stretches(watched(None, None)) == []


def test_what_it_had_seen_is_told_also_when_it_fails() -> None:
    assert stretches(watched(state(), state(), RuntimeError("a bug"))) == [(10, 20)]
