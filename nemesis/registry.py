"""From a suite's options to a fault: the one place that knows them all."""

from __future__ import annotations

from squall.nemesis.clock import SkewClock
from squall.nemesis.fault import Fault, FaultContext
from squall.nemesis.options import Clock, FaultOptions, Kill, LeaderKillLagging, Pause
from squall.nemesis.partition import NetworkPartition
from squall.nemesis.process import KillLaggingLeader, KillProcess, PauseProcess


def build_fault(options: FaultOptions, context: FaultContext) -> Fault:
    """A fault for one occurrence."""
    if isinstance(options, Kill):
        return KillProcess(options, context)
    if isinstance(options, Pause):
        return PauseProcess(options, context)
    if isinstance(options, Clock):
        return SkewClock(options, context)
    if isinstance(options, LeaderKillLagging):
        return KillLaggingLeader(options, context)
    return NetworkPartition(options, context)
