"""Carry out one run, from nothing to a history that can be judged.

    hosts up → deploy → cluster whole → load under faults → heal → final reads → nodes stopped, logs fetched

The run is not judged here: it leaves a directory that `squall check` reads, now or in a year.

    runs/SCENARIO/TIME/
      run.json          the manifest: written at the start, and again at the end
      schedule.json     the faults, to the millisecond
      history/          one segment per load worker
      faults.jsonl, cluster.jsonl
      nodes/HOST/       logs and configuration of every node
      worker-N.log      output of the load workers

The load is generated on the inventory's client hosts; without any, by workers on this machine.

A failure outside the system under test (a lost host, a cluster that never became ready, an interrupted run) is written
into the manifest and makes the verdict unknown; the history up to there is kept. Ctrl-C and SIGTERM cancel the run: the
nemesis heals, workers flush, and everything ends in order. After a `kill -9` of the control process the workers see
their stdin end and flush, and the hosts end every fault at its time to live.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from squall.harness.errors import UsageError, file_problem
from squall.harness.hosts.client_bundle import ClientHost, deploy_clients
from squall.harness.hosts.clock_offsets import HostClocks
from squall.harness.hosts.host_locks import LockLost
from squall.harness.hosts.packet_capture import LONGER_SECONDS, Captures, refuse_capture
from squall.harness.hosts.system import ClusterSettings, ReachedSystem, System, system_of
from squall.harness.load.client_samples import ClientSamples, client_samples, close_all
from squall.harness.load.load import LoadWorkers, WorkerFailed, start_local_workers
from squall.harness.load.load_agents import LoadAgents
from squall.harness.load.remote_load import RemoteLoadWorkers, start_remote_workers, workers_on
from squall.harness.run.bench_report import told_and_kept
from squall.harness.run.client_programs import local_program, programs_on
from squall.harness.run.host_sampler import HostSampler
from squall.harness.run.node_records import NodeRecords
from squall.harness.run.reached import ReachedTestbed
from squall.harness.run.run_hosts import Hosts
from squall.harness.run.run_manifest import Facts, config_texts, manifest_of
from squall.harness.run.starting import ready_unless_ended
from squall.harness.run.testbed import Testbed
from squall.harness.scenario.admin import ClusterAdmin
from squall.harness.scenario.cluster import ClusterNotReady, Watcher, await_whole, create_topics
from squall.harness.scenario.faults import FaultLog
from squall.harness.scenario.plan import RunPlan
from squall.harness.scenario.targets import (
    Nodes,
    refuse_bad_targets,
    refuse_too_few_brokers,
    refuse_unfit_controllers,
    refuse_without_clients,
)
from squall.harness.terminal.display import Display, seconds_since
from squall.nemesis.controls import silenced
from squall.nemesis.core.ports import LoadHost
from squall.nemesis.faults.disk.disk import watched_calls
from squall.nemesis.options import PauseClients
from squall.nemesis.registry import needed_verbs
from squall.nemesis.runner import NemesisEvent, NemesisRunner, Patience
from squall.nemesis.schedule import Schedule
from squall.results.checkers.common.text import several
from squall.results.history.host_samples import SAMPLES, samples_writer
from squall.results.history.manifest import Manifest
from squall.results.history.segments import EventWriter
from squall.results.history.store import discard_run, point_latest
from squall.results.verdict.further import NOT_COLLECTED
from squall.workloads.clients.common.client import ClusterState, Topic

READY_SECONDS = 30.0
READY_SECONDS_PER_REPLICA = 0.003
"""The additional time to create one log: ten thousand topic-partitions on a cold disk need more than half a minute."""
LOOKS_UNTIL_READY = 300
"""The most polls until the cluster is ready: describing many topic-partitions burdens brokers that create them."""
NEMESIS_GRACE_SECONDS = 40.0
LOOK_SECONDS = 0.25
SCHEDULE_FILE = "schedule.json"


class ScenarioRun:
    """Carries out one plan on some hosts. The plan's directory exists, empty, for this run only (`claim_run`)."""

    def __init__(
        self, plan: RunPlan, hosts: Hosts, display: Display, *, command: str, system: System | None = None
    ) -> None:
        """`system` is the one that the plan chooses, if it was made before."""
        self.plan = plan
        self.scenario = plan.scenario
        self.system = system or system_of(plan.scenario.cluster.system, plan.scenario.cluster.metadata)
        self.hosts = hosts
        self.display = display
        self.command = command
        self.slow_start = self.scenario.cluster.system.limits.start_seconds
        self.directory = plan.directory
        self.facts = Facts()
        self.started = datetime.now(UTC)
        self.token = None if hosts.lock is None else hosts.lock.token
        self.testbed = self._testbed()
        self.workers: LoadWorkers | None = None
        self.clients: list[ClientHost] = []
        self.load_agents: LoadAgents | None = None
        self.captures: Captures | None = None
        self.fault_log: FaultLog | None = None
        self.watching: asyncio.Task[None] | None = None
        self.watcher: Watcher | None = None
        self.sampling: asyncio.Task[None] | None = None
        self.client_samples: dict[str, ClientSamples] = {}
        self.sampler: HostSampler | None = None
        self.clocks = HostClocks(self.directory)
        self.node_records = NodeRecords(self.testbed, self.directory)

    async def run(self) -> Path:
        """Carry it out and return the run's directory. Raises UsageError for what a person must correct first."""
        (self.directory / SCHEDULE_FILE).write_text(json.dumps(self.plan.schedule.to_json(), indent=2) + "\n")
        self._manifest().save(self.directory)
        try:
            stages = self._stages()
            await (stages if self.hosts.lock is None else self.hosts.lock.guard(stages))
            self.facts.completed = True
        except (ClusterNotReady, WorkerFailed, LockLost) as trouble:
            self.facts.trouble.append(str(trouble))
            self.display.say(f"trouble    {trouble}", style="yellow")
        except OSError as trouble:
            self._tell_unwritten(trouble)
        except asyncio.CancelledError:
            self.facts.trouble.append("the run was interrupted")
            raise
        finally:
            await asyncio.shield(asyncio.ensure_future(self._wind_up()))
        return self.directory

    def _testbed(self) -> Testbed:
        topics = self.scenario.loaded_topics
        if isinstance(self.system, ReachedSystem):
            return ReachedTestbed(self.hosts.network, topics, self.system.bootstrap, self.system.security)
        return Testbed(self.hosts.inventory, self.hosts.network, topics, self.token)

    def discard_if_empty(self) -> None:
        """Remove the directory of a run that never began to load: it has nothing to judge."""
        if self.facts.load_started is None:
            discard_run(self.directory)

    async def _stages(self) -> None:
        await self._bring_up()
        await self._load_under_faults()
        await self._final_reads()

    # --- stages ------------------------------------------------------------------------------------------------

    async def _bring_up(self) -> None:
        began = time.monotonic()
        cluster = self.scenario.cluster
        calls = watched_calls(fault.options for fault in self.plan.schedule.faults)
        settings = ClusterSettings(self.plan.run_id, cluster.config, cluster.mutants, cluster.dynamic_voters, calls)
        if not isinstance(self.system, ReachedSystem):
            nodes = Nodes.of_inventory(self.hosts.inventory)
            refuse_too_few_brokers(self.plan.suite, self.scenario, nodes)
            refuse_unfit_controllers(self.plan.suite, self.scenario, self.hosts.inventory)
            refuse_bad_targets(self.plan.suite, self.scenario, self.plan.schedule, nodes)
        if self.plan.capture:
            refuse_capture(self.hosts.inventory)
        if self._aims_at_clients():
            refuse_without_clients(self.plan.suite, self.hosts.inventory.source, self.hosts.inventory.clients)
        await self.testbed.deploy(self.system, settings, faults=bool(self.plan.schedule.faults))
        await self.testbed.heal()  # a run that was killed may have left open faults
        await self.testbed.refuse_unable(needed_verbs(fault.options for fault in self.plan.schedule.faults))
        self.facts.bundles = {
            name: {"bundle": one.bundle.name, "checksums": one.bundle.checksums}
            for name, one in self.testbed.deployed.items()
        }
        self._tell_deployed(began)
        remotes = [self.testbed.remotes[host.name] for host in self.hosts.inventory.clients]
        self.clients = await asyncio.to_thread(deploy_clients, remotes, workload=self.scenario.workload.name)
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

    def _tell_deployed(self, began: float) -> None:
        found = [one.bundle for one in self.testbed.deployed.values()]
        if not found:
            addresses = ", ".join(f"{host}:{port}" for host, port in self.testbed.bootstrap())
            self.display.stage("reached", f"a cluster that runs already, brokers {addresses}", "nothing is deployed")
            return
        choice = self.scenario.cluster.system
        node = "node" if choice.ours else str(choice)
        self.display.stage(
            "deploy",
            f"{node} {found[0].name[:14]}… ({len(found[0].archive) / 1024:.0f} kB)",
            f"{len(self.testbed.plans)} hosts in {time.monotonic() - began:.1f} s",
        )

    def _aims_at_clients(self) -> bool:
        return any(isinstance(fault.options, PauseClients) for fault in self.plan.schedule.faults)

    async def _await_cluster(self, began: float) -> None:
        topics = tuple(
            Topic(
                name,
                topic.partitions,
                topic.replication_factor,
                (("min.insync.replicas", str(topic.min_insync_replicas)), *config_texts(topic.config)),
            )
            for name, topic in self.scenario.cluster.topics.items()
        )
        replicas = sum(topic.partitions * topic.replication_factor for topic in topics)
        seconds = READY_SECONDS + self.slow_start + READY_SECONDS_PER_REPLICA * replicas
        try:
            state = await ready_unless_ended(self._whole_with(topics, seconds), self.testbed.statuses)
        except ClusterNotReady as trouble:
            down = {name: state for name, state in (await self.testbed.statuses()).items() if state != "running"}
            states = ", ".join(f"{name} {state}" for name, state in down.items())
            problem = f"the cluster did not become ready: {trouble}" + (f"; {states}" if down else "")
            raise ClusterNotReady("\n    ".join([problem, *await self.testbed.last_lines(down)])) from None
        epoch = "" if state.controller_epoch is None else f" epoch {state.controller_epoch}"
        controller = f"{self.testbed.cluster.names.name(state.controller)}{epoch}"
        first = next(iter(self.scenario.cluster.topics.values()))
        self.display.stage(
            "cluster",
            f"ready in {time.monotonic() - began:.1f} s",
            f"controller {controller} · "
            f"{several(sum(self.scenario.topics.values()), 'topic-partition')}, "
            f"RF {first.replication_factor}, min ISR {first.min_insync_replicas}",
        )

    async def _whole_with(self, topics: tuple[Topic, ...], seconds: float) -> ClusterState:
        """Create the topics, and return the cluster's state once it is whole. Raises ClusterNotReady."""
        await create_topics(self.testbed.admin, topics, seconds)
        return await await_whole(
            self.testbed.admin,
            len(self.testbed.bootstrap()),
            self.scenario.topics,
            seconds,
            between=seconds / LOOKS_UNTIL_READY,
        )

    async def _load_under_faults(self) -> None:
        began = await self._begin_load()
        nemesis = asyncio.create_task(self._nemesis(began))
        try:
            await self._show_load(began, nemesis)
            if not nemesis.done():
                await asyncio.wait({nemesis}, timeout=NEMESIS_GRACE_SECONDS + self.slow_start)
        finally:
            await cancelled(nemesis)
            await self._end_samples()
            self._show_progress(began)
            self.display.end_load()
        self._tell_bench(began)
        if nemesis.done() and not nemesis.cancelled():
            nemesis.result()

    def _tell_bench(self, began: int) -> None:
        """Print what a benchmark workload has measured."""
        assert self.workers is not None and self.facts.load_ended is not None
        seconds = (self.facts.load_ended - began) / 1e9
        for line in told_and_kept(self.scenario, self.workers.latencies, seconds, self.directory):
            self.display.say(line)

    async def _begin_load(self) -> int:
        """Start the workers and the load. Return the moment they began, on the history's clock."""
        await self._read_clocks()
        self.workers = await self._start_workers()
        await self.workers.open()
        if isinstance(self.workers, RemoteLoadWorkers) and self._aims_at_clients():
            numbers = [spec.worker for spec in self.workers.specs]
            self.load_agents = await LoadAgents.beside(self.workers.workers, numbers, self.token)
        if isinstance(self.workers, RemoteLoadWorkers):
            uncertain = max(reading.error for reading in self.workers.known_clocks().values()) / 1e6
            self.display.stage(
                "load",
                f"from {' '.join(dict.fromkeys(worker.host.name for worker in self.workers.workers))}",
                f"{len(self.workers.pipes)} workers · their clocks are known to {uncertain:.2f} ms",
            )
        self._watch()
        self._sample_hosts()
        self.display.begin_load()
        began = await self.workers.load()
        self.facts.load_started = began
        self.facts.load_began = time_of_day(began, self.testbed.now_ns(), datetime.now(UTC))
        self._manifest().save(self.directory)
        point_latest(self.directory.parent.parent, self.directory)
        return began

    async def _start_workers(self) -> LoadWorkers:
        """Start workers on the client hosts, if there are any, else here."""
        if self.clients:
            programs = await asyncio.to_thread(programs_on, self.scenario, self.system, self.clients)
            return await start_remote_workers(
                workers_on(len(self.clients), self.plan.workers, self.scenario.workload.producers),
                hosts=self.clients,
                directory=self.directory,
                run_id=self.plan.run_id,
                workload=self.scenario.load.model_dump(),
                topics=self.scenario.loaded_topics,
                bootstrap=self.testbed.bootstrap(),
                programs=programs,
            )
        return await start_local_workers(
            self.plan.workers,
            prefix=self.hosts.network.command_prefix(),
            directory=self.directory,
            run_id=self.plan.run_id,
            workload=self.scenario.load.model_dump(),
            topics=self.scenario.loaded_topics,
            bootstrap=self.testbed.bootstrap(),
            security=self.system.security if isinstance(self.system, ReachedSystem) else None,
            program=local_program(self.scenario, self.system),
        )

    async def _nemesis(self, began: int) -> None:
        """Run the faults at their times; each change is written and shown."""
        self.fault_log = FaultLog(EventWriter.faults(self.directory), lambda window: self.display.fault(window, began))
        operator = self.testbed.operator()
        try:
            await self._runner(self.plan.schedule, operator, self.fault_log.note).run(began)
        finally:
            await operator.close()

    def _runner(
        self,
        schedule: Schedule,
        operator: ClusterAdmin,
        report: Callable[[NemesisEvent], None],
        patience: Patience | None = None,
    ) -> NemesisRunner:
        """Return the runner of a schedule on this run's hosts, or, in a control, a runner that only claims to act."""
        hosts = self.testbed.hosts
        return NemesisRunner(
            schedule,
            silenced(hosts) if self.plan.idle_nemesis else hosts,
            self.testbed.cluster,
            now_ns=self.testbed.now_ns,
            sleep=self.testbed.sleep,
            report=report,
            ports=self.testbed.ports(),
            patience=patience or self._patience(),
            operator=None if self.plan.idle_nemesis else operator,
            knock=self.testbed.knock,
            loads=self._loads(),
        )

    def _patience(self) -> Patience:
        """Return how long faults are watched, with the time that the system's nodes need to start."""
        usual = Patience()
        return replace(usual, end=usual.end + self.slow_start)

    def _loads(self) -> dict[str, LoadHost]:
        """Return the client hosts that faults may target; in a control, under a nemesis that does nothing."""
        if self.load_agents is None:
            return {}
        loads = dict(self.load_agents.hosts)
        hosts = {name: load.host for name, load in loads.items()}
        quiet = silenced(hosts) if self.plan.idle_nemesis else hosts
        return {name: LoadHost(quiet[name], load.processes) for name, load in loads.items()}

    async def _show_load(self, began: int, nemesis: asyncio.Task[None]) -> None:
        """Show progress until the load's time is over. Raises WorkerFailed if a worker fails meanwhile."""
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
        if self.scenario.compares_replicas:
            settle = 0.0 if "recovery" in self.facts.notes else self.scenario.time.settle
            self.display.say(f"{'nodes':<7}" + await self.node_records.describe(self.scenario, reads, settle))

    async def _wind_up(self) -> None:
        """Clean up in every case: no fault stays, workers end, logs are fetched, the manifest is complete."""
        self.display.end_load()
        if self.watching is not None:
            await cancelled(self.watching)
            if not self.watching.cancelled() and (trouble := self.watching.exception()) is not None:
                self.facts.notes["watching"] = f"ended early: {type(trouble).__name__}: {trouble}"
        await self._end_samples()
        if self.watcher is not None:
            self.facts.notes |= {
                "leader_changes": self.watcher.leader_changes,
                "controller_elections": self.watcher.elections,
            }
        if self.load_agents is not None:  # a paused worker does not end
            await self.load_agents.heal()
            await self.load_agents.close()
        if self.workers is not None:
            await self.workers.end()
            self.facts.trouble += self.workers.trouble
        self.facts.trouble += self.testbed.strangers()
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
                self._write_node_records()
                if self.hosts.keep_clean:
                    await self.testbed.remove()
            except UsageError as trouble:
                self.facts.notes["collecting"] = str(trouble)
            except OSError as trouble:
                self._tell_unwritten(trouble)
        await self.testbed.close()
        try:
            self._manifest().save(self.directory)
        except OSError as trouble:  # the first manifest stays, which marks the run as cut off
            self._tell_unwritten(trouble)

    def _tell_unwritten(self, trouble: OSError) -> None:
        """Report what could not be written, so that hosts are healed and cleaned nevertheless. Raises other errors."""
        problem = file_problem(trouble)
        if problem is None:
            raise trouble
        self.facts.trouble.append(problem.splitlines()[0])
        self.display.say(f"trouble    {problem}", style="yellow")

    def _write_node_records(self) -> None:
        """Write the tables of what nodes left, or record why there are none."""
        if not self.scenario.compares_replicas:
            return
        try:
            self.node_records.write(self.plan.run_id)
        except OSError as trouble:
            self.node_records.problem = f"their tables could not be written: {trouble}"
        if self.node_records.problem:
            self.facts.notes[NOT_COLLECTED] = self.node_records.problem

    async def _read_clocks(self) -> None:
        """Read the hosts' clocks, which give stamps in node logs their meaning."""
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

    def _sample_hosts(self) -> None:
        """Begin to sample the hosts. They are samples only: without a file for them the run goes on."""
        try:
            writer = samples_writer(self.directory)
        except OSError as trouble:
            self.facts.notes[SAMPLES] = f"not kept: {trouble}"
            return
        addresses = {name: plan.metrics for name, plan in self.testbed.plans.items() if plan.metrics}
        if isinstance(self.workers, RemoteLoadWorkers):
            shared = self.hosts.lab is not None
            self.client_samples = client_samples(self.workers.workers, self.testbed.hosts, shared=shared)
        sampled = {**self.testbed.hosts, **self.client_samples}
        self.sampler = HostSampler(sampled, addresses, self.testbed.now_ns, self.testbed.sleep, writer.write)
        self.sampling = asyncio.create_task(self.sampler.run())

    async def _end_samples(self) -> None:
        if self.sampling is None or self.sampler is None:
            return
        await cancelled(self.sampling)
        close_all(self.client_samples)
        self.facts.notes[SAMPLES] = self.sampler.told
        if not self.sampling.cancelled() and (trouble := self.sampling.exception()) is not None:
            self.facts.notes[SAMPLES] = f"{self.sampler.told}; ended early: {type(trouble).__name__}: {trouble}"
        self.sampling = None

    def _manifest(self) -> Manifest:
        clocks = self.workers.known_clocks() if isinstance(self.workers, RemoteLoadWorkers) else {}
        return manifest_of(
            self.plan,
            self.facts,
            self.hosts,
            started=self.started,
            command=self.command,
            nodes=tuple(self.testbed.plans.values()),
            clients=self.clients,
            clocks=clocks,
            segments=None if self.workers is None else len(self.workers.pipes),
        )


def time_of_day(moment: int, now: int, now_of_day: datetime) -> str:
    """Return when a moment of the history's clock was, given what that clock and the wall clock say now."""
    return (now_of_day - timedelta(microseconds=(now - moment) / 1000)).isoformat(timespec="milliseconds")


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end; its exception was already reported."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
