"""Run one seed in simulation: the suite's workload, faults and checks in virtual time.

The course is that of `harness/run/run.py`: cluster whole → load under faults → heal → final reads → checks. Two things
differ: the world, and an observer that checks the invariants during the run. After the load everything is healed, and
the cluster must become whole and serve the final reads: a system that is safe only because it makes no progress has
failed too.

A scenario's own `nemesis` is used unchanged; with `swarm` each seed draws its faults. `SimResult.digest` hashes
everything that was delivered, in order: equal for equal (scenario, seed), on any machine and under any PYTHONHASHSEED.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import traceback
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from squall.harness.conformance.client import NotConforming
from squall.harness.errors import UsageError
from squall.harness.scenario.cluster import ClusterNotReady, await_whole, create_topics
from squall.harness.scenario.faults import FaultLog
from squall.harness.scenario.interpreter import Interpreter
from squall.harness.scenario.recording import Recorder
from squall.harness.scenario.removal import removal_allowed
from squall.harness.scenario.suite import Scenario, TopicOptions, plugins_of
from squall.harness.simulation.observer.failure_context import (
    RecentOperations,
    as_text,
    fault_lines,
    leader_line,
    place_in,
    with_faults_named,
)
from squall.harness.simulation.observer.invariants import InvariantBroken, Observer
from squall.harness.simulation.observer.state.observed_log import Loss
from squall.harness.simulation.observer.unjudged import UnjudgedObserver
from squall.harness.simulation.run.buggified import buggified, buggify_words
from squall.harness.simulation.run.closing_check import PATIENCE, check_world
from squall.harness.simulation.run.collector import without_collector
from squall.harness.simulation.run.drawn_world import (
    AUTO_CREATE,
    WORLDS,
    draw_world,
    keeps_eligible_leaders,
    may_lose_power,
    other_settings,
    switches_features,
    world_lines,
)
from squall.harness.simulation.run.metadata_kinds import Metadata, settings_under
from squall.harness.simulation.run.node_evidence import ControlTraces, quorum_of, write_node_tables
from squall.harness.simulation.run.recipe import Continuation, recipe_text, spliced
from squall.harness.simulation.run.witness import Witness
from squall.harness.simulation.strangers.asked_topics import AskedTopics
from squall.harness.simulation.strangers.attentive_administrator import SHARE as ATTENDING
from squall.harness.simulation.strangers.attentive_administrator import AttentiveAdministrator
from squall.harness.simulation.strangers.late_requests import SHARE as REPEATING
from squall.harness.simulation.strangers.late_requests import LateRequests
from squall.harness.simulation.strangers.random_questions import SHARE as ASKING
from squall.harness.simulation.strangers.random_questions import RandomQuestions
from squall.harness.simulation.strangers.recreated_topics import SHARE as RECREATING
from squall.harness.simulation.strangers.recreated_topics import RecreatedTopics
from squall.harness.simulation.swarm.budget import FaultBudget
from squall.harness.simulation.swarm.drawn.drawing import draw_depositions, draw_swarm
from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.kinds import UNITS
from squall.harness.simulation.swarm.drawn.moments import Moments
from squall.harness.simulation.swarm.situations.brokers_in_turn import draw_brokers_in_turn
from squall.harness.simulation.swarm.situations.distant import draw_distant
from squall.harness.simulation.swarm.situations.lost_indexes import draw_lost_indexes
from squall.harness.simulation.swarm.situations.moved import draw_moves
from squall.harness.simulation.swarm.situations.outdated import draw_outdated
from squall.harness.simulation.swarm.situations.patterns import draw_patterns
from squall.harness.simulation.swarm.situations.power_losses import draw_power_losses
from squall.harness.simulation.swarm.situations.reconfigured import draw_reconfigurations
from squall.harness.simulation.swarm.situations.splits import draw_splits
from squall.harness.simulation.swarm.situations.successions import draw_successions
from squall.harness.simulation.swarm.situations.unregistered import draw_unregistered
from squall.harness.simulation.swarm.situations.voter_changes import draw_voter_changes
from squall.harness.simulation.swarm.swarm import Swarm
from squall.harness.simulation.world.process import SimProcess
from squall.harness.simulation.world.world import ClusterShape, SimWorld, voters_of
from squall.nemesis.core.evidence import heal_all
from squall.nemesis.runner import NemesisEvent, NemesisRunner
from squall.nemesis.schedule import build_schedule
from squall.nodes.metadata.image import PartitionRegistration
from squall.nodes.mutants import Mutants
from squall.nodes.ports import Trace
from squall.nodes.raft.config import Replication, Variant
from squall.results.check import check_run, verdict_of
from squall.results.checkers.common.text import clock
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.manifest import PLUGINS, Expected, Manifest, TopicFacts
from squall.results.history.operation_kinds import OF_NODES
from squall.results.history.segments import ClusterObservation, EventWriter
from squall.results.verdict.further import NOT_COLLECTED, ToldFurther
from squall.results.verdict.verdict import Verdict
from squall.results.witnesses.witness import Witness as ToldWitness
from squall.results.witnesses.witness import WitnessLine
from squall.workloads.clients.common.client import Client, Topic
from squall.workloads.clients.native.admin import NativeAdmin
from squall.workloads.clients.native.native import NativeFactory
from squall.workloads.core.operation import Event
from squall.workloads.log import FinalState, LogOptions, Shard, final_states
from squall.workloads.workload import connector_of, workload_of

READY_SECONDS = 60.0
AGAIN_SECONDS = 0.1
DRAIN_SECONDS = 15.0
CALM_SECONDS = 3.0
"""How long a swarm goes on, whole and without clients: requests that are never answered come to light."""
MIN_ACKNOWLEDGED = 100
REQUIRED = "REQUIRED"
"""The name of the breach if a required availability of the scenario does not hold."""
LIVENESS = "LIVENESS"
"""The name of the breach if the cluster does not become whole, or the final reads do not complete."""
BUGGIFY = "buggify "
"""Before the name of a place in the counts of a run. Active places that never happened count 0."""
ACKNOWLEDGED, OPERATIONS = "acknowledged", "client operations"
RUNS = uuid.UUID("7d1f1f0e-9a0c-4b53-8a39-1f6a5a3c2b10")
"""The name space of the ids of simulated runs."""
Stranger = RandomQuestions | LateRequests | AskedTopics | RecreatedTopics | AttentiveAdministrator


@dataclass(frozen=True)
class SimOptions:
    """Options of a simulation beyond its scenario.

    `mutants` are added to the scenario's; `said` is how the command line named the scenario. A run that is not
    `observed` goes on to its end, and only its history and what its nodes left judge it, as on hosts. An observed run
    with `evidence` is judged by what its nodes left as well.
    """

    swarm: bool = False
    mutants: tuple[str, ...] = ()
    keep: Path | None = None
    said: str = ""
    observed: bool = True
    evidence: bool = False
    kinds: tuple[str, ...] = ()
    """The kinds of fault that a swarm draws from; by default the seed chooses."""
    continuations: tuple[Continuation, ...] = ()
    """Where the run goes on with other seeds, in order of time; see `recipe.py`."""
    metadata: Metadata | None = None
    """What keeps the metadata, if something else than in the scenario; the data plane is the same (DA-04)."""
    buggify: str = ""
    """What rare but legal things may happen; see `buggified.py`. Empty: what the scenario says."""


@dataclass(frozen=True)
class SimResult:
    """The outcome of one seed. `problem` says why it is not valid; `broken` names invariants or anomalies.

    `witness` describes the circumstances of the first breach: operations, leaders and faults of that time.
    """

    seed: int
    verdict: str
    digest: str
    broken: tuple[str, ...] = ()
    problem: str = ""
    witness: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    simulated_s: float = 0.0
    wall_s: float = 0.0
    processor_s: float = 0.0
    ended_s: float = 0.0
    """When the run ended, in seconds since the load began; negative if the load never began."""
    drawn: tuple[str, ...] = ()
    """The world that the seed drew, in words; empty in a scenario that states its cluster."""


class _SimClock:
    """The history's clock in simulation; see `workloads.ports.Clock`."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world

    def now_ns(self) -> int:
        return self._world.now_ns()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Simulation:
    """One scenario with one seed. Use it once."""

    def __init__(
        self, scenario: Scenario, seed: int, options: SimOptions, directory: Path, witness: Witness | None = None
    ) -> None:
        scenario = buggified(draw_world(scenario, seed), seed, options.buggify)
        cluster = scenario.cluster
        metadata = options.metadata or cluster.metadata
        self.scenario = scenario
        self.seed = seed
        self.options = options
        self.directory = directory
        self.started = datetime.now(UTC)
        """The time of day at which this process began the run; the time of its world begins at zero."""
        self.witness = witness or Witness()
        self.schedule = build_schedule(scenario.nemesis, scenario.time.load, seed, quiet_s=scenario.time.quiet)
        self.shape = ClusterShape(
            controllers=cluster.controllers,
            brokers=cluster.brokers,
            config={key: _text(value) for key, value in settings_under(scenario, metadata).items()},
            mutants=Mutants(frozenset(cluster.mutants) | frozenset(options.mutants)),
            dynamic_voters=cluster.dynamic_voters,
            combined=cluster.combined,
            node_ids=cluster.node_ids,
            racks=_racks(scenario),
            zookeeper=metadata == "zookeeper",
            memory=metadata == "memory",
            buggify=cluster.buggify,
            variant=Variant(Replication(cluster.replication)),
        )
        self.observer = (Observer if options.observed else UnjudgedObserver)(
            acks_all=scenario.workload.acks == "all",
            unclean_allowed=self.shape.config.get("unclean.leader.election.enable") == "true",
        )
        collects = (options.evidence or not options.observed) and not (self.shape.zookeeper or self.shape.memory)
        self.traces = ControlTraces() if collects else None
        """The evidence that the nodes of a quorum leave; a judging observer does not need it."""
        self.collected = False
        """Whether that evidence was collected at the end."""
        self.moments = Moments() if scenario.swarm == WORLDS else None
        self.world = SimWorld(
            self.shape,
            seed,
            topics=scenario.loaded_topics,
            trace=self.witness.beside(self.observer),
            network=self.witness.network,
            traced=self._traced,
            on_iteration=self.observer.look if self.traces is None else self._look,
            on_early_turn=self.observer.early_turn,
            on_early_release=self.observer.early_release,
            on_loss=self.observer.power_lost,
        )
        self.observer.watch(self.world.processes, {place.node_id: place.name for place in self.world.places})
        if self.world.ensemble is not None:
            self.observer.watch_ensemble(self.world.ensemble)
        if self.world.memory is not None:
            self.observer.watch_memory(self.world.memory)
        for continuation in options.continuations:
            self.world.kernel.at(continuation.at, self.world.streams.reseed, continuation.seed)
        self.witness.watch(self.world)
        self.budget = FaultBudget(self.world, scenario.cluster.topics)
        self.clock = _SimClock(self.world)
        self.workload = workload_of(scenario.workload, scenario.loaded_topics)
        self.run_id = str(uuid.uuid5(RUNS, self._command()))
        self.recorder = Recorder.open(
            directory,
            self.run_id,
            0,
            acks=scenario.workload.acks,
            idempotent=scenario.workload.idempotent and scenario.workload.acks == "all",
        )
        self.fault_log = FaultLog(EventWriter.faults(directory), lambda window: None)
        self.seen = EventWriter.cluster(directory)
        self.observer.cluster.on_quorum_leader = self._quorum_leader
        self.observer.cluster.on_unclean_leader = self._unclean_leader
        if scenario.require.calm:
            self.observer.cluster.metadata.on_partition = self._partition
        self.faults: list[str] = []
        self.fault_counts: dict[str, int] = {}
        self.fault_effects: dict[str, int] = {}
        self.postponed = 0
        self.asked_topics: AskedTopics | None = None
        self.recreated_topics: RecreatedTopics | None = None
        self.administrator: AttentiveAdministrator | None = None
        self.begun: list[SwarmFault] = []
        """The faults of a swarm that were carried out."""
        self.digest = ""
        self.crashes = 0
        self.operations = 0
        self.recent = RecentOperations()
        self.final_read = ""
        self.final_states: tuple[FinalState, ...] = ()
        self.notes: dict[str, str] = {}
        self.load_started: int | None = None
        self.load_ended: int | None = None
        self.ended_at = 0

    def _traced(self, name: str, trace: Trace) -> Trace:
        """Return the trace of one host's node: to the evidence, if there is any, and to the faults aimed at moments."""
        trace = trace if self.traces is None else self.traces.beside(name, trace)
        return trace if self.moments is None else self.moments.beside(name, trace)

    def _look(self, process: SimProcess) -> None:
        assert self.traces is not None
        self.traces.look(process)
        self.observer.look(process)

    def run(self) -> None:
        """Run to the end of the final reads. Raises InvariantBroken, ClusterNotReady."""
        try:
            self.world.kernel.run_until_complete(self._run())
        finally:
            self.ended_at = self.clock.now_ns()
            self.digest = self.world.network.digest
            self.crashes = sum(process.crashes for process in self.world.processes.values())
            self.world.switch_off()
            self.recorder.close()
            self.fault_log.writer.close()
            self.seen.close()

    @property
    def swarming(self) -> bool:
        """Whether this seed draws its faults, instead of carrying out the scenario's."""
        return self.options.swarm or bool(self.scenario.swarm)

    @property
    def operating(self) -> bool:
        """Whether this seed also draws operators' changes of the cluster."""
        return self.scenario.swarm in ("operations", "switches", WORLDS)

    def ended_s(self) -> float:
        """Return when the run ended, in seconds since the load began; negative if the load never began."""
        return -1.0 if self.load_started is None else (self.ended_at - self.load_started) / 1e9

    def failure_context(self, problem: str) -> tuple[str, ...]:
        """Return leaders, operations and faults at the end of a run that ended early because of this problem."""
        topics = self.scenario.cluster.topics.items()
        place = place_in(problem, {f"{name}-{number}" for name, one in topics for number in range(one.partitions)})
        origin = self.ended_at if self.load_started is None else self.load_started
        quorum = [] if place else leader_line(self.observer.cluster.quorum.leaders, "quorum")
        return as_text(
            [
                *quorum,
                *leader_line(self.observer.leaders_of(place)),
                *self.recent.lines(place, origin),
                WitnessLine("the breach", "was seen and ended the run", clock(self.ended_at, origin)),
                *fault_lines(self.fault_log.windows.values(), self.ended_at, origin),
            ]
        )

    def save_manifest(self, trouble: str = "") -> Path:
        """Write the manifest that the checker reads. Return the run's directory. `trouble` is what ended the run early.

        A swarm's faults need no evidence: the simulation itself carries them out.
        """
        scenario, cluster = self.scenario, self.scenario.cluster
        Manifest(
            run_id=self.run_id,
            scenario=scenario.scenario,
            seed=self.seed,
            topics={
                name: TopicFacts(
                    partitions=one.partitions,
                    replication_factor=one.replication_factor,
                    min_insync_replicas=one.min_insync_replicas,
                )
                for name, one in cluster.topics.items()
                if one.load
            },
            suite=self.options.said.partition(" --only ")[0],
            started=self.started.isoformat(timespec="seconds"),
            command=self._command(),
            load_started=self.load_started,
            load_ended=self.load_ended,
            completed=not trouble,
            segments=1,
            trouble=(trouble,) if trouble else (),
            checks=scenario.checks if self.traces is None else (*scenario.checks, *OF_NODES),
            fault_free=scenario.fault_free or self.swarming,
            faults_planned=0 if self.swarming else len(self.schedule.faults),
            min_acknowledged=min(scenario.min_acknowledged, MIN_ACKNOWLEDGED),
            keeps_front=not removal_allowed(scenario),
            expect=Expected(verdict=scenario.expect.verdict, anomalies=scenario.expect.anomalies),
            require=scenario.require.stated(),
            workload=scenario.workload.model_dump(),
            options={**self.notes, **({PLUGINS: used} if (used := plugins_of(scenario)) else {})},
            mutants=tuple(sorted(self.shape.mutants.names)),
            final_read=self.final_read,
            schedule_hash="" if self.swarming else self.schedule.content_hash(),
            trace_hash=self.digest,
            world="simulation",
        ).save(self.directory)
        return self.directory

    def _command(self) -> str:
        """Return the command that repeats this run."""
        said = self.options.said or self.scenario.scenario
        words = f"squall simulate {said} {seed_words(self.seed, self.options)}"
        words += "".join(f" --mutant {mutant}" for mutant in self.options.mutants)
        words += " --swarm" if self.options.swarm else ""
        words += metadata_words(self.options)
        return words + ("" if self.options.observed else " --no-observer") + buggify_words(self.options.buggify)

    async def _run(self) -> None:
        scenario, world = self.scenario, self.world
        world.start()
        admin = NativeAdmin(
            world.connector(),
            world.bootstrap(),
            [(address, port) for _, address, port in voters_of(world.places)],
            has_quorum=world.has_quorum,
        )
        topics = tuple(_topic(name, one) for name, one in scenario.cluster.topics.items())
        await create_topics(admin, topics, READY_SECONDS)
        await await_whole(admin, scenario.cluster.brokers, scenario.topics, READY_SECONDS)
        await self._load()
        world.buggify.quiet = True
        await heal_all(world.hosts)
        for process in world.processes.values():
            process.start()
        self.observer.healed(world.kernel.now)
        await await_whole(admin, scenario.cluster.brokers, scenario.topics, scenario.time.settle + READY_SECONDS)
        await self._await_quorum()
        self.observer.became_whole(world.kernel.now)
        try:
            await self._final_reads()
        finally:
            self._collect_node_tables()
        if self.swarming:
            if world.has_quorum:
                await check_world(world, self.observer.cluster.client_checker.sent_by_another)
            if self.asked_topics is not None:
                await self.asked_topics.check()
            if self.recreated_topics is not None:
                await self.recreated_topics.check()
            self.observer.idle(world.kernel.now)
            await asyncio.sleep(CALM_SECONDS)
        self.observer.final()
        await admin.close()

    def _collect_node_tables(self) -> None:
        """Collect what the nodes left, as on hosts right after the final reads: retention may soon remove the rest."""
        if self.traces is not None:
            deleted = frozenset() if self.administrator is None else frozenset(self.administrator.deleted)
            problem = write_node_tables(
                self.world, self.scenario, self.final_states, self.traces, self.directory, self.run_id, deleted
            )
            self.notes = {NOT_COLLECTED: problem} if problem else {}
            self.collected = not problem

    async def _await_quorum(self) -> None:
        """Wait until the quorum has a leader: only a leader knows what metadata is committed.

        In an election, topic-partitions may look whole by older metadata.
        """
        late = self.world.kernel.time() + READY_SECONDS
        while self.world.has_quorum and quorum_of(self.world) is None and self.world.kernel.time() < late:
            await asyncio.sleep(AGAIN_SECONDS)

    async def _load(self) -> None:
        shard = self.workload.shard(0, 1)
        interpreter, clients = await self._interpreter(shard)
        loop = asyncio.get_running_loop()
        self.load_started = self.clock.now_ns()
        self.observer.cluster.metadata.must_be_calm = self.scenario.require.calm
        loading = loop.create_task(interpreter.run())
        nemesis = loop.create_task(self._nemesis())
        strangers = [loop.create_task(one.run()) for one in self._strangers()]
        for task in (loading, nemesis, *strangers):
            task.add_done_callback(_end_the_run_if_it_failed)
        await asyncio.sleep(self.scenario.time.load)
        await nemesis
        for task in strangers:
            task.cancel()
        self.load_ended = self.clock.now_ns()
        self.seen.write(ClusterObservation(time=self.load_ended, kind="watched", since=0))  # it misses nothing
        self.observer.cluster.metadata.must_be_calm = False
        interpreter.stop()
        await loading
        for client in clients:
            await client.close()

    def _strangers(self) -> list[Stranger]:
        """Return who asks nodes what the load and the other nodes never ask, in some of the drawn worlds."""
        if self.scenario.swarm != WORLDS or not self.world.has_quorum:
            return []
        strangers: list[Stranger] = []
        if self.scenario.cluster.config.get(AUTO_CREATE) is True:
            self.asked_topics = AskedTopics(self.world, PATIENCE)
            strangers.append(self.asked_topics)
        if self.world.streams.stream("whether questions are asked").random() < ASKING:
            strangers.append(RandomQuestions(self.world, self.scenario.topics))
        if self.world.streams.stream("whether requests are repeated").random() < REPEATING:
            strangers.append(LateRequests(self.world))
        sent, like = self.observer.cluster.client_checker.sent_by_another, self.scenario.cluster.topics["events"]
        if self.world.streams.stream("whether topics are recreated").random() < RECREATING:
            self.recreated_topics = RecreatedTopics(self.world, PATIENCE, like, sent)
            strangers.append(self.recreated_topics)
        if self.world.streams.stream("whether an administrator attends").random() < ATTENDING:
            self.administrator = AttentiveAdministrator(self.world, PATIENCE, like, sent, self.budget)
            strangers.append(self.administrator)
        return strangers

    async def _nemesis(self) -> None:
        if self.swarming:
            view = self.world.cluster
            topics = self.scenario.cluster.topics
            operated = {name: one.min_insync_replicas for name, one in topics.items()} if self.operating else {}
            switched = self.scenario.swarm == "switches" or switches_features(self.scenario, self.seed)

            def drawn(seed: int, kinds: tuple[str, ...]) -> list[SwarmFault]:
                load = self.scenario.time.faults
                if self.scenario.swarm == "depositions":
                    return draw_depositions(seed, view.brokers, load)
                nodes = view.brokers, view.controllers
                ensemble = self.world.ensemble is not None
                faults = draw_swarm(seed, *nodes, load, operated, switched=switched, has_ensemble=ensemble, kinds=kinds)
                if self.moments is not None:
                    dynamic = self.scenario.cluster.dynamic_voters
                    fetch_timeout = int(self.scenario.cluster.config["controller.quorum.fetch.timeout.ms"]) / 1_000
                    faults += draw_patterns(
                        seed, *nodes, load, dynamic_voters=dynamic, topics=tuple(operated), fetch_timeout=fetch_timeout
                    )
                    switchable = keeps_eligible_leaders(self.scenario)
                    faults += draw_outdated(seed, *nodes, load, operated, switched=switchable)
                    others = partial(other_settings, self.scenario)
                    if may_lose_power(self.scenario, self.seed):
                        faults += draw_power_losses(seed, view.brokers, load)
                        faults += draw_unregistered(seed, view.brokers, load)
                    faults += draw_splits(seed, *nodes, load)
                    faults += draw_distant(seed, view.brokers, load)
                    session = self.scenario.cluster.config["broker.session.timeout.ms"]
                    faults += draw_brokers_in_turn(seed, *nodes, load, int(session) / 1_000)
                    lag = self.scenario.cluster.config["replica.lag.time.max.ms"]
                    faults += draw_successions(seed, *nodes, load, int(lag) / 1_000)
                    faults += draw_reconfigurations(seed, view.brokers, load, others)
                    faults += draw_lost_indexes(seed, view.brokers, load)
                    if self.scenario.cluster.dynamic_voters:
                        faults += draw_moves(seed, view.controllers, load)
                        faults += draw_voter_changes(seed, view.controllers, load)
                return sorted(faults, key=lambda fault: fault.at)

            faults = spliced(drawn, self.seed, self.options.kinds, self.options.continuations, self.world.kernel.now)
            self.faults = [str(fault) for fault in faults]
            operator = self.world.operator()
            swarm = Swarm(self.world, faults, self.budget, operator, self.moments)
            self.begun = swarm.begun
            swarm.on_begin = lambda fault: self.witness.swarm_fault(fault.kind, fault.hosts)
            await swarm.run()
            await operator.close()
            self.fault_counts, self.postponed = swarm.counts, swarm.postponed
            self.fault_effects = {f"{kind}: {UNITS[kind]}": effect for kind, effect in swarm.effects.items()}
            return
        operator = self.world.operator()
        runner = NemesisRunner(
            self.schedule,
            self.world.hosts,
            self.world.cluster,
            now_ns=self.clock.now_ns,
            sleep=self.clock.sleep,
            report=self._reported,
            ports=self.world.ports(),
            operator=operator,
        )
        await runner.run()
        await operator.close()

    def _quorum_leader(self, name: str, epoch: int) -> None:
        """Record a new leader as the watcher of a run on hosts does."""
        self.seen.write(ClusterObservation(time=self.clock.now_ns(), kind="controller", node=name, epoch=epoch))

    def _unclean_leader(self, topic: str, partition: int, loss: Loss) -> None:
        """Declare to the checker what an unclean election was allowed to lose."""
        self.seen.write(
            ClusterObservation(
                time=self.clock.now_ns(),
                kind="unclean",
                topic=topic,
                partition=partition,
                epoch=loss.epoch,
                offset=loss.end,
            )
        )

    def _partition(self, topic: str, number: int, stands: PartitionRegistration) -> None:
        """Record leader and ISR as the watcher of a run on hosts does; only in calm runs, since there may be many."""
        name_of = self.world.cluster.name_of
        here = ClusterObservation(time=self.clock.now_ns(), kind="leader", topic=topic, partition=number)
        leader = None if stands.leader < 0 else name_of(stands.leader)
        self.seen.write(msgspec.structs.replace(here, node=leader, epoch=stands.leader_epoch))
        self.seen.write(msgspec.structs.replace(here, kind="in_sync", nodes=tuple(name_of(one) for one in stands.isr)))

    def _reported(self, event: NemesisEvent) -> None:
        seconds = (event.at_ns - (self.load_started or 0)) / 1e9
        self.witness.fault(event)
        self.faults.append(f"{seconds:7.3f} s  {event.kind} {', '.join(event.targets)} {event.phase} {event.text}")
        self.fault_log.note(event)
        if event.phase == "proven":
            self.fault_counts[event.kind] = self.fault_counts.get(event.kind, 0) + 1

    async def _final_reads(self) -> None:
        interpreter, clients = await self._interpreter(self.workload.final_shard())
        self.final_states = states = final_states(await interpreter.run())
        unfinished = [f"{one.topic}-{one.partition}" for one in states if not one.complete]
        self.final_read = f"incomplete: {', '.join(unfinished)}" if unfinished else "complete"
        for client in clients:
            await client.close()
        if unfinished:
            stuck = ", ".join(_how_far(one) for one in states if not one.complete)
            raise ClusterNotReady(f"final reads did not complete on {stuck}")

    async def _interpreter(self, shard: Shard) -> tuple[Interpreter, list[Client]]:
        connector = connector_of(self.scenario.workload, self.world.connector())
        factory = NativeFactory(connector, tuple(self.world.bootstrap()), self.clock)
        clients: dict[int, Client] = {}
        numbers: dict[int, int] = {}
        opened: list[Client] = []
        for plan in shard.clients:
            client = factory.client(plan)
            await client.open()
            await client.setup()
            opened.append(client)
            for thread in plan.threads:
                clients[thread], numbers[thread] = client, plan.client
        interpreter = Interpreter(
            shard.generator,
            clients,
            numbers,
            clock=self.clock,
            record=self._record,
            total_threads=self.workload.total_threads,
            drain=DRAIN_SECONDS,
        )
        return interpreter, opened

    def _record(self, event: Event) -> None:
        self.recorder.record(event)
        self.recent.note(event)
        self.witness.operation(event)
        self.operations += event.completion is not None
        self.observer.client_event(event, self.world.kernel.events_run, self.world.kernel.now)

    def counts(self) -> dict[str, int]:
        """Return counts of what happened, for the summary of many seeds."""
        counters = self.observer.cluster.counters
        return {
            ACKNOWLEDGED: counters.acknowledged,
            OPERATIONS: self.operations,
            "elections": counters.quorum_leaders,
            "leader changes": counters.partition_leaders,
            "ISR changes": counters.isr_changes,
            "ELR changes": counters.elr_changes,
            "truncations": counters.truncations,
            "unclean elections": counters.unclean_elections,
            "declared losses": counters.declared_losses,
            "reassignments that took replicas away": self.observer.cluster.metadata.reassignments_completed,
            "snapshots held to the log": self.observer.cluster.metadata.snapshots_checked,
            "administrators' writes": self.observer.cluster.writes.committed,
            "changes of the voters": counters.voter_changes,
            "controlled shutdowns": counters.controlled_shutdowns,
            "unsynced log ends that a power loss took": counters.unsynced_ends_lost,
            "unsynced log ends that a power loss left": counters.unsynced_ends_kept,
            "unclean restarts": sum(process.unclean_restarts for process in self.world.processes.values()),
            "crashes": self.crashes,
            "resets": self.world.network.resets,
            "frames": self.world.network.frames_delivered,
            "events": self.world.kernel.events_run,
            "faults postponed": self.postponed,
            **{f"fault {kind}": number for kind, number in self.fault_counts.items()},
            **{f"effect {kind}": number for kind, number in self.fault_effects.items()},
            **{f"{BUGGIFY}{name}": number for name, number in self.world.buggify.counts.items()},
        }


