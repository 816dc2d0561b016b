"""The registry of fault kinds: builds a fault from its options, and lists the verbs it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from squall.nemesis.admin_mix import ADMIN_MIXES
from squall.nemesis.clock import CLOCKS
from squall.nemesis.damage import DAMAGES
from squall.nemesis.disk import DISKS
from squall.nemesis.disk_load import LOADS
from squall.nemesis.fault import Fault, FaultContext
from squall.nemesis.kind import Kind
from squall.nemesis.link import LINKS
from squall.nemesis.move_controller import CONTROLLER_MOVES
from squall.nemesis.operations import OPERATIONS
from squall.nemesis.options import FaultOptions
from squall.nemesis.partition import PARTITIONS
from squall.nemesis.power import POWER
from squall.nemesis.process import PROCESSES
from squall.nemesis.process_clients import CLIENTS
from squall.nemesis.process_command import COMMANDS
from squall.nemesis.process_failpoint import FAILPOINTS
from squall.nemesis.process_host import HOST
from squall.nemesis.process_resources import RESOURCES
from squall.nemesis.process_rounds import ROUNDS
from squall.nemesis.rpc import RPCS

KINDS: tuple[Kind, ...] = (
    *PARTITIONS,
    *PROCESSES,
    *ROUNDS,
    *HOST,
    *FAILPOINTS,
    *RESOURCES,
    *COMMANDS,
    *CLIENTS,
    *CLOCKS,
    *POWER,
    *DISKS,
    *DAMAGES,
    *LOADS,
    *LINKS,
    *RPCS,
    *OPERATIONS,
    *ADMIN_MIXES,
    *CONTROLLER_MOVES,
)

FAULTS: Mapping[type[BaseModel], Kind] = {kind.options: kind for kind in KINDS}

FAULT_VERBS = tuple(dict.fromkeys(verb for kind in KINDS for verb in kind.verbs))
"""Every verb that injects a fault. Simulated hosts offer all but `HOSTS_ONLY`."""

HOSTS_ONLY: tuple[str, ...] = (
    "proc.adopt",
    "host.command",
    "cpu.throttle",
    "host.stress",
    "proc.limit",
    "clock.monotonic",
    "disk.damage",
    "disk.copy",
    "disk.rewind",
    "disk.load",
    "proc.kill_at_call",
    "net.spoil",
    "net.drop_port",
    "net.reset",
    "net.storm",
    "rpc.stream",
    "net.interface_down",
    "net.flood",
)
"""Verbs for what the simulation does not model, such as packets below TCP; a suite that needs one runs on hosts."""

ON_HOSTS = (
    "proc.adopt",
    "host.command",
    "cpu.throttle",
    "host.stress",
    "proc.limit",
    "net.drop",
    "net.shape",
    "net.spoil",
    "net.flood",
    "net.interface_down",
    "rpc.stream",
    "net.storm",
    "net.reset",
    "net.drop_port",
    "proc.kill",
    "proc.term",
    "proc.pause",
    "proc.kill_at_call",
    "clock.set",
    "clock.monotonic",
    "proc.power_loss",
    "disk.wipe",
    "disk.error",
    "disk.slow",
    "disk.fill",
    "disk.lie",
    "disk.damage",
    "disk.copy",
    "disk.rewind",
    "disk.load",
    "rpc.hold",
    "rpc.cut",
)
"""The verbs that the agent on real and lab hosts offers; a test compares them with the agent."""


def build_fault(options: FaultOptions, context: FaultContext) -> Fault:
    """Build a fault for one occurrence."""
    return FAULTS[type(options)].make(options, context)


def needed_verbs(faults: Iterable[FaultOptions]) -> tuple[str, ...]:
    """All verbs that these faults need of hosts."""
    return tuple(dict.fromkeys(verb for options in faults for verb in FAULTS[type(options)].verbs))


def only_on_hosts(options: FaultOptions) -> tuple[str, ...]:
    """The verbs that this fault needs and simulated hosts do not offer."""
    return only_on_hosts_kind(FAULTS[type(options)])


def only_on_hosts_kind(kind: Kind) -> tuple[str, ...]:
    """The verbs that this kind of fault needs and simulated hosts do not offer."""
    return tuple(verb for verb in kind.verbs if verb in HOSTS_ONLY)


def missing_verbs(options: FaultOptions, offered: tuple[str, ...] = ON_HOSTS) -> tuple[str, ...]:
    """The verbs that this fault needs and hosts do not offer."""
    return tuple(verb for verb in FAULTS[type(options)].verbs if verb not in offered)
