"""Translate the verbs about disk calls into disturbances of a simulated disk."""

from __future__ import annotations

import errno

from squall.harness.simulation.world.disk import Disturbance
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.probes import Arguments

DISK_CALL_VERBS = ("disk.error", "disk.slow", "disk.fill", "disk.lie")
TAKES_SPACE = frozenset({"write", "create", "rename"})


def disturbance_for(verb: str, arguments: Arguments) -> Disturbance:
    """Return which calls are affected and how. Raises ValueError for what a simulated disk does not support."""
    calls, path = calls_in(arguments), str(arguments.get("path", "*"))
    if verb == "disk.fill":
        if arguments.get("leave", 0):
            raise ValueError("a simulated disk has no size; `leave` must be 0")
        return Disturbance(TAKES_SPACE, error=errno.ENOSPC)
    if verb == "disk.lie":
        return Disturbance(calls, lie=True, path=path)
    if verb == "disk.slow":
        latency = arguments["latency_s"]
        assert isinstance(latency, int | float)
        return Disturbance(calls, delay=round(latency * MICROSECONDS), path=path)
    probability = arguments.get("probability", 1.0)
    assert isinstance(probability, int | float)
    number: int = getattr(errno, str(arguments.get("errno", "EIO")))
    return Disturbance(calls, error=number, probability=float(probability), path=path)


def calls_in(arguments: Arguments) -> frozenset[str]:
    calls = arguments.get("calls", ("write", "fsync"))
    assert isinstance(calls, list | tuple)
    return frozenset(str(call) for call in calls)