def _racks(scenario: Scenario) -> tuple[str, ...]:
    """Return the racks of the brokers: those that consumers name."""
    workload = scenario.workload
    return tuple(dict.fromkeys(workload.consumer_racks)) if isinstance(workload, LogOptions) else ()


def _end_the_run_if_it_failed(task: asyncio.Task[object]) -> None:
    """End the run at the event at which a client or the nemesis fails, not when the task is awaited."""
    if not task.cancelled() and (failure := task.exception()) is not None:
        raise failure


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _topic(name: str, options: TopicOptions) -> Topic:
    settings = {"min.insync.replicas": str(options.min_insync_replicas)}
    settings |= {key: str(value) for key, value in options.config.items()}
    return Topic(name, options.partitions, options.replication_factor, tuple(settings.items()))


def simulate(
    scenario: Scenario, seed: int, options: SimOptions = SimOptions(), witness: Witness | None = None
) -> SimResult:
    """Run one seed and judge it. Never raises for what the nodes do: a crash of a node is a result too.

    A history that is kept can be judged again (`squall check`), also after a breach that no client could have seen.
    """
    with without_collector():
        return _simulate(scenario, seed, options, witness)


def seed_words(seed: int, options: SimOptions) -> str:
    """Return the option of the command line that repeats this seed, or this recipe."""
    if options.kinds or options.continuations:
        return f"--recipe {recipe_text(seed, options.kinds, options.continuations)}"
    return f"--seed {seed}"


