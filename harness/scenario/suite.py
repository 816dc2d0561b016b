"""Read suites: scenarios as data, checked before anything is started (HX-10).

    scenario: leader-isolation
    covers: [EP-03, IS-04]
    cluster:
      topics: {events: {partitions: 8, replication_factor: 3, min_insync_replicas: 2}}
      config: {replica.lag.time.max.ms: 2000}
    workload: {name: log, producers: 4, consumers: 4, rate: 2000/s, acks: all}
    nemesis:
      - {fault: isolate, target: leader of events/*, repeat: {every: 20s, for: 10s}}
    time: {load: 60s, settle: 10s}
    checks: [log, availability]
    expect: valid

A file holds one scenario, or several under `scenarios:`, or names those of other files under `include:` (nightly.yaml).
Workloads and faults bring their own options (`workloads/log.py`, `nemesis/options`); this module only composes them. A
scenario states its expected verdict: a negative control *must* be caught, and a suite passes when every scenario turned
out as expected.

Errors name file, line, field, value and the nearest right key (`yaml_source.py`); `squall suite schema` prints the JSON
Schema for editors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from squall.harness.errors import UsageError
from squall.harness.plugins.check_plugins import CHECK_PLUGINS, CHECKS, known_check
from squall.harness.plugins.fault_plugins import FAULT_PLUGINS
from squall.harness.plugins.load_plugins import WORKLOAD_PLUGINS
from squall.harness.plugins.system_limits import CONTROLLERS, REPLICAS
from squall.harness.plugins.system_plugins import SYSTEM_PLUGINS
from squall.harness.scenario.buggify_places import PLACES
from squall.harness.scenario.control_plane import add_control_listener
from squall.harness.scenario.lab_topology import LabTopology
from squall.harness.scenario.node_ids import NodeIds
from squall.harness.scenario.system_choice import SystemChoice, SystemOption, chosen_system
from squall.harness.yaml_source import KeyPath, YamlSource, load_yaml, shown, suggestion
from squall.nemesis.core.durations import Duration, Seconds
from squall.nemesis.core.selector import TopicPartitionPattern, topic_partitions_in
from squall.nemesis.entries import NemesisEntry, steps_in, targets_of
from squall.nemesis.options import FaultOptions
from squall.nodes.config import ConfigError, NodeConfig
from squall.nodes.mutants import MUTANTS
from squall.results.history.manifest import RateRule, Required
from squall.workloads.log import LogOptions, LogWorkload
from squall.workloads.workload import PROGRAM, AnyOptions, WorkloadOptions

# The minimum of a whole configuration, so that a scenario's own keys can be checked before hosts are known.
COMBINED_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "log.dirs": "/data",
}
BROKER_OF_ENSEMBLE = {
    "node.id": "1",
    "zookeeper.connect": "127.0.0.1:2181",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "inter.broker.listener.name": "PLAINTEXT",
    "log.dirs": "/data",
}

VerdictName = Literal["valid", "invalid", "unknown"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TopicOptions(_Part):
    """A topic of the cluster under test."""

    partitions: int = Field(default=8, ge=1, le=10_000)
    replication_factor: int = Field(default=3, ge=1, le=100)
    min_insync_replicas: int = Field(default=2, ge=1, le=100)
    config: Mapping[str, str | int | float | bool] = Field(default_factory=dict)
    load: bool = Field(default=True, description="clients produce to it and consume from it; else it is only there")

    @model_validator(mode="after")
    def _enough_replicas(self) -> TopicOptions:
        if self.min_insync_replicas > self.replication_factor:
            raise ValueError(
                f"min_insync_replicas {self.min_insync_replicas} is more than"
                f" replication_factor {self.replication_factor}: nothing could ever be acknowledged"
            )
        return self


def _known_mutant(name: str) -> str:
    if name not in MUTANTS:
        raise ValueError(f"is not a mutant{suggestion(name, MUTANTS)}")
    return name


def _known_place(name: str) -> str:
    if name not in PLACES:
        raise ValueError(f"is not a place of buggify{suggestion(name, PLACES)}")
    return name


def _topic_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) or name in (".", ".."):
        raise ValueError("is not a topic name (letters, digits, dot, underscore, hyphen; neither . nor ..)")
    return name


TopicName = Annotated[str, AfterValidator(_topic_name)]
Mutant = Annotated[str, AfterValidator(_known_mutant)]
BuggifyPlace = Annotated[str, AfterValidator(_known_place)]


class ClusterOptions(_Part):
    """What is deployed: how many nodes in a lab, which topics, Kafka's configuration, seeded bugs."""

    controllers: int = Field(default=3, ge=1, le=20, description="controllers of a local lab")
    brokers: int = Field(default=3, ge=1, le=50, description="brokers of a local lab")
    clients: int = Field(default=0, ge=0, le=50, description="client hosts of a local lab, to make the load there")
    topics: Mapping[TopicName, TopicOptions] = Field(default_factory=lambda: {"events": TopicOptions()})
    config: Mapping[str, str | int | float | bool] = Field(
        default_factory=dict, description="Kafka configuration of every node, by Kafka's names"
    )
    metadata: Literal["quorum", "zookeeper"] = Field(
        default="quorum",
        description="what keeps the metadata: a quorum of controllers, or ZooKeeper",
    )
    zookeeper: int = Field(
        default=1, ge=1, le=7, description="with metadata: zookeeper, servers of the ensemble in a local lab"
    )
    dynamic_voters: bool = Field(
        default=False, description="the quorum's voters are kept in its log, and may change (KIP-853)"
    )
    combined: bool = Field(
        default=False,
        description="simulation only: the first brokers are the controllers as well; on hosts the inventory decides",
    )
    node_ids: NodeIds = Field(
        default="usual",
        description="simulation only: whether brokers or controllers are numbered from 0; usually from 1 and from 101",
    )
    replication: Literal["pull", "push", "push-with-hint"] = Field(
        default="pull",
        description="simulation only: how metadata reaches the voters; `push` is Raft's AppendEntries, to compare with",
    )
    mutants: tuple[Mutant, ...] = Field(default=(), description="documented bugs to switch on; see `squall mutants`")
    buggify: tuple[BuggifyPlace, ...] = Field(
        default=(), description="simulation only: where rare but legal things happen; see `squall buggify`"
    )
    system: SystemOption = Field(
        default=SystemChoice(), description="what is deployed: our nodes, Apache Kafka, or a package's system"
    )

    @model_validator(mode="after")
    def _topics(self) -> ClusterOptions:
        if not any(topic.load for topic in self.topics.values()):
            raise ValueError("topics: a scenario needs at least one topic that clients use")
        return self

    @model_validator(mode="after")
    def _one_kind_of_controller(self) -> ClusterOptions:
        if self.metadata == "zookeeper" and (self.dynamic_voters or self.combined):
            raise ValueError("metadata: zookeeper: there is no quorum; remove dynamic_voters and combined")
        if self.metadata == "zookeeper" and (problem := self.system.why_not_on_zookeeper):
            raise ValueError(f"metadata: zookeeper: {problem}")
        if self.metadata != "zookeeper" and self.zookeeper != type(self).model_fields["zookeeper"].default:
            raise ValueError("zookeeper: servers of an ensemble are used with `metadata: zookeeper` only")
        return self

    @property
    def lab(self) -> LabTopology:
        """The lab that such a cluster needs."""
        ensemble = self.metadata == "zookeeper"
        return LabTopology(
            controllers=0 if ensemble or CONTROLLERS in self.system.limits.lacks else self.controllers,
            brokers=self.brokers,
            zookeeper=self.zookeeper if ensemble else 0,
            clients=self.clients,
        )

    @model_validator(mode="after")
    def _brokers_for_controllers(self) -> ClusterOptions:
        if self.combined and self.controllers > self.brokers:
            raise ValueError(
                f"combined: {self.controllers} controllers need as many brokers to be combined with; "
                f"the cluster has {self.brokers}"
            )
        return self


