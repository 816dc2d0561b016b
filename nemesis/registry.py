"""The registry of fault kinds: those of this package and of installed packages, by name and by their options.

A fault is declared once, as a `Kind` (kind.py), and listed here by its family. An installed package adds a fault by an
entry point of the group `squall.faults`; the harness finds these and hands them over (`plug_in`). A plugin is imported
only when its name is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from squall.nemesis.core.fault import Fault, FaultContext
from squall.nemesis.core.ports import NoPlugins, Plugins
from squall.nemesis.faults.clock import CLOCKS
from squall.nemesis.faults.cluster.admin_mix import ADMIN_MIXES
from squall.nemesis.faults.cluster.move_controller import CONTROLLER_MOVES
from squall.nemesis.faults.cluster.operations import OPERATIONS
from squall.nemesis.faults.disk.damage import DAMAGES
from squall.nemesis.faults.disk.disk import DISKS
from squall.nemesis.faults.disk.load import LOADS
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.network.link import LINKS
from squall.nemesis.faults.network.partition import PARTITIONS
from squall.nemesis.faults.network.rpc import RPCS
from squall.nemesis.faults.processes.clients import CLIENTS
from squall.nemesis.faults.processes.command import COMMANDS
from squall.nemesis.faults.processes.failpoint import FAILPOINTS
from squall.nemesis.faults.processes.host import HOST
from squall.nemesis.faults.processes.power import POWER
from squall.nemesis.faults.processes.process import PROCESSES
from squall.nemesis.faults.processes.reconfigure import RECONFIGURATIONS
from squall.nemesis.faults.processes.resources import RESOURCES
from squall.nemesis.faults.processes.rounds import ROUNDS
from squall.nemesis.options import FaultOptions
from squall.nemesis.options.base import name_of

KINDS: tuple[Kind, ...] = (
    *PARTITIONS,
    *PROCESSES,
    *ROUNDS,
    *RECONFIGURATIONS,
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
"""The faults of this package."""

FAULTS: Mapping[type[BaseModel], Kind] = {kind.options: kind for kind in KINDS}

FAULT_NAMES = tuple(kind.name for kind in KINDS)

FAULT_VERBS = tuple(dict.fromkeys(verb for kind in KINDS for verb in kind.verbs))
"""Every verb that injects a fault. Simulated hosts offer all but `HOSTS_ONLY`."""

_SIMULATED = {verb for kind in KINDS if kind.simulation for verb in kind.verbs}

HOSTS_ONLY: tuple[str, ...] = tuple(verb for verb in FAULT_VERBS if verb not in _SIMULATED)
"""Verbs for what the simulation does not model, such as packets below TCP; a suite that needs one runs on hosts."""

ON_HOSTS = FAULT_VERBS
"""The verbs that the agent on real and lab hosts offers; a test compares them with the agent."""


# --- faults of installed packages ----------------------------------------------------------------------------------

_plugins: Plugins = NoPlugins()
_loaded: list[type[BaseModel]] = []


def plug_in(plugins: Plugins) -> None:
    """Use the faults of these packages beside those of this one."""
    global _plugins
    _plugins = plugins


def plugins() -> Plugins:
    """The faults of installed packages."""
    return _plugins


def known_names() -> tuple[str, ...]:
    """The names of all faults: those of this package, then those of installed packages."""
    return tuple(dict.fromkeys((*FAULT_NAMES, *_plugins.names)))


def plugin_kind(name: str) -> Kind:
    """The fault of an installed package. Raises ValueError, which says what is wrong with the package."""
    kind = _plugins.load(name)
    assert isinstance(kind, Kind)
    if kind.options not in _loaded:
        _loaded.append(kind.options)
    return kind


def loaded_options() -> tuple[type[BaseModel], ...]:
    """The options of the plugins that were used."""
    return tuple(_loaded)


def kind_of(options: BaseModel) -> Kind:
    """The kind of fault to which these options belong."""
    ours = FAULTS.get(type(options))
    return plugin_kind(name_of(type(options))) if ours is None else ours


# --- what faults need ----------------------------------------------------------------------------------------------


def build_fault(options: FaultOptions, context: FaultContext) -> Fault:
    """Build a fault for one occurrence."""
    return kind_of(options).make(options, context)


def needed_verbs(faults: Iterable[FaultOptions]) -> tuple[str, ...]:
    """All verbs that these faults need of hosts."""
    return tuple(dict.fromkeys(verb for options in faults for verb in kind_of(options).verbs))


def only_on_hosts(options: FaultOptions) -> tuple[str, ...]:
    """The verbs that this fault needs and simulated hosts do not offer."""
    return only_on_hosts_kind(kind_of(options))


def only_on_hosts_kind(kind: Kind) -> tuple[str, ...]:
    """The verbs that this kind of fault needs and simulated hosts do not offer."""
    return tuple(verb for verb in kind.verbs if verb not in _SIMULATED)


def why_not_simulated(kind: Kind) -> str:
    """Why simulated hosts cannot carry out this kind of fault; empty if they can."""
    if missing := only_on_hosts_kind(kind):
        return f"needs {missing[0]}, which simulated hosts do not offer"
    return "" if kind.simulation else "does not support the simulation"


def missing_verbs(options: FaultOptions, offered: tuple[str, ...] = ON_HOSTS) -> tuple[str, ...]:
    """The verbs that this fault needs and hosts do not offer."""
    return tuple(verb for verb in kind_of(options).verbs if verb not in offered)