def metadata_words(options: SimOptions) -> str:
    """Return the option of the command line that names the kind of controller, if it is not the scenario's."""
    return "" if options.metadata is None else f" --metadata {options.metadata}"


def seed_directory(keep: Path, seed: int) -> Path:
    """Return the directory that keeps the history of a seed."""
    return keep / f"seed-{seed}"


def new_seed_directory(keep: Path, seed: int) -> Path:
    """Create the directory. Raises UsageError if it exists: two histories must not share one directory."""
    refuse_kept(keep, seed)
    directory = seed_directory(keep, seed)
    try:
        directory.mkdir(parents=True)
    except FileExistsError:  # another process created it at this moment
        refuse_kept(keep, seed)
    return directory


def refuse_kept(keep: Path, seed: int) -> None:
    """Raise UsageError if a history of this seed is kept there."""
    if (directory := seed_directory(keep, seed)).exists():
        raise UsageError(f"--keep: {directory} already exists", remedy="name another directory, or remove this one")


def _simulate(scenario: Scenario, seed: int, options: SimOptions, witness: Witness | None) -> SimResult:
    started, worked = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory(prefix="squall-simulation-") as scratch:
        directory = Path(scratch) if options.keep is None else new_seed_directory(options.keep, seed)
        simulation = Simulation(scenario, seed, options, directory, witness)
        broken, problem = what_broke(simulation)
        ended_s = simulation.ended_s()
        verdict, told = "invalid", simulation.failure_context(problem) if broken else ()
        if broken == (LIVENESS,) and simulation.collected:
            broken += tuple(one.name for one in _checked(simulation, trouble=problem).anomalies)
        if not broken:
            found = _checked(simulation, report=options.keep is not None)
            verdict, broken, problem = _summed_up(found)
            told = _failure_context_of(simulation, found)
        elif options.keep is not None:
            seen = problem.partition("\n")[0]
            simulation.save_manifest(f"the simulation ended at a breach that its observer saw: {seen}")
            check_run(directory, InProcess())
        return SimResult(
            seed=seed,
            verdict=verdict,
            digest=simulation.digest,
            broken=broken,
            problem=problem,
            witness=told,
            counts=simulation.counts(),
            faults=tuple(simulation.faults),
            simulated_s=simulation.world.kernel.now / 1e6,
            wall_s=time.monotonic() - started,
            processor_s=time.process_time() - worked,
            ended_s=ended_s,
            drawn=world_lines(simulation.scenario) if scenario.swarm == WORLDS else (),
        )


