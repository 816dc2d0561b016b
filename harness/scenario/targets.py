"""Check the targets of faults before anything is injected: unknown hosts, and targets that can never match a host.

A role is resolved when its fault starts. But some errors are known before: an unlisted host, a group without a
minority, a target with no host left after `but`, or followers of a topic-partition with one replica. So are two faults
that exclude each other on a host that both of them name (nemesis/exclusion.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.plugins.system_limits import CONTROLLERS
from squall.harness.scenario.inventory import Inventory, LabTopology
from squall.harness.scenario.suite import Scenario
from squall.nemesis.core.selector import (
    Except,
    FollowersOf,
    Group,
    Named,
    Selector,
    SomeOf,
    how_many,
    named_hosts,
    parse_selector,
)
from squall.nemesis.entries import targets_of
from squall.nemesis.exclusion import clashes
from squall.nemesis.schedule import Schedule

NODES = {
    "brokers": ("brokers",),
    "controllers": ("controllers",),
    "zookeeper": ("zookeeper",),
    "nodes": ("brokers", "controllers", "zookeeper"),
}


@dataclass(frozen=True)
class Anywhere:
    """A place that is known only when a run begins: a running lab that has not been examined."""


@dataclass(frozen=True)
class OwnLab:
    """The lab that each scenario describes."""


Place = Inventory | OwnLab | Anywhere
"""Where scenarios would run, as far as that is known before the run."""


@dataclass(frozen=True)
class Nodes:
    """The hosts that run nodes, by group, and the client hosts; `source` is where they are listed."""

    source: str
    groups: Mapping[str, tuple[str, ...]]
    clients: tuple[str, ...] = ()

    @classmethod
    def at(cls, place: Inventory | OwnLab, scenario: Scenario) -> Nodes:
        """Return the hosts that a scenario has at a place."""
        if isinstance(place, OwnLab):
            return cls.of_lab(scenario)
        return cls.of_inventory(place) if place.lab is None else cls.of_shape(place.lab, place.source)

    @classmethod
    def of_inventory(cls, inventory: Inventory) -> Nodes:
        brokers = tuple(host.name for host in inventory.brokers)
        controllers = tuple(host.name for host in inventory.controllers) or brokers
        zookeeper = tuple(host.name for host in inventory.zookeeper)
        clients = tuple(host.name for host in inventory.clients)
        groups = {"brokers": brokers, "controllers": controllers, "zookeeper": zookeeper}
        return cls(inventory.source, groups, clients)

    @classmethod
    def of_lab(cls, scenario: Scenario) -> Nodes:
        """Return the hosts of the lab, or of the simulation, that a scenario describes."""
        return cls.of_shape(scenario.cluster.lab, "a lab of this suite")

    @classmethod
    def of_shape(cls, shape: LabTopology, source: str) -> Nodes:
        """Return the hosts of a lab of this shape."""
        listed = shape.names()
        kinds = ("brokers", "controllers", "zookeeper")
        groups = {kind: tuple(name for name, own in listed if own == kind) for kind in kinds}
        groups["controllers"] = groups["controllers"] or groups["brokers"]  # one of these is elected
        return cls(source, groups, tuple(name for name, own in listed if own == "clients"))

    def of(self, group: Group) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for one in NODES[group] for name in self.groups[one]))


def refuse_bad_targets(suite: Path | str, scenario: Scenario, schedule: Schedule, nodes: Nodes) -> None:
    """Raise UsageError for a fault on an unlisted host, a target without a host, and faults that exclude each other."""
    known = nodes.of("nodes")
    replicas = {name: topic.replication_factor for name, topic in scenario.cluster.topics.items()}
    for fault in schedule.faults:
        for option, target in targets_of(fault.options).items():
            where = f"{suite}: nemesis: {fault.options.fault}: {option}"
            strangers = [name for name in named_hosts(target) if name not in known]
            if strangers:
                listed = f"{nodes.source} has {', '.join(sorted(known))}"
                raise UsageError(f"{where}: no node is called {', '.join(strangers)}; {listed}")
            if nobody := why_nobody(target, nodes, replicas):
                raise UsageError(
                    f"{where}: {target!r} matches no host: {nobody}", remedy="change the target, or add hosts"
                )
    refuse_clashes(suite, scenario, schedule)


def refuse_unfit_controllers(suite: Path | str, scenario: Scenario, inventory: Inventory) -> None:
    """Raise UsageError for hosts that would run nothing but controllers where the system has none, and the reverse."""
    system, shape = scenario.cluster.system, inventory.lab
    there = [name for name, kind in shape.names() if kind == "controllers"] if shape else _only_controllers(inventory)
    some = bool(shape.controllers if shape else inventory.controllers)
    if there and (why := system.limits.lacks.get(CONTROLLERS)):
        raise UsageError(
            f"{suite}: scenario {scenario.scenario}: {inventory.source}: {', '.join(there)} would run controllers;"
            f" {system.name}: {why}",
            remedy="empty the group `controllers`; of a lab, `controllers: 0`",
        )
    if system.ours and scenario.cluster.metadata == "quorum" and not some:
        raise UsageError(
            f"{suite}: scenario {scenario.scenario}: {inventory.source} has no controllers, which keep the metadata",
            remedy="add hosts to the group `controllers`, or set `cluster: {metadata: zookeeper}`",
        )


def _only_controllers(inventory: Inventory) -> list[str]:
    """The hosts that are controllers and not brokers."""
    return [host.name for host in inventory.controllers if "brokers" not in host.groups]


def refuse_too_few_brokers(suite: Path | str, scenario: Scenario, nodes: Nodes) -> None:
    """Raise UsageError if there are fewer brokers than a topic is to have replicas."""
    brokers = len(nodes.groups["brokers"])
    for name, topic in scenario.cluster.topics.items():
        if topic.replication_factor > brokers:
            raise UsageError(
                f"{suite}: cluster.topics.{name}.replication_factor: {topic.replication_factor} replicas"
                f" need as many brokers; {nodes.source} has {brokers}",
                remedy="add hosts to the group `brokers`, or lower replication_factor",
            )


def refuse_without_clients(suite: object, source: object, clients: Sequence[object]) -> None:
    """Raise UsageError where a fault targets load workers and none runs on a separate host."""
    if not clients:
        raise UsageError(
            f"{suite}: nemesis: pause-clients needs load workers on client hosts; {source} has no client hosts",
            remedy="give the inventory a group `clients`, or the suite `cluster: {clients: 1}` for a lab",
        )


def refuse_clashes(suite: Path | str, scenario: Scenario, schedule: Schedule) -> None:
    """Raise UsageError for two faults that exclude each other."""
    clash = next(clashes(schedule), None)
    if clash is not None:
        raise UsageError(
            f"{suite}: scenario {scenario.scenario}: {clash}",
            remedy="let the first end before the second begins, or aim them at different hosts",
        )


def why_nobody(target: str, nodes: Nodes, replicas: Mapping[str, int]) -> str:
    """Return why a target can never match a host; empty if it may. A bare topic-partition always may."""
    try:
        selector = parse_selector(target)
    except ValueError:
        return ""
    return _why_nobody(selector, nodes, replicas)


def _why_nobody(selector: Selector, nodes: Nodes, replicas: Mapping[str, int]) -> str:
    if isinstance(selector, SomeOf):
        size = len(nodes.of(selector.group))
        return f"{size} {selector.group} have no {selector.amount}" if how_many(selector.amount, size) == 0 else ""
    if isinstance(selector, FollowersOf) and replicas.get(selector.pattern.topic) == 1:
        return f"{selector.pattern.topic} has one replica of each topic-partition, so no followers"
    if isinstance(selector, Except):
        reason = _why_nobody(selector.these, nodes, replicas)
        these, those = _certain(selector.these, nodes), _certain(selector.those, nodes)
        if not reason and these is not None and those is not None and not these - those:
            return "no host is left"
        return reason
    return ""


def _certain(selector: Selector, nodes: Nodes) -> set[str] | None:
    """Return the hosts that a target always matches; None if they depend on the time or the lot."""
    if isinstance(selector, Named):
        return set(selector.hosts)
    if isinstance(selector, SomeOf) and selector.amount == "all":
        return set(nodes.of(selector.group))
    if isinstance(selector, Except):
        these, those = _certain(selector.these, nodes), _certain(selector.those, nodes)
        return None if these is None or those is None else these - those
    return None