class TimeOptions(_Part):
    """How long things take."""

    load: Duration = Field(default=60.0, description="seconds of load under faults")
    quiet: Annotated[Seconds, Field(ge=0)] = Field(
        default=0.0, description="the last seconds of the load, in which no fault may be open"
    )
    settle: Duration = Field(default=10.0, description="the longest the cluster may take to recover after healing")

    @model_validator(mode="after")
    def _some_of_it_not_quiet(self) -> TimeOptions:
        if self.quiet >= self.load:
            raise ValueError(f"quiet: {self.quiet:g} s leave no time for faults in a load of {self.load:g} s")
        return self

    @property
    def faults(self) -> float:
        """The seconds of load in which faults may be open."""
        return self.load - self.quiet


def _expectation(value: Any) -> Any:
    if isinstance(value, str):
        return {"verdict": value}
    if isinstance(value, Mapping) and "verdict" not in value and len(value) == 1:
        ((verdict, anomalies),) = value.items()
        if verdict in ("invalid", "valid", "unknown"):
            named = [anomalies] if isinstance(anomalies, str) else anomalies
            return {"verdict": verdict, "anomalies": named or []}
    return value


class Expectation(_Part):
    """`valid`, `invalid`, `unknown`, or `{invalid: [lost_write]}`: the verdict, and anomalies it must
    contain.
    """

    verdict: VerdictName = "valid"
    anomalies: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _anomalies_of_invalid(self) -> Expectation:
        if self.anomalies and self.verdict != "invalid":
            raise ValueError("names anomalies, but only an invalid history has any")
        return self

    def __str__(self) -> str:
        return f"{self.verdict} ({', '.join(self.anomalies)})" if self.anomalies else self.verdict


