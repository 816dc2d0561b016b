"""`--dry-run`: list every command of a run, host by host and in order, without starting or contacting anything.

    squall plan SUITE --dry-run        squall run SUITE --dry-run --inventory FILE

The commands that deploy, start, stop and remove nodes come from their implementation (`hosts/system.py`). The verbs of
faults come from the faults themselves: each one is aimed, injected and healed among stand-ins of hosts that only record
the calls. A role (`leader of events/*`, `one broker`) is resolved only when the fault starts; the stand-ins have
leaders spread evenly and the first controller active, and such lines are marked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from squall.harness.hosts.deploy import BASE, HostPaths
from squall.harness.hosts.system import ClusterSettings, NodePlan, agent_command, system_of
from squall.harness.lab.lab import lab_hosts, standing_lab
from squall.harness.run.fakes import FakeClock, FakeCluster, FakeHost, FakeOperator
from squall.harness.scenario.inventory import Inventory
from squall.harness.scenario.plan import RunPlan, described, plan_suite
from squall.harness.scenario.suite import Suite
from squall.harness.scenario.targets import Nodes, refuse_bad_targets
from squall.nemesis.core.fault import ActsByItself, Fault, FaultContext
from squall.nemesis.core.ports import NODE_PROCESS, LoadHost
from squall.nemesis.core.selector import Named, parts_of
from squall.nemesis.entries import targets_of
from squall.nemesis.faults.disk.disk import watched_calls
from squall.nemesis.registry import build_fault
from squall.nemesis.runner import Patience
from squall.nemesis.schedule import ScheduledFault

CLUSTER = "cluster"
"""In place of a host, for requests to the cluster over the Kafka protocol."""
BEFORE, AFTER = float("-inf"), float("inf")
LONGEST_PHASE_SECONDS = 2.0
MOST_OF_A_KIND = 20
"""After this many calls of one fault to one host the rest is abbreviated."""


@dataclass(frozen=True)
class Command:
    """One line: when (seconds of load; before and after it), where, what, and the fault it belongs to."""

    at_s: float
    host: str
    text: str
    note: str = ""

    @property
    def when(self) -> str:
        return {BEFORE: "before", AFTER: "after"}.get(self.at_s, f"{self.at_s:8.3f} s")


class DryRun:
    """One plan on the hosts of an inventory, or of the lab it would have."""

    def __init__(self, plan: RunPlan, inventory: Inventory | None = None) -> None:
        self.plan = plan
        cluster = plan.scenario.cluster
        self.inventory = inventory or Inventory("the lab it would have", lab_hosts(cluster.lab, Path("keys")))
        refuse_bad_targets(plan.suite, plan.scenario, plan.schedule, Nodes.of_inventory(self.inventory))
        calls = watched_calls(fault.options for fault in plan.schedule.faults)
        self._settings = ClusterSettings(plan.run_id, cluster.config, cluster.mutants, cluster.dynamic_voters, calls)
        nodes = {host.name: host for host in self.inventory.with_nodes}
        self._places = {
            name: HostPaths(python=host.python, home="~", bundle=f"~/{BASE}/bundles/BUNDLE")
            for name, host in nodes.items()
        }
        self.nodes: dict[str, NodePlan] = system_of(cluster.system, cluster.metadata).configure(
            self.inventory, self._places, self._settings
        )
        self._earlier: dict[str, tuple[str, ...]] = {}

    @property
    def hosts(self) -> dict[str, str]:
        """Return every host of the plan, with its address."""
        return {host.name: host.address for host in self.inventory.hosts}

    def commands(self) -> list[Command]:
        """Return all commands, in order of time; those of one moment in order of hosts."""
        faults = [one for fault in self.plan.schedule.faults for one in asyncio.run(self._of_fault(fault))]
        return [*self._first(), *sorted(faults, key=lambda one: one.at_s), *self._last()]

    def _first(self) -> Iterator[Command]:
        for host in sorted(self.inventory.hosts, key=lambda one: (one.address, one.port)):
            yield Command(BEFORE, host.name, "take the host's lock, or end with 254 if another run has it")
        for host in self.inventory.hosts:
            if (node := self.nodes.get(host.name)) is None:
                continue
            place = self._places[host.name]
            yield Command(BEFORE, host.name, f"send the bundle to {place.bundle}, unless it is there")
            yield Command(BEFORE, host.name, shlex.join(["mkdir", "-p", *node.directories]))
            for path, text in node.files.items():
                yield Command(BEFORE, host.name, f"put {path}, {len(text.encode())} bytes")
            if node.preparation:
                yield Command(BEFORE, host.name, shlex.join(node.preparation))
            yield Command(BEFORE, host.name, shlex.join(agent_command(place, host)))
            yield Command(BEFORE, host.name, called("proc.define", node.process.arguments()))
            yield Command(BEFORE, host.name, called("proc.start", {"name": NODE_PROCESS}))

    def _last(self) -> Iterator[Command]:
        for host in self.inventory.hosts:
            if (node := self.nodes.get(host.name)) is None:
                continue
            yield Command(AFTER, host.name, called("heal", {}))
            yield Command(AFTER, host.name, called("proc.stop", {"name": NODE_PROCESS}))
            for path in node.logs:
                yield Command(AFTER, host.name, f"fetch {path}")
            yield Command(AFTER, host.name, shlex.join(["rm", "-rf", "--", *node.directories]))
        for host in self.inventory.hosts:
            yield Command(AFTER, host.name, "give the host's lock back")

    async def _of_fault(self, scheduled: ScheduledFault) -> list[Command]:
        """Return the commands of one occurrence, by carrying it out among stand-ins."""
        hosts = {name: FakeHost(name, node.address) for name, node in self.nodes.items()}
        clients = {host.name: FakeHost(host.name, host.address) for host in self.inventory.clients}
        operator = FakeOperator([name for name, node in self.nodes.items() if "controller" in node.roles])
        context = self._context(scheduled, hosts, clients, operator)
        fault = build_fault(scheduled.options, context)
        found: list[Command] = []
        phases = (("look", scheduled.at_s), ("inject", scheduled.at_s), ("heal", scheduled.at_s + scheduled.for_s))
        note = f"{scheduled.id}: {_aimed_at(scheduled)}"
        try:
            target = await fault.aim()
        except Exception as trouble:  # for example: a stand-in cluster has no replicas out of sync
            text = f"{scheduled.options.fault}, on hosts that are known only then"
            return [Command(scheduled.at_s, CLUSTER, text, f"{note}; {trouble}")]
        if scheduled.options.label is not None:
            self._earlier[scheduled.options.label] = target.hosts
        for phase, at_s in phases:
            await self._carry_out(fault, phase, scheduled.for_s)
            for host in (*hosts.values(), *clients.values()):
                found += [Command(at_s, host.name, text, note) for text in _written(host.asked)]
                host.asked.clear()
            found += [Command(at_s, CLUSTER, text, note) for text in operator.asked]
            operator.asked.clear()
        return found

    async def _carry_out(self, fault: Fault, phase: str, for_s: float) -> None:
        """Carry out one phase. A failure over a stand-in's response is ignored: the calls are recorded by then."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(LONGEST_PHASE_SECONDS):
                if phase == "inject":
                    await fault.inject(for_s + Patience().ttl_margin)
                    await asyncio.sleep(0)
                    if isinstance(fault, ActsByItself):
                        await fault.stand_down()
                elif phase == "heal":
                    await fault.heal()
                else:
                    await fault.observe()

    def _with_role(self, role: str) -> tuple[str, ...]:
        return tuple(name for name, node in self.nodes.items() if role in node.roles)

    def _context(
        self,
        scheduled: ScheduledFault,
        hosts: Mapping[str, FakeHost],
        clients: Mapping[str, FakeHost],
        operator: FakeOperator,
    ) -> FaultContext:
        topics = self.plan.scenario.cluster.topics
        clock = FakeClock()
        return FaultContext(
            id=scheduled.id,
            hosts=hosts,
            cluster=FakeCluster(
                brokers=self._with_role("broker"),
                controllers=self._with_role("controller") or self._with_role("broker"),
                zookeeper=self._with_role("zookeeper"),
                topics={name: topic.partitions for name, topic in topics.items()},
                replication={name: topic.replication_factor for name, topic in topics.items()},
            ),
            now_ns=clock.now_ns,
            sleep=clock.sleep,
            rng=random.Random(scheduled.seed),
            earlier=self._earlier.get,
            operator=operator,
            loads={name: LoadHost(client, ("load",)) for name, client in clients.items()},
        )