def _how_far(state: FinalState) -> str:
    """Describe a topic-partition whose final read did not complete: whether and where its marker is acknowledged."""
    marker = "marker not acknowledged" if state.marker_offset is None else f"marker at offset {state.marker_offset}"
    return f"{state.topic}-{state.partition} ({marker})"


def what_broke(simulation: Simulation) -> tuple[tuple[str, ...], str]:
    """Run the simulation. Return the invariant that broke and how, or nothing."""
    try:
        simulation.run()
    except InvariantBroken as breach:
        return (breach.name,), str(breach)
    except ClusterNotReady as trouble:
        return (LIVENESS,), str(trouble)
    except NotConforming as wrong:
        return ("CONFORMANCE",), str(wrong)
    except Exception as trouble:
        return ("CRASH",), f"{type(trouble).__name__}: {trouble}\n{traceback.format_exc(limit=-4)}"
    return (), ""


def judged(simulation: Simulation) -> tuple[str, tuple[str, ...], str]:
    """Return the checker's verdict of a complete run, its anomalies by name, and the problem in words."""
    return _summed_up(_checked(simulation))


def _checked(simulation: Simulation, *, report: bool = False, trouble: str = "") -> Verdict:
    directory = simulation.save_manifest(trouble)
    return check_run(directory, InProcess()) if report else verdict_of(directory)


def _summed_up(verdict: Verdict) -> tuple[str, tuple[str, ...], str]:
    problem = "; ".join((*verdict.reasons, *(witness.title for witness in _first_of(verdict))))
    broken = tuple(one.name for one in verdict.anomalies) + (() if verdict.requirements_hold else (REQUIRED,))
    return verdict.verdict, broken, problem


def _first_of(verdict: Verdict) -> list[ToldWitness | ToldFurther]:
    """Return the witness to report; none if there is none."""
    told: list[ToldWitness | ToldFurther] = [*verdict.witnesses, *verdict.further_witnesses]
    return told[:1]


def _failure_context_of(simulation: Simulation, verdict: Verdict) -> tuple[str, ...]:
    """Return the checker's first witness; if an invalid or unknown run has none, its faults."""
    for witness in _first_of(verdict):
        return as_text(with_faults_named(witness.lines))
    return () if verdict.verdict == "valid" else tuple(simulation.faults)
