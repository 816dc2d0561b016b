"""Write what a run states about itself: `run.json`, at its start and again at its end.

The plan and the hosts are known from the start, `Facts` become known during the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from squall.harness.hosts.client_bundle import ClientHost
from squall.harness.hosts.clocks import ClockReading
from squall.harness.hosts.system import NodePlan
from squall.harness.lab.reduced_lab import LACKS
from squall.harness.provenance import machine, versions
from squall.harness.run.run_hosts import Hosts
from squall.harness.scenario.plan import RunPlan
from squall.harness.scenario.removal import removal_allowed
from squall.harness.scenario.suite import Scenario, plugins_of
from squall.results.history.manifest import PLUGINS, SYSTEM, Expected, HostFacts, Manifest, TopicFacts
from squall.results.history.operation_kinds import OF_NODES


@dataclass
class Facts:
    """What becomes known during a run, and enters its manifest."""

    load_started: int | None = None
    load_began: str = ""
    load_ended: int | None = None
    final_read: str = ""
    completed: bool = False
    trouble: list[str] = field(default_factory=list)
    bundles: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)
    machine: Mapping[str, str] = field(default_factory=machine)
    """As it was before the run: a busy control node would be slower during it."""


def manifest_of(
    plan: RunPlan,
    facts: Facts,
    hosts: Hosts,
    *,
    started: datetime,
    command: str,
    nodes: Sequence[NodePlan],
    clients: Sequence[ClientHost],
    clocks: Mapping[int, ClockReading],
    segments: int | None,
) -> Manifest:
    """Return the manifest by what is known now.

    `clocks` are those of client hosts, by clock id; `segments` is None until workers have begun them.
    """
    scenario = plan.scenario
    return Manifest(
        run_id=plan.run_id,
        scenario=scenario.scenario,
        seed=plan.seed,
        topics={
            name: TopicFacts(
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                min_insync_replicas=topic.min_insync_replicas,
            )
            for name, topic in scenario.cluster.topics.items()
            if topic.load
        },
        suite=str(plan.suite),
        description=scenario.description,
        covers=scenario.covers,
        started=started.isoformat(timespec="seconds"),
        command=command,
        load_started=facts.load_started,
        load_began=facts.load_began,
        load_ended=facts.load_ended,
        completed=facts.completed,
        segments=segments,
        checks=(*scenario.checks, *(one for one in _of_nodes(scenario) if one not in scenario.checks)),
        fault_free=scenario.fault_free,
        faults_planned=len(plan.schedule.faults),
        min_acknowledged=scenario.min_acknowledged,
        keeps_front=not removal_allowed(scenario),
        expect=Expected(verdict=scenario.expect.verdict, anomalies=scenario.expect.anomalies),
        require=scenario.require.stated(),
        mutants=scenario.cluster.mutants,
        final_read=facts.final_read,
        trouble=tuple(facts.trouble),
        workload=scenario.load.model_dump(),
        options={
            **facts.notes,
            **_of_the_lab(hosts),
            "idle_nemesis": plan.idle_nemesis,
            **({} if scenario.cluster.system.ours else {SYSTEM: str(scenario.cluster.system)}),
            **({PLUGINS: used} if (used := plugins_of(scenario)) else {}),
        },
        node_config=dict(config_texts(scenario.cluster.config)),
        scenario_hash=scenario_hash(scenario),
        schedule_hash=plan.schedule.content_hash(),
        versions=dict(facts.versions),
        machine=dict(facts.machine),
        hosts=(
            *(_node_facts(node, hosts, facts.bundles.get(node.host, {})) for node in nodes),
            *(_client_facts(client, clocks) for client in clients),
        ),
    )


def _of_nodes(scenario: Scenario) -> tuple[str, ...]:
    """Return the checks on what nodes leave, if they leave it."""
    return OF_NODES if scenario.compares_replicas else ()


def _of_the_lab(hosts: Hosts) -> dict[str, Any]:
    """Describe the lab as it is without faults."""
    lab = hosts.lab
    if lab is None:
        return {}
    racks = {"racks": lab.racks.model_dump(mode="json")} if lab.racks.count else {}
    return racks | ({"reduced_lab": f"{'; '.join(LACKS)}; {lab.reduced}"} if lab.reduced else {})


def _node_facts(node: NodePlan, hosts: Hosts, bundle: Mapping[str, str]) -> HostFacts:
    rack = hosts.inventory.host(node.host).rack
    racks = {} if rack is None else {"rack": rack}
    return HostFacts(
        name=node.host,
        address=node.address,
        roles=node.roles,
        facts={"node id": str(node.node_id), **racks, **bundle},
    )


def _client_facts(client: ClientHost, clocks: Mapping[int, ClockReading]) -> HostFacts:
    """Describe a client host, and the reading of its clock."""
    clock = str(clocks.get(client.clock_id, ""))
    return HostFacts(
        name=client.name,
        address=client.remote.spec.address,
        roles=("load",),
        facts={"bundle": client.deployed.bundle.name, "clock": clock},
    )


def config_texts(config: Mapping[str, str | int | float | bool]) -> tuple[tuple[str, str], ...]:
    """Return settings as nodes read them."""
    return tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value)) for name, value in config.items()
    )


def scenario_hash(scenario: Scenario) -> str:
    """Return a hash that is equal for runs of the same scenario as it is stated, whatever their seed."""
    return hashlib.sha256(scenario.model_dump_json().encode()).hexdigest()
