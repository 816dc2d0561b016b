"""One run, from nothing to a history that can be judged:

    hosts up → deploy → cluster whole → load under faults → heal → final reads → nodes stopped, logs fetched

Judging is not done here: a run leaves a directory that `squall check` reads, now or in a year.

    runs/SCENARIO/TIME/
      run.json            the manifest: written at the start, and again at the end
      schedule.json       the faults, to the millisecond
      history/            one segment per load worker       faults.jsonl, cluster.jsonl
      nodes/HOST/         logs and configuration of every node
      worker-N.log        what the load workers had to say

The load is made on the inventory's client hosts; without any, by workers on this machine.

What can go wrong. Trouble outside the system under test (a host that went away, a cluster that never came up, an
interrupted run) is written into the manifest and makes the verdict unknown; the history up to there is kept.
Ctrl-C and SIGTERM cancel the run: the nemesis heals, workers flush, and everything ends in order. After a
`kill -9` of the control process the workers see their stdin end and flush, and the hosts end every fault at its
time to live.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import confluent_kafka

from squall.harness.bench_report import told_and_kept
from squall.harness.cluster import ClusterNotReady, Watcher, await_whole, create_topics
from squall.harness.display import Display, seconds_since
from squall.harness.errors import UsageError
from squall.harness.faults import FaultLog
from squall.harness.host_clocks import HostClocks
from squall.harness.hosts.capturing import LONGER_SECONDS, Captures, refuse_capture
from squall.harness.hosts.client_bundle import ClientHost, deploy_clients
from squall.harness.hosts.lab import DEFAULT_NAME, Lab, find_lab, lab_down, lab_up, standing_lab
from squall.harness.hosts.network import MachineNetwork, Network
from squall.harness.hosts.reduced_lab import LACKS
from squall.harness.hosts.system import ClusterSettings, SquallNodes
from squall.harness.inventory import Inventory, load_inventory, refuse_two_places
from squall.harness.lab_shape import NO_RACKS, LabShape
from squall.harness.load import LoadWorkers, WorkerFailed, start_local_workers
from squall.harness.load_agents import LoadAgents, refuse_without_clients
from squall.harness.operating import ClusterHands
from squall.harness.plan import RunPlan
from squall.harness.remote_load import RemoteLoadWorkers, start_remote_workers, workers_on
from squall.harness.targets import Nodes, refuse_bad_targets
from squall.harness.testbed import Testbed
from squall.nemesis.controls import silenced
from squall.nemesis.disk import watched_calls
from squall.nemesis.options import PauseClients
from squall.nemesis.ports import LoadHost
from squall.nemesis.registry import needed_verbs
from squall.nemesis.runner import NemesisEvent, NemesisRunner, Patience
from squall.nemesis.schedule import Schedule
from squall.results.manifest import Expected, HostFacts, Manifest, TopicFacts
from squall.results.segments import EventWriter
from squall.results.text import several
from squall.workloads.clients.client import Topic

READY_SECONDS = 30.0
NEMESIS_GRACE_SECONDS = 40.0
LOOK_SECONDS = 0.25
SCHEDULE_FILE = "schedule.json"


class Interrupted(Exception):
    """Somebody ended the run; what was recorded is kept."""


@dataclass(frozen=True)
class Hosts:
    """Where a run takes place."""

    inventory: Inventory
    network: Network
    lab: Lab | None = None
    standing: bool = False
    """A lab that was up before the run and stays after it."""

    @property
    def keep_clean(self) -> bool:
        """Whether the run's files have to be removed, because the hosts outlive it."""
        return self.lab is None or self.standing


@dataclass
class Facts:
    """What becomes known while a run goes on, and ends up in its manifest."""

    load_started: int | None = None
    load_ended: int | None = None
    final_read: str = ""
    completed: bool = False
    trouble: list[str] = field(default_factory=list)
    bundles: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)


def standing_hosts(inventory: Path | None, lab_name: str | None = None) -> Hosts:
    """Hosts that are there already: of a file, of a lab, of ./inventory.yaml, or of the lab that is up.

    Raises UsageError.
    """
    refuse_two_places(inventory, lab_name)
    if lab_name is not None:
        lab = standing_lab(lab_name)
        return Hosts(lab.inventory(), lab.network, lab, standing=True)
    if inventory is None and Path("inventory.yaml").exists():
        inventory = Path("inventory.yaml")
    found = load_inventory(inventory) if inventory is not None else None
    if found is not None and found.lab is None:
        return Hosts(found, MachineNetwork())
    standing = find_lab()
    if standing is None:
        raise UsageError(
            "no hosts: no inventory was given and no lab is up", remedy="squall lab up, or --inventory FILE"
        )
    return Hosts(standing.inventory(), standing.network, standing, standing=True)