def called(verb: str, arguments: Mapping[str, object]) -> str:
    """Format a verb as the agent receives it."""
    return f"{verb} {json.dumps(arguments, default=str)}"


def _written(asked: Sequence[tuple[str, dict[str, object]]]) -> list[str]:
    """Return calls as text, without those that only repeat the previous one."""
    texts: list[str] = []
    for verb, arguments in asked:
        text = called(verb, arguments)
        if not texts or texts[-1] != text:
            texts.append(text)
    return texts if len(texts) <= MOST_OF_A_KIND else [*texts[:MOST_OF_A_KIND], "… and so on"]


def _aimed_at(scheduled: ScheduledFault) -> str:
    """Return the targets as written; a role is marked, because the shown host is a stand-in's."""
    targets = targets_of(scheduled.options)
    said = ", ".join(f"{name} {text}" for name, text in targets.items())
    by_role = any(not isinstance(part, Named) for text in targets.values() for part in parts_of(text))
    return f"{said} (resolved at that time)" if by_role else said or scheduled.options.fault


def printed(dry: DryRun) -> Iterator[str]:
    """Yield the lines host by host, in order; then the requests to the cluster."""
    commands = dry.commands()
    for host in (*dry.hosts, CLUSTER):
        mine = [one for one in commands if one.host == host]
        if not mine:
            continue
        yield ""
        yield (
            f"{host:<11}{dry.nodes[host].address}" if host in dry.nodes else f"{host:<11}asked over the Kafka protocol"
        )
        said = ""
        for one in mine:
            if one.note and one.note != said:
                yield f"{'':<13}# {one.note}"
            said = one.note
            yield f"{one.when:>11}  {one.text}"


def print_dry_run(
    out: Console, suite: Suite, seed: int, inventory: Inventory | None = None, lab: str | None = None
) -> None:
    """Print every run of a suite: what it would do, and every command.

    Raises the UsageError that a run would raise first.
    """
    if lab is not None:
        inventory = standing_lab(lab).inventory()
    for plan in plan_suite(suite, seed, Path("runs")):
        for label, text in described(plan.scenario, plan.schedule):
            out.print(f"{label:<11}{text}", markup=False)
        for line in printed(DryRun(plan, inventory if inventory is None or inventory.lab is None else None)):
            out.print(line, markup=False, soft_wrap=True)
        out.print()
