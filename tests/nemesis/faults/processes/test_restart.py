"""A clean restart: the process is asked to stop, and only one that does so by itself has proven it (CS-06)."""

from __future__ import annotations

import asyncio
import random

import pytest

from squall.nemesis.core.fault import Fault, FaultContext
from squall.nemesis.options import Restart
from squall.nemesis.registry import build_fault
from tests.nemesis.faults.cluster.test_operations import Clock, Cluster


class Host:
    """A host whose node stops by itself, or only by a kill."""

    name, address = "b1", "10.0.0.1"

    def __init__(self, *, by_itself: bool) -> None:
        self.by_itself = by_itself
        self.state = "running"
        self.verbs: list[str] = []

    async def call(self, verb: str, **arguments: object) -> dict[str, object]:
        self.verbs.append(verb)
        if verb == "proc.term":
            self.state = "absent"
            return {"pid": 7, "by_itself": self.by_itself}
        if verb == "proc.start":
            self.state = "running"
        return {"state": self.state, "pid": 7 if self.state == "running" else None, "started": 1}


def restart_of(host: Host) -> Fault:
    clock = Clock()
    context = FaultContext(
        id="it", hosts={"b1": host}, cluster=Cluster(), now_ns=clock.now_ns, sleep=clock.sleep, rng=random.Random(7)
    )
    return build_fault(Restart.model_validate({"fault": "restart", "target": "b1", "patience": "3s"}), context)


@pytest.mark.parametrize(("by_itself", "reason"), [(True, None), (False, "did not stop cleanly within 3 s")])
def test_only_a_process_that_stopped_by_itself_proves_a_clean_stop(by_itself: bool, reason: str | None) -> None:
    fault = restart_of(host := Host(by_itself=by_itself))

    async def happen() -> tuple[str | None, str | None]:
        await fault.aim()
        before = await fault.observe()
        await fault.inject(5.0)
        held = fault.check_effect(before, await fault.observe())
        await fault.heal()
        return held, fault.shows_end(before, await fault.observe())

    held, ended = asyncio.run(happen())
    assert (held is None) if reason is None else (held is not None and reason in held)
    assert ended is None
    assert [verb for verb in host.verbs if verb in ("proc.term", "proc.start")] == ["proc.term", "proc.start"]
