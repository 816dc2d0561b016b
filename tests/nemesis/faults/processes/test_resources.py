"""What is taken from a process: proven by looks in which it shows, and by none in which nothing happened."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from squall.nemesis.core.fault import Fault, FaultContext
from squall.nemesis.entries import AnyFault
from squall.nemesis.registry import build_fault
from tests.nemesis.faults.cluster.test_operations import Clock, Cluster

OPTIONS: TypeAdapter[Any] = TypeAdapter(AnyFault)
NOTHING_EATEN = {"pids": [], "busy": 0, "cpu_s": 0.0, "resident_bytes": 0}


def process(**seen: Any) -> dict[str, Any]:
    """A process that is left alone, but for what is said."""
    limits = {"memory": None, "descriptors": 1024}
    used = {"memory": 1 << 20, "descriptors": 12}
    plain = {"pid": 7, "cpu_s": 0.2, "looks": 100, "stopped": 0, "throttled": 0, "limits": limits, "used": used}
    return plain | seen


def look(seen: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    plain = {"open": False, "driver": None, "cpus": 2, "wall_s": 0.5, "eaters": NOTHING_EATEN}
    return {"resources": {"b1": plain | {"process": seen or process()} | more}}


class Host:
    """Says that it has two processors, and remembers what it was asked."""

    name, address = "b1", "10.0.0.1"

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, object]]] = []

    async def call(self, verb: str, **arguments: object) -> dict[str, object]:
        self.asked.append((verb, arguments))
        return {"cpus": 2}


def fault(host: Host | None = None, **written: Any) -> Fault:
    clock = Clock()
    context = FaultContext(
        id="it",
        hosts={"b1": host or Host()},
        cluster=Cluster(),
        now_ns=clock.now_ns,
        sleep=clock.sleep,
        rng=random.Random(7),
    )
    built = build_fault(OPTIONS.validate_python({"target": "b1", **written}), context)
    asyncio.run(built.aim())
    return built


LIMITED = process(limits={"memory": 2 << 20, "descriptors": 1024})
EATING = {"pids": [1, 2, 3], "busy": 2, "cpu_s": 0.8, "resident_bytes": 1 << 27}


@pytest.mark.parametrize(
    ("written", "before", "during", "reason"),
    [
        ({"fault": "cpu-throttle"}, look(), look(process(stopped=93, cpu_s=0.02), driver="duty cycle"), None),
        ({"fault": "cpu-throttle"}, look(), look(process(throttled=4, cpu_s=0.02), driver="cgroup v2"), None),
        ({"fault": "cpu-throttle"}, look(), look(), "is not throttled: stopped in 0"),
        ({"fault": "cpu-throttle"}, look(process(stopped=90)), look(process(stopped=90)), "before the fault"),
        ({"fault": "cpu-throttle"}, look(), look(process(stopped=93, cpu_s=0.4)), "0.40 s of 0.50 s"),
        ({"fault": "cpu-stress"}, look(), look(eaters=EATING), None),
        ({"fault": "cpu-stress"}, look(), look(), "0 busy processes are running, not 2"),
        ({"fault": "cpu-stress"}, look(), look(eaters=EATING | {"cpu_s": 0.0}), "got no processor time"),
        ({"fault": "cpu-stress", "processes": 3}, look(), look(eaters=EATING), "2 busy processes are running, not 3"),
        ({"fault": "cpu-stress"}, look(eaters=EATING), look(eaters=EATING), "before the fault"),
        ({"fault": "memory-stress"}, look(), look(eaters=EATING), None),
        ({"fault": "memory-stress"}, look(), look(), "only 0 bytes"),
        ({"fault": "memory-stress", "size": "1GiB"}, look(), look(eaters=EATING), "only 134217728 bytes"),
        ({"fault": "process-limit", "memory": "1MiB"}, look(), look(LIMITED), None),
        ({"fault": "process-limit", "memory": "1MiB"}, look(), look(), "of address space is unchanged"),
        ({"fault": "process-limit", "descriptors": 0}, look(), look(LIMITED), "descriptors is unchanged"),
        ({"fault": "process-limit", "memory": 0}, look(), look(LIMITED | {"pid": 8}), "a different process"),
    ],
)
def test_what_shows_and_what_does_not(
    written: dict[str, Any], before: dict[str, Any], during: dict[str, Any], reason: str | None
) -> None:
    found = fault(**written).check_effect(before, during)
    assert (found is None) if reason is None else (found is not None and reason in found), found


@pytest.mark.parametrize(
    ("written", "after", "reason"),
    [
        ({"fault": "cpu-throttle"}, look(), None),
        ({"fault": "cpu-throttle"}, look(open=True), "still open"),
        ({"fault": "cpu-throttle"}, look(process(stopped=80)), "still throttled"),
        ({"fault": "cpu-stress"}, look(), None),
        ({"fault": "cpu-stress"}, look(eaters=EATING), "3 busy processes are still running"),
        ({"fault": "memory-stress"}, look(), None),
        ({"fault": "memory-stress"}, look(eaters=EATING), "still held"),
        ({"fault": "process-limit", "memory": 0}, look(), None),
        ({"fault": "process-limit", "memory": 0}, look(open=True), "still those of the fault"),
        ({"fault": "process-limit", "memory": 0}, look(LIMITED), "is 2MiB, and was unlimited"),
    ],
)
def test_what_shows_the_end(written: dict[str, Any], after: dict[str, Any], reason: str | None) -> None:
    found = fault(**written).shows_end(look(), after)
    assert (found is None) if reason is None else (found is not None and reason in found), found


@pytest.mark.parametrize("written", [{"fault": "process-limit", "memory": 0}, {"fault": "cpu-throttle"}])
def test_what_was_not_running_before_was_not_limited_and_its_end_is_no_riddle(written: dict[str, Any]) -> None:
    """Another fault may have the process down when this one begins, and up again when it ends."""
    absent = look()
    absent["resources"]["b1"]["process"] = None
    assert fault(**written).check_effect(absent, look()) is not None
    assert fault(**written).shows_end(absent, look()) is None


def test_a_stress_without_number_keeps_every_processor_busy() -> None:
    host = Host()
    asyncio.run(fault(host, fault="cpu-stress").inject(9.0))
    assert ("host.stress", {"id": "it", "processes": 2, "ttl": 9.0}) in host.asked


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"fault": "process-limit"}, "has no limit; give `memory`"),
        ({"fault": "cpu-throttle", "share": 1}, "less than 1"),
        ({"fault": "cpu-stress", "processes": 0}, "greater than or equal to 1"),
        ({"fault": "memory-stress", "size": "much"}, "is not a size"),
    ],
)
def test_what_makes_no_sense_is_an_error(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        OPTIONS.validate_python({"target": "b1", **wrong})
