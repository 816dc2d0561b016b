"""From a suite's options to a fault, and to the verbs it needs of a host: the one place that knows them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from squall.nemesis import options as suite
from squall.nemesis.clock import SkewClock
from squall.nemesis.disk import DisturbDisk
from squall.nemesis.fault import Fault, FaultContext
from squall.nemesis.link import ShapeLink
from squall.nemesis.operations import ChangeConfig, ElectPreferred, ReassignTopicPartition, TakeVoterOut
from squall.nemesis.options import FaultOptions
from squall.nemesis.partition import NetworkPartition
from squall.nemesis.power import LosePower, WipeLogDirectory
from squall.nemesis.process import KillLaggingLeader, KillProcess, PauseProcess, RestartProcess
from squall.nemesis.rpc import DisturbRpc

FAULTS: Mapping[type[Any], tuple[Callable[[Any, FaultContext], Fault], tuple[str, ...]]] = {
    suite.Isolate: (NetworkPartition, ("net.drop",)),
    suite.Halves: (NetworkPartition, ("net.drop",)),
    suite.OneWay: (NetworkPartition, ("net.drop",)),
    suite.MajoritiesRing: (NetworkPartition, ("net.drop",)),
    suite.Bridge: (NetworkPartition, ("net.drop",)),
    suite.Kill: (KillProcess, ("proc.kill",)),
    suite.Pause: (PauseProcess, ("proc.pause",)),
    suite.Clock: (SkewClock, ("clock.set",)),
    suite.LeaderKillLagging: (KillLaggingLeader, ("proc.kill", "proc.pause")),
    suite.PowerLoss: (LosePower, ("proc.power_loss",)),
    suite.WipeDisk: (WipeLogDirectory, ("disk.wipe",)),
    suite.DiskError: (DisturbDisk, ("disk.error",)),
    suite.DiskSlow: (DisturbDisk, ("disk.slow",)),
    suite.SlowLink: (ShapeLink, ("net.shape",)),
    suite.Bandwidth: (ShapeLink, ("net.shape",)),
    suite.RpcHold: (DisturbRpc, ("rpc.hold",)),
    suite.RpcCut: (DisturbRpc, ("rpc.cut",)),
    suite.Restart: (RestartProcess, ()),
    suite.Reassign: (ReassignTopicPartition, ()),
    suite.ElectLeaders: (ElectPreferred, ()),
    suite.AlterConfig: (ChangeConfig, ()),
    suite.RemoveVoter: (TakeVoterOut, ()),
}

FAULT_VERBS = tuple(dict.fromkeys(verb for _, verbs in FAULTS.values() for verb in verbs))
"""Every verb that disturbs something. Simulated hosts offer all of them."""

ON_HOSTS = (
    "net.drop",
    "net.shape",
    "proc.kill",
    "proc.pause",
    "clock.set",
    "proc.power_loss",
    "disk.wipe",
    "disk.error",
    "disk.slow",
    "rpc.hold",
    "rpc.cut",
)
"""Those that the agent on real and lab hosts offers; a test compares them with the agent."""


def build_fault(options: FaultOptions, context: FaultContext) -> Fault:
    """A fault for one occurrence."""
    make, _ = FAULTS[type(options)]
    return make(options, context)


def needed_verbs(faults: Iterable[FaultOptions]) -> tuple[str, ...]:
    """All verbs that these faults need of hosts."""
    return tuple(dict.fromkeys(verb for options in faults for verb in FAULTS[type(options)][1]))


def missing_verbs(options: FaultOptions, offered: tuple[str, ...] = ON_HOSTS) -> tuple[str, ...]:
    """The verbs this fault needs and hosts do not offer."""
    _, needed = FAULTS[type(options)]
    return tuple(verb for verb in needed if verb not in offered)