Window = Annotated[tuple[Seconds, Seconds], Field(description="from when to when, counted from the start of the load")]


def _forwards(window: tuple[float, float]) -> tuple[float, float]:
    if window[0] < 0:
        raise ValueError(f"begins {-window[0]:g} s before the load does")
    if window[0] >= window[1]:
        raise ValueError(f"ends at {window[1]:g} s, before it begins at {window[0]:g} s")
    return window


ForwardWindow = Annotated[Window, AfterValidator(_forwards)]


class RateOptions(_Part):
    """At least this share of the acknowledged sends per second of another window."""

    during: ForwardWindow
    at_least: float = Field(gt=0)
    compared_with: ForwardWindow


class Requirements(_Part):
    """What the run must show of availability; what does not hold makes the verdict invalid
    (`results/verdict/required.py`).
    """

    rate: RateOptions | None = None
    silence: ForwardWindow | None = Field(default=None, description="window in which no send may be acknowledged")
    longest_gap: Duration | None = Field(
        default=None, description="maximum time of a topic-partition without an acknowledged send"
    )
    gap_during: ForwardWindow | None = Field(default=None, description="longest_gap applies to this window only")
    elections: int | None = Field(default=None, ge=0, description="maximum number of changes of the active controller")
    calm: bool = Field(False, description="no broker is fenced, no leader changes, no ISR shrinks")

    @model_validator(mode="after")
    def _gap_during_goes_with_longest_gap(self) -> Requirements:
        if self.gap_during is not None and self.longest_gap is None:
            raise ValueError("has gap_during, the time in which longest_gap counts, but no longest_gap")
        return self

    def stated(self) -> Required:
        """Return the requirements as the manifest holds them."""
        rate = self.rate
        return Required(
            rate=None
            if rate is None
            else RateRule(during=rate.during, at_least=rate.at_least, compared_with=rate.compared_with),
            silence=self.silence,
            longest_gap=self.longest_gap,
            gap_during=self.gap_during,
            elections=self.elections,
            calm=self.calm,
        )


USUAL_CHECKS = CHECKS[:2]
Check = Annotated[str, AfterValidator(known_check)]