@contextlib.asynccontextmanager
async def hosts_of(
    plan: RunPlan, inventory: Inventory | None, display: Display, lab_name: str | None = None
) -> AsyncIterator[Hosts]:
    """The hosts of an inventory; the named lab; the default lab, if it is up and of the right shape; else a lab of
    the run's own, which ends with the run, by whatever death.
    """
    if inventory is not None and inventory.lab is None:
        yield Hosts(inventory, MachineNetwork())
        return
    cluster = plan.scenario.cluster
    shape = inventory.lab if inventory is not None and inventory.lab is not None else cluster
    racks = shape.in_racks() if isinstance(shape, LabShape) else NO_RACKS
    standing = await asyncio.to_thread(find_lab if lab_name is None else standing_lab, lab_name or DEFAULT_NAME)
    fits = standing is not None and _shape_of(standing) == (shape.controllers, shape.brokers, shape.clients)
    if standing is not None and isinstance(shape, LabShape):
        fits = fits and standing.racks == racks  # a suite says nothing of racks, and takes what there is
    if standing is not None and (lab_name or fits):
        display.stage("lab", f"{standing.name}, {_extent(standing)}, already up", _names(standing))
        _say_if_reduced(display, standing)
        yield Hosts(standing.inventory(), standing.network, standing, standing=True)
        return
    name = f"run-{plan.run_id[:8]}"
    lab = await asyncio.to_thread(
        lambda: lab_up(shape.controllers, shape.brokers, shape.clients, racks=racks, name=name, owner=os.getpid())
    )
    try:
        display.stage("lab", f"{_extent(lab)} up in {lab.up_seconds:.1f} s", _names(lab))
        _say_if_reduced(display, lab)
        yield Hosts(lab.inventory(), lab.network, lab)
    finally:
        await asyncio.shield(asyncio.to_thread(lab_down, name))


def _shape_of(lab: Lab) -> tuple[int, int, int]:
    inventory = lab.inventory()
    return len(inventory.controllers), len(inventory.brokers), len(inventory.clients)


def _extent(lab: Lab) -> str:
    racks = f" in {lab.racks.count} racks" if lab.racks.count else ""
    return f"{len(lab.hosts)} hosts{racks}"


def _say_if_reduced(display: Display, lab: Lab) -> None:
    if lab.reduced:
        display.say(f"reduced    {LACKS[0]}; {LACKS[1]}", style="yellow")
        display.say(f"{'':<11}{lab.reduced}", style="yellow")


def _names(lab: Lab) -> str:
    inventory = lab.inventory()
    controllers = " ".join(host.name for host in inventory.controllers)
    brokers = " ".join(host.name for host in inventory.brokers)
    clients = " ".join(host.name for host in inventory.clients)
    parts = [f"controllers {controllers}", f"brokers {brokers}"]
    return " · ".join([*parts, *([f"clients {clients}"] if clients else []), *(["no root"] if lab.rootless else [])])


class ScenarioRun:
    """Carries out one plan on some hosts."""

    def __init__(self, plan: RunPlan, hosts: Hosts, display: Display, *, command: str) -> None:
        self.plan = plan
        self.scenario = plan.scenario
        self.hosts = hosts
        self.display = display
        self.command = command
        self.directory = plan.directory
        self.facts = Facts()
        self.started = datetime.now(UTC)
        self.testbed = Testbed(hosts.inventory, hosts.network, self.scenario.loaded_topics)
        self.workers: LoadWorkers | None = None
        self.clients: list[ClientHost] = []
        self.load_agents: LoadAgents | None = None
        self.captures: Captures | None = None
        self.fault_log: FaultLog | None = None
        self.watching: asyncio.Task[None] | None = None
        self.watcher: Watcher | None = None
        self.clocks = HostClocks(self.directory)

    async def run(self) -> Path:
        """Carry it out and return the run's directory. Raises UsageError for what a person must mend first."""
        self.directory.mkdir(parents=True, exist_ok=True)
        point_latest_at(self.directory)
        (self.directory / SCHEDULE_FILE).write_text(json.dumps(self.plan.schedule.to_json(), indent=2) + "\n")
        self._save_manifest()
        try:
            await self._bring_up()
            await self._load_under_faults()
            await self._final_reads()
            self.facts.completed = True
        except (ClusterNotReady, WorkerFailed) as trouble:
            self.facts.trouble.append(str(trouble))
            self.display.say(f"trouble    {trouble}", style="yellow")
        except asyncio.CancelledError:
            self.facts.trouble.append("the run was interrupted")
            raise
        finally:
            await asyncio.shield(asyncio.ensure_future(self._wind_up()))
        return self.directory

    def discard_if_empty(self) -> None:
        """Remove the directory of a run that never began to load: there is nothing in it to judge."""
        if self.facts.load_started is None:
            shutil.rmtree(self.directory, ignore_errors=True)

    # --- stages ------------------------------------------------------------------------------------------------

    async def _bring_up(self) -> None:
        began = time.monotonic()
        cluster = self.scenario.cluster
        calls = watched_calls(fault.options for fault in self.plan.schedule.faults)
        settings = ClusterSettings(self.plan.run_id, cluster.config, cluster.mutants, cluster.dynamic_voters, calls)
        self._refuse_too_few_brokers()
        nodes = Nodes.of_inventory(self.hosts.inventory)
        refuse_bad_targets(self.plan.suite, self.scenario, self.plan.schedule, nodes)
        if self.plan.capture:
            refuse_capture(self.hosts.inventory)
        if self._aims_at_clients():
            refuse_without_clients(self.plan.suite, self.hosts.inventory.source, self.hosts.inventory.clients)
        await self.testbed.deploy(SquallNodes(), settings, faults=bool(self.plan.schedule.faults))
        await self.testbed.refuse_unable(needed_verbs(fault.options for fault in self.plan.schedule.faults))
        bundle = next(iter(self.testbed.deployed.values())).bundle
        self.facts.bundles = {
            name: {"bundle": one.bundle.name, "checksums": one.bundle.checksums}
            for name, one in self.testbed.deployed.items()
        }
        self.display.stage(
            "deploy",
            f"node {bundle.name[:14]}… ({len(bundle.archive) / 1024:.0f} kB)",
            f"{len(self.testbed.plans)} hosts in {time.monotonic() - began:.1f} s",
        )
        remotes = [self.testbed.remotes[host.name] for host in self.hosts.inventory.clients]
        self.clients = await asyncio.to_thread(deploy_clients, remotes)
        for name, one in self.testbed.deployed.items():
            if one.bundle.checksums.startswith("pure"):
                self.display.say(f"{'':<11}{name} will be slow: checksums in {one.bundle.checksums}", style="yellow")
        began = time.monotonic()
        await self.testbed.start()
        if self.plan.capture:
            self.captures = self.testbed.captures()
            await self.captures.start(self.scenario.time.load + LONGER_SECONDS)
        await self._await_cluster(began)
        self.display.stage("seed", str(self.plan.seed), f"repeat with: {self.command}")
        if calls:
            self.display.say(f"watch      nodes are asked before these disk calls, for faults: {', '.join(calls)}")
        if self.scenario.cluster.mutants:
            self.display.say(f"mutants    {', '.join(self.scenario.cluster.mutants)}: the nodes are broken on purpose")

    def _aims_at_clients(self) -> bool:
        return any(isinstance(fault.options, PauseClients) for fault in self.plan.schedule.faults)

    def _refuse_too_few_brokers(self) -> None:
        """Raise UsageError if there are fewer brokers than a topic is to have replicas."""
        brokers = len(self.hosts.inventory.brokers)
        for name, topic in self.scenario.cluster.topics.items():
            if topic.replication_factor > brokers:
                raise UsageError(
                    f"{self.plan.suite}: cluster.topics.{name}.replication_factor: {topic.replication_factor} replicas"
                    f" need as many brokers; {self.hosts.inventory.source} has {brokers}",
                    remedy="add hosts to the group `brokers`, or lower replication_factor",
                )

    async def _await_cluster(self, began: float) -> None:
        topics = tuple(
            Topic(
                name,
                topic.partitions,
                topic.replication_factor,
                (("min.insync.replicas", str(topic.min_insync_replicas)), *_texts(topic.config)),
            )
            for name, topic in self.scenario.cluster.topics.items()
        )
        try:
            await create_topics(self.testbed.admin, topics, READY_SECONDS)
            state = await await_whole(
                self.testbed.admin, len(self.testbed.bootstrap()), self.scenario.topics, READY_SECONDS
            )
        except ClusterNotReady as trouble:
            statuses = await self.testbed.statuses()
            down = ", ".join(f"{name} {state}" for name, state in statuses.items() if state != "running")
            raise ClusterNotReady(
                f"the cluster did not become ready: {trouble}" + (f"; {down}" if down else "")
            ) from None
        controller = self.testbed.cluster.names.name(state.controller)
        first = next(iter(self.scenario.cluster.topics.values()))
        self.display.stage(
            "cluster",
            f"ready in {time.monotonic() - began:.1f} s",
            f"controller {controller} epoch {state.controller_epoch} · "
            f"{several(sum(self.scenario.topics.values()), 'topic-partition')}, "
            f"RF {first.replication_factor}, min ISR {first.min_insync_replicas}",
        )

    async def _load_under_faults(self) -> None:
        began = await self._begin_load()
        nemesis = asyncio.create_task(self._nemesis(began))
        try:
            await self._show_load(began, nemesis)
            if not nemesis.done():
                await asyncio.wait({nemesis}, timeout=NEMESIS_GRACE_SECONDS)
        finally:
            await cancelled(nemesis)
            self._show_progress(began)
            self.display.end_load()
        self._tell_bench(began)
        if nemesis.done() and not nemesis.cancelled():
            nemesis.result()

    def _tell_bench(self, began: int) -> None:
        """What a workload that measures has measured."""
        assert self.workers is not None and self.facts.load_ended is not None
        seconds = (self.facts.load_ended - began) / 1e9
        for line in told_and_kept(self.scenario, self.workers.latencies, seconds, self.directory):
            self.display.say(line)

    async def _begin_load(self) -> int:
        """Workers up and at work; the moment they began, on the history's clock."""
        await self._read_clocks()
        self.workers = await self._start_workers()
        await self.workers.open()
        if isinstance(self.workers, RemoteLoadWorkers) and self._aims_at_clients():
            numbers = [spec.worker for spec in self.workers.specs]
            self.load_agents = await LoadAgents.beside(self.workers.workers, numbers)
        if isinstance(self.workers, RemoteLoadWorkers):
            uncertain = max(reading.error for reading in self.workers.known_clocks().values()) / 1e6
            self.display.stage(
                "load",
                f"from {' '.join(dict.fromkeys(worker.host.name for worker in self.workers.workers))}",
                f"{len(self.workers.pipes)} workers · their clocks are known to {uncertain:.2f} ms",
            )
        self._watch()
        self.display.begin_load()
        began = await self.workers.load()
        self.facts.load_started = began
        self._save_manifest()
        return began

    async def _start_workers(self) -> LoadWorkers:
        """On the client hosts, if there are any, else here."""
        if self.clients:
            return await start_remote_workers(
                workers_on(len(self.clients), self.plan.workers, self.scenario.workload.producers),
                hosts=self.clients,
                directory=self.directory,
                run_id=self.plan.run_id,
                workload=self.scenario.workload.model_dump(),
                topics=self.scenario.loaded_topics,
                bootstrap=self.testbed.bootstrap(),
            )
        return await start_local_workers(
            self.plan.workers,
            prefix=self.hosts.network.command_prefix(),
            directory=self.directory,
            run_id=self.plan.run_id,
            workload=self.scenario.workload.model_dump(),
            topics=self.scenario.loaded_topics,
            bootstrap=self.testbed.bootstrap(),
        )

    async def _nemesis(self, began: int) -> None:
        """The faults in their time; each change is written and shown."""
        self.fault_log = FaultLog(EventWriter.faults(self.directory), lambda window: self.display.fault(window, began))
        operator = self.testbed.operator()
        try:
            await self._runner(self.plan.schedule, operator, self.fault_log.note).run(began)
        finally:
            await operator.close()

    def _runner(
        self,
        schedule: Schedule,
        operator: ClusterHands,
        report: Callable[[NemesisEvent], None],
        patience: Patience | None = None,
    ) -> NemesisRunner:
        """Who carries out a schedule on this run's hosts, or, in a control, only says so."""
        hosts = self.testbed.hosts
        return NemesisRunner(
            schedule,
            silenced(hosts) if self.plan.idle_nemesis else hosts,
            self.testbed.cluster,
            now_ns=self.testbed.now_ns,
            sleep=self.testbed.sleep,
            report=report,
            ports=self.testbed.ports(),
            patience=patience,
            operator=None if self.plan.idle_nemesis else operator,
            knock=self.testbed.knock,
            loads=self._loads(),
        )

    def _loads(self) -> dict[str, LoadHost]:
        """Client hosts that faults may be aimed at; in a control, under a nemesis that does nothing."""
        if self.load_agents is None:
            return {}
        loads = dict(self.load_agents.hosts)
        hosts = {name: load.host for name, load in loads.items()}
        quiet = silenced(hosts) if self.plan.idle_nemesis else hosts
        return {name: LoadHost(quiet[name], load.processes) for name, load in loads.items()}

    async def _show_load(self, began: int, nemesis: asyncio.Task[None]) -> None:
        """Until the load has lasted its time. Raises WorkerFailed if a worker fails meanwhile."""
        assert self.workers is not None
        end = began + int(self.scenario.time.load * 1e9)
        while (now := self.testbed.now_ns()) < end:
            self._show_progress(began)
            await asyncio.wait({self.workers.failure}, timeout=min(LOOK_SECONDS, (end - now) / 1e9))
            if self.workers.failure.done():
                self.workers.failure.result()
            if nemesis.done():
                nemesis.result()
        self.facts.load_ended = self.testbed.now_ns()
        await self.workers.stop()

    def _show_progress(self, began: int) -> None:
        assert self.workers is not None
        elapsed = seconds_since(began, self.testbed.now_ns())
        totals = self.workers.totals()
        lasted = min(elapsed, self.scenario.time.load)
        per_second = totals.of("send", "ok") / lasted if lasted > 0 else 0.0
        self.display.load_progress(elapsed, self.scenario.time.load, totals, per_second)

    async def _final_reads(self) -> None:
        assert self.workers is not None
        silent = await self.testbed.heal()
        said = ["all faults healed" if not silent else f"not healed yet: {', '.join(silent)} did not answer"]
        try:
            await await_whole(
                self.testbed.admin, len(self.testbed.bootstrap()), self.scenario.topics, self.scenario.time.settle
            )
        except ClusterNotReady as trouble:
            self.facts.notes["recovery"] = str(trouble)
            said.append(f"not whole {trouble}")
        reads = await self.workers.final(self.scenario.workload.final_timeout)
        marked = sum(read["marker_offset"] is not None for read in reads)
        missing = [f"{read['topic']}/{read['partition']}" for read in reads if not read["complete"]]
        self.facts.final_read = "complete" if not missing else f"incomplete: {', '.join(missing)}"
        said.append(f"markers acknowledged on {marked}/{len(reads)}")
        said.append("final reads complete" if not missing else f"final reads incomplete: {', '.join(missing)}")
        self.display.say(f"{'final':<7}" + " · ".join(said))
        await self.workers.close()

    async def _wind_up(self) -> None:
        """Whatever happened: no fault stays, workers end, logs are fetched, the manifest tells the truth."""
        self.display.end_load()
        if self.watching is not None:
            await cancelled(self.watching)
        if self.watcher is not None:
            self.facts.notes |= {
                "leader_changes": self.watcher.leader_changes,
                "controller_elections": self.watcher.elections,
            }
        if self.load_agents is not None:  # a worker that sleeps does not end
            await self.load_agents.heal()
            await self.load_agents.close()
        if self.workers is not None:
            await self.workers.end()
            self.facts.trouble += self.workers.trouble
        if self.testbed.agents:
            silent = await self.testbed.heal()
            if silent:
                self.display.say(
                    f"heal       not confirmed by {', '.join(silent)}; faults there end at their time to live"
                )
            await self.testbed.stop()
            try:
                await self._read_clocks()
                await self._end_captures()
                await self.testbed.collect(self.directory / "nodes")
                if self.hosts.keep_clean:
                    await self.testbed.remove()
            except UsageError as trouble:
                self.facts.notes["collecting"] = str(trouble)
        await self.testbed.close()
        self._save_manifest()

    async def _read_clocks(self) -> None:
        """What the stamps in node logs mean."""
        remotes = [self.testbed.remotes[name] for name in self.testbed.plans]
        await self.clocks.read(remotes, shared=self.hosts.lab is not None)

    async def _end_captures(self) -> None:
        if self.captures is None:
            return
        ended = await self.captures.end(self.directory / "nodes")
        self.display.say(f"capture    {sum(one.written for one in ended)} packets, in nodes/HOST/capture.pcap")
        for one in ended:
            if not one.is_whole:
                missing = f"{one.without_room} left out for want of room, {one.missed} missed by the kernel"
                self.display.say(f"{'':<11}{one.host}: {missing}", style="yellow")

    def _watch(self) -> None:
        writer = EventWriter.cluster(self.directory)
        self.watcher = Watcher(self.testbed.cluster, self.testbed.now_ns, self.testbed.sleep, writer.write)
        self.watching = asyncio.create_task(self.watcher.run())

    # --- the manifest ------------------------------------------------------------------------------------------

    def _save_manifest(self) -> None:
        scenario, facts = self.scenario, self.facts
        Manifest(
            run_id=self.plan.run_id,
            scenario=scenario.scenario,
            seed=self.plan.seed,
            topics={
                name: TopicFacts(
                    partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    min_insync_replicas=topic.min_insync_replicas,
                )
                for name, topic in scenario.cluster.topics.items()
                if topic.load
            },
            suite=str(self.plan.suite),
            description=scenario.description,
            covers=scenario.covers,
            started=self.started.isoformat(timespec="seconds"),
            command=self.command,
            load_started=facts.load_started,
            load_ended=facts.load_ended,
            completed=facts.completed,
            checks=scenario.checks,
            fault_free=scenario.fault_free,
            faults_planned=len(self.plan.schedule.faults),
            min_acknowledged=scenario.min_acknowledged,
            expect=Expected(verdict=scenario.expect.verdict, anomalies=scenario.expect.anomalies),
            require=scenario.require.stated(),
            mutants=scenario.cluster.mutants,
            final_read=facts.final_read,
            trouble=tuple(facts.trouble),
            workload=scenario.workload.model_dump(),
            options={**facts.notes, **self._of_the_lab(), "idle_nemesis": self.plan.idle_nemesis},
            node_config=dict(_texts(scenario.cluster.config)),
            schedule_hash=self.plan.schedule.content_hash(),
            versions=versions(),
            machine=machine(),
            hosts=tuple(
                HostFacts(
                    name=plan.host,
                    address=plan.address,
                    roles=plan.roles,
                    facts={"node id": str(plan.node_id), **self._rack(plan.host), **facts.bundles.get(plan.host, {})},
                )
                for plan in self.testbed.plans.values()
            )
            + self._client_facts(),
        ).save(self.directory)

    def _rack(self, name: str) -> dict[str, str]:
        rack = self.hosts.inventory.host(name).rack
        return {} if rack is None else {"rack": rack}

    def _of_the_lab(self) -> dict[str, Any]:
        """What the lab was like when nothing was wrong with it."""
        lab = self.hosts.lab
        if lab is None:
            return {}
        racks = {"racks": lab.racks.model_dump(mode="json")} if lab.racks.count else {}
        return racks | ({"reduced_lab": f"{'; '.join(LACKS)}; {lab.reduced}"} if lab.reduced else {})

    def _client_facts(self) -> tuple[HostFacts, ...]:
        """The client hosts, and what is known of their clocks."""
        clocks = self.workers.known_clocks() if isinstance(self.workers, RemoteLoadWorkers) else {}
        return tuple(
            HostFacts(
                name=client.name,
                address=client.remote.spec.address,
                roles=("load",),
                facts={
                    "bundle": client.deployed.bundle.name,
                    "clock": str(clocks.get(client.clock_id, "")),
                },
            )
            for client in self.clients
        )


def point_latest_at(directory: Path) -> None:
    """`runs/latest`, where `runs` is two levels above a run."""
    link = directory.parent.parent / "latest"
    draft = link.with_name(f".latest-{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(directory.relative_to(link.parent))
    draft.replace(link)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end; what it raises then was already told."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})


def _texts(config: Mapping[str, str | int | float | bool]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value)) for name, value in config.items()
    )


def versions() -> dict[str, str]:
    """The programs a verdict depends on."""
    return {
        "squall": metadata.version("squall"),
        "python": platform.python_version(),
        "confluent-kafka": metadata.version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
    }


def machine() -> dict[str, str]:
    """The control node, as far as it explains figures."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
    }