class Scenario(_Part):
    """One run: a cluster, a workload, faults, and what must come of it."""

    format: Literal[1] = Field(default=1, description="version of this grammar; schedules carry it")
    scenario: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="its name, lower-case")]
    description: str = ""
    covers: tuple[str, ...] = Field(default=(), description="requirement ids, see docs/requirements.md")
    cluster: ClusterOptions = ClusterOptions()
    workload: WorkloadOptions = LogOptions()
    nemesis: tuple[NemesisEntry, ...] = ()
    fault_free: bool = Field(default=False, description="this scenario has no faults and needs no evidence of faults")
    idle_nemesis: bool = Field(
        False, description="control run: the nemesis reports faults but injects none; expect unknown"
    )
    swarm: bool | Literal["operations", "switches", "worlds", "depositions"] = Field(
        False,
        description="simulation only: random faults for each seed; `operations`: and operators' actions; "
        "`switches`: and eligible leader replicas switched off and on; `worlds`: and the cluster, settings and load; "
        "`depositions`: instead, ZooKeeper's controllers are deposed while brokers restart",
    )
    time: TimeOptions = TimeOptions()
    checks: tuple[Check, ...] = USUAL_CHECKS
    replicas: bool = Field(
        True,
        description="on hosts: at the end compare all replicas' logs and the nodes' metadata logs and traces",
    )
    expect: Annotated[Expectation, BeforeValidator(_expectation)] = Expectation()
    require: Requirements = Requirements()
    repeat: int = Field(default=1, ge=1, le=1000, description="number of runs, each with the next seed")
    seeds: tuple[int, ...] = Field(default=(), description="run it once with each of these seeds")
    min_acknowledged: int = Field(default=1000, ge=1, description="fewer acknowledged sends make the verdict unknown")

    @model_validator(mode="after")
    def _sensible(self) -> Scenario:
        if self.swarm and (self.nemesis or self.fault_free):
            raise ValueError("swarm chooses the faults; remove nemesis and fault_free")
        if not self.nemesis and not self.fault_free and not self.swarm:
            raise ValueError("nemesis: the list is empty; list faults, or set `fault_free: true`")
        if self.nemesis and self.fault_free:
            raise ValueError("fault_free: true, but faults are listed under nemesis")
        if self.swarm == "depositions" and self.cluster.metadata != "zookeeper":
            raise ValueError("swarm: depositions: only ZooKeeper's controllers are deposed; set cluster.metadata")
        simulated = self.swarm or self.workload.operations is not None  # the latter is a swarm's run, written down
        if self.cluster.combined and not simulated:
            raise ValueError("cluster.combined: only simulated swarms have combined nodes; hosts have an inventory")
        if self.cluster.node_ids != "usual" and not simulated:
            raise ValueError("cluster.node_ids: only simulated swarms number nodes; on hosts the inventory does")
        if self.cluster.replication != "pull" and not simulated:
            raise ValueError(
                "cluster.replication: only simulated swarms push metadata; nodes on hosts pull as KRaft does"
            )
        if self.workload.operations is not None and "rate" in self.workload.model_fields_set:
            raise ValueError("workload: give either operations, which are done as listed, or rate")
        if self.seeds and self.repeat != 1:
            raise ValueError("repeat: give either seeds or repeat")
        for name, topic in self.cluster.topics.items():
            if topic.replication_factor > self.cluster.brokers:
                raise ValueError(
                    f"cluster.topics.{name}.replication_factor: {topic.replication_factor} replicas"
                    f" need as many brokers; the cluster has {self.cluster.brokers}"
                )
        return self

    @property
    def topics(self) -> dict[str, int]:
        """The number of topic-partitions per topic."""
        return {name: topic.partitions for name, topic in self.cluster.topics.items()}

    @property
    def loaded_topics(self) -> dict[str, int]:
        """The number of topic-partitions per topic, of those that clients use."""
        return {name: topic.partitions for name, topic in self.cluster.topics.items() if topic.load}

    @property
    def load(self) -> AnyOptions:
        """The workload; where the suite names no client, with the program that the system brings, if there is one."""
        own = self.workload.name in self.cluster.system.limits.programs
        if own and "client" not in self.workload.model_fields_set:
            changed: AnyOptions = self.workload.model_copy(update={"client": PROGRAM})
            return changed
        return self.workload

    @property
    def compares_replicas(self) -> bool:
        """Whether nodes describe their logs at the end: as asked for, and otherwise if the system can.

        What they describe is compared with what the quorum has committed, so there has to be one.
        """
        lacks = self.cluster.system.limits.lacks
        return self.replicas and REPLICAS not in lacks and self.cluster.metadata == "quorum"

    def seeds_from(self, first: int) -> tuple[int, ...]:
        """Return the seeds to run with: its own, or as many as `repeat` says from `first` on."""
        return self.seeds or tuple(range(first, first + self.repeat))


class Included(_Part):
    """Scenarios that another suite file holds."""

    suite: str = Field(min_length=1, description="a suite file, named from where this one lies")
    only: tuple[str, ...] = Field(default=(), description="the scenarios of these names; all of the file unless given")


class _SuiteFile(_Part):
    suite: str = ""
    description: str = ""
    include: tuple[Included, ...] = Field(default=(), description="scenarios of other suite files, which come first")
    scenarios: tuple[Scenario, ...] = ()

    @model_validator(mode="after")
    def _of_something(self) -> _SuiteFile:
        if not self.include and not self.scenarios:
            raise ValueError("has no scenario; list some under `scenarios`, or suite files under `include`")
        return self


@dataclass(frozen=True)
class Suite:
    """A suite file: its scenarios in order, included ones before its `own`."""

    name: str
    path: Path
    scenarios: tuple[Scenario, ...]
    included: int = 0
    """How many of the scenarios, the first ones, are from other files."""
    said: str = ""
    """How commands and messages name it, if not by its path."""
    reduced: bool = False
    """Whether the file holds more scenarios than these, or asks for more seeds."""
    left_out: tuple[str, ...] = ()
    """The scenarios of the file that are not run, in its order."""
    system: str = ""
    """The system that the command names instead of the file's; empty if it names none."""
    properties: str = ""
    """The file of client properties that the command names."""

    @property
    def own(self) -> tuple[Scenario, ...]:
        """The scenarios that this file itself holds."""
        return self.scenarios[self.included :]

    @property
    def single(self) -> bool:
        """Whether it is one scenario, run once: it exits by its verdict."""
        first = self.scenarios[0]
        return len(self.scenarios) == 1 and first.repeat == 1 and len(first.seeds) <= 1

    def on_system(self, named: str | None, properties: Path | None = None) -> Suite:
        """Have all scenarios test the system that a command line names; unchanged without one.

        `properties` is a file of client properties, of a cluster that runs already. Raises UsageError.
        """
        if named is None:
            if properties is not None:
                raise UsageError("--client-properties: is for --system cluster:HOST:PORT")
            return self
        system = chosen_system(named, str(properties or ""))
        scenarios = tuple(
            one.model_copy(update={"cluster": one.cluster.model_copy(update={"system": system})})
            for one in self.scenarios
        )
        return replace(self, scenarios=scenarios, system=named, properties=str(properties or ""))

    def only(self, name: str | None, seed: int | None = None) -> Suite:
        """Reduce the suite to one scenario, and with a seed to one run of it.

        Raises UsageError for an unknown name.
        """
        if name is None:
            return self
        names = [one.scenario for one in self.scenarios]
        if name not in names:
            raise UsageError(f"{self.path}: there is no scenario {name!r}{suggestion(name, names)}")
        chosen = next(one for one in self.scenarios if one.scenario == name)
        repeated = chosen.repeat != 1 or len(chosen.seeds) > 1
        if seed is not None:
            chosen = chosen.model_copy(update={"repeat": 1, "seeds": (seed,)})
        reduced = self.reduced or len(names) > 1 or repeated
        left_out = tuple(one for one in names if one != name)
        return replace(self, scenarios=(chosen,), included=0, reduced=reduced, left_out=left_out)


def load_suite(path: Path | str) -> Suite:
    """Read and validate a suite file. Raises UsageError naming file, line, field, value and remedy."""
    path = Path(path)
    return read_suite(load_yaml(path), path)


def read_suite(source: YamlSource, path: Path) -> Suite:
    """Return the suite that a parsed file describes."""
    if isinstance(source.data, Mapping) and source.data.keys() & {"scenarios", "include"}:
        file = source.validated(_SuiteFile)
        included = [
            (("include", index), one)
            for index, entry in enumerate(file.include)
            for one in _scenarios_of(source, index, entry, path)
        ]
        own: list[tuple[KeyPath, Scenario]] = [
            (("scenarios", index, "scenario"), one) for index, one in enumerate(file.scenarios)
        ]
        _refuse_twice(source, [*included, *own])
        for index, one in enumerate(file.scenarios):
            _refuse_what_cannot_be(source, ("scenarios", index), one)
        scenarios = tuple(one for _, one in (*included, *own))
        return Suite(file.suite or path.stem, path, scenarios, len(included))
    scenario = source.validated(Scenario)
    _refuse_what_cannot_be(source, (), scenario)
    return Suite(path.stem, path, (scenario,))


def _scenarios_of(source: YamlSource, index: int, entry: Included, path: Path) -> tuple[Scenario, ...]:
    """Return the scenarios that an entry of `include` names. Raises UsageError."""
    at: KeyPath = ("include", index)
    file = path.parent / entry.suite
    if not file.is_file():
        raise source.error((*at, "suite"), f"{shown(entry.suite)}: no such file", remedy="name it from where this lies")
    read = load_yaml(file)
    if isinstance(read.data, Mapping) and "include" in read.data:
        raise source.error((*at, "suite"), f"{shown(entry.suite)} includes others itself; name those instead")
    found = {one.scenario: one for one in read_suite(read, file).scenarios}
    for number, name in enumerate(entry.only):
        if name not in found:
            raise source.error(
                (*at, "only", number), f"{entry.suite} has no scenario {shown(name)}{suggestion(name, found)}"
            )
    return tuple(found[name] for name in entry.only or found)


def _refuse_what_cannot_be(source: YamlSource, at: KeyPath, scenario: Scenario) -> None:
    """Raise UsageError for configuration that no node accepts, and for targets that can never match."""
    if isinstance(scenario.workload, LogOptions):
        workload = LogWorkload(scenario.workload, scenario.loaded_topics)
        for index, operation in enumerate(scenario.workload.operations or ()):
            if (trouble := workload.trouble_with(operation)) is not None:
                raise source.error((*at, "workload", "operations", index), trouble)
    if scenario.cluster.system.ours:
        _refuse_config(source, at, scenario)
    for path, entry in faults_of(scenario):
        for name, target in targets_of(entry).items():
            for pattern in topic_partitions_in(target):
                problem = _missing(scenario, pattern)
                if problem:
                    raise source.error((*at, *path, name), f"{shown(target)}: {problem}")


def _refuse_config(source: YamlSource, at: KeyPath, scenario: Scenario) -> None:
    """Raise UsageError for configuration that our nodes do not take."""
    config = scenario.cluster.config
    node = BROKER_OF_ENSEMBLE if scenario.cluster.metadata == "zookeeper" else COMBINED_NODE
    for key in (COMBINED_NODE | node).keys() & config.keys():
        problem = "follows from the hosts and is set for each of them; leave it out"
        raise source.error((*at, "cluster", "config", key), problem)
    try:
        properties = node | {key: text(value) for key, value in config.items()}
        NodeConfig.of(add_control_listener(properties, "127.0.0.1", 9093) if node is BROKER_OF_ENSEMBLE else properties)
    except ConfigError as wrong:
        value = config.get(wrong.key, wrong.value)
        known = value is not None and not wrong.problem.startswith("unknown")
        problem = f"{shown(value)} {wrong.problem}" if known else wrong.problem
        raise source.error((*at, "cluster", "config", wrong.key), problem) from None


def _missing(scenario: Scenario, pattern: TopicPartitionPattern) -> str:
    """Return why no topic-partition of this scenario matches; nothing if one does."""
    partitions = scenario.topics.get(pattern.topic)
    if partitions is None:
        return f"there is no topic {shown(pattern.topic)}{suggestion(pattern.topic, scenario.topics)}"
    if pattern.partition is not None and pattern.partition >= partitions:
        return f"{pattern.topic} has topic-partitions 0 to {partitions - 1}, and no {pattern.partition}"
    return ""


def faults_of(scenario: Scenario) -> Iterator[tuple[KeyPath, FaultOptions]]:
    """Yield every listed fault, with its place in the file; an entry that combines faults yields each of them."""
    for index, entry in enumerate(scenario.nemesis):
        yield from ((("nemesis", index, *place), fault) for place, fault in steps_in(entry))


def text(value: str | int | float | bool) -> str:
    """Format a value as in a properties file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def plugins_of(scenario: Scenario) -> dict[str, str]:
    """The plugins that a scenario uses, such as `fault full-inodes`, and the package of each with its version."""
    faults = dict.fromkeys(entry.fault for _, entry in faults_of(scenario) if entry.fault in FAULT_PLUGINS.names)
    used = {f"fault {name}": FAULT_PLUGINS.origin(name) for name in faults}
    used |= {f"check {name}": CHECK_PLUGINS.origin(name) for name in scenario.checks if name in CHECK_PLUGINS.names}
    if scenario.workload.name in WORKLOAD_PLUGINS.names:
        used[f"workload {scenario.workload.name}"] = WORKLOAD_PLUGINS.origin(scenario.workload.name)
    if scenario.cluster.system.name in SYSTEM_PLUGINS.names:
        used[f"system {scenario.cluster.system}"] = SYSTEM_PLUGINS.origin(scenario.cluster.system.name)
    return used


def _refuse_twice(source: YamlSource, placed: Sequence[tuple[KeyPath, Scenario]]) -> None:
    seen: dict[str, KeyPath] = {}
    for place, one in placed:
        if one.scenario in seen:
            line = source.line(seen[one.scenario])
            raise source.error(place, f"{one.scenario!r} is given twice (first on line {line})")
        seen[one.scenario] = place


def suite_schema() -> dict[str, Any]:
    """Return the JSON Schema of a suite file, for editors."""
    single, several = Scenario.model_json_schema(), _SuiteFile.model_json_schema()
    definitions = {**several.pop("$defs", {}), **single.pop("$defs", {})}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Squall suite",
        "anyOf": [single, several],
        "$defs": definitions,
    }
