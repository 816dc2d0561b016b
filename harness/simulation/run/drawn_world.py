"""Draw a small and hostile world for each seed: cluster, settings and load of a scenario with `swarm: worlds`.

A fixed cluster exercises what its settings let happen. Segments of a gigabyte never roll, an index entry every 4096
bytes is never looked up, a fetch session cache of a thousand slots never evicts. So each seed draws its own cluster and
settings, at the edge of what is legal: segments of a few batches, fetches of one batch, retention of a few segments,
one to five controllers, replication factors from 1 to 5, unclean elections, eligible leader replicas on, off and
switched.

Laws:

* The draw is pure: the same scenario and seed give the same world in every process.
* Every world is legal: Kafka's promises hold in it, and the checks and the fault budget know its settings.
* What is drawn stays small, so that a seed costs a second or two of processor time, and thousands are affordable.

Each part has a separate random stream, so that another setting in one part does not shift the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from random import Random
from typing import Final

from squall.harness.scenario.node_ids import NodeIds
from squall.harness.scenario.suite import ClusterOptions, Scenario, TopicOptions
from squall.harness.simulation.swarm.budget import FLUSH_MESSAGES
from squall.harness.simulation.world.buggify import draw_places
from squall.workloads.log import LogOptions

WORLDS: Final = "worlds"
SYNCED: Final = 0.15
"""The share of worlds in which brokers sync every record before they answer for it: there a power loss takes none."""
AGED: Final = 0.12
"""The share of worlds whose topics keep records for a few seconds only: longer than final reads take."""
LOSSY: Final = 0.25
"""The share of worlds in which a broker may lose what it has not synced: min ISR is two at least, and eligible leader
replicas are kept, so that a power loss costs nothing that was acknowledged (`power_losses.py`)."""
PUNCTUAL: Final = 0.25
"""The share of worlds in which nodes make snapshots of the metadata by the clock as well as by size."""
SCARCE: Final = 0.12
"""The share of worlds in which one capacity of the nodes is scarce."""
FROM_0: Final = 0.25
"""The share of worlds in which a node has the id 0."""
CREATED_WHEN_ASKED: Final = 0.15
"""The share of worlds in which brokers create a topic when a client asks for it (`asked_topics.py`)."""
AUTO_CREATE: Final = "auto.create.topics.enable"
REQUEST_TIMEOUT: Final = "request.timeout.ms"
IMPATIENT: Final = 0.25
"""The share of worlds in which nodes wait for one another for about as long as faults last, or less."""
BUGGIFIED: Final = 0.5
"""The share of worlds in which rare but legal things happen (world/buggify.py)."""
PIPELINED: Final = 0.4
"""The share of worlds with idempotent producers and few topic-partitions in which several batches are in flight."""
ADMINISTERED: Final = 0.15
"""The share of worlds in which many administrators make and delete the same few topics."""
ELIGIBLE_LEADERS: Final = "eligible.leader.replicas.version"
UNCLEAN: Final = "unclean.leader.election.enable"
SELECTOR: Final = "replica.selector.class"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

RACKS: Final = ("r1", "r2", "r3")
"""Consumers stand in these racks, and so do brokers: consumers then read from followers (KIP-392)."""
LOAD_SECONDS: Final = (8.0, 12.0, 16.0, 24.0)
"""Short runs are many, and some defects need a long one."""
LOSSY_REPLICAS: Final = 3
"""The least number of replicas, and of brokers, where brokers may lose what they have not synced."""
SEGMENT_BATCHES: Final = 3
BATCH_OVERHEAD: Final = 90
"""A segment has room for a few batches of one record, of which the header takes so many bytes.

A fetch reads one segment, and consumers fetch ten times a second. With one batch a segment, producers would be faster
than any consumer, and the final reads would not end in time.
"""

Settings = dict[str, str | int | float | bool]


def draw_world(scenario: Scenario, seed: int) -> Scenario:
    """Return the scenario with the cluster and load that this seed draws; any other scenario unchanged."""
    if scenario.swarm != WORLDS:
        return scenario
    cluster = _cluster(scenario.cluster, seed)
    few = sum(topic.partitions for topic in cluster.topics.values()) <= 4
    workload = _load(Random(f"{seed}/world/load"), few)
    if few and workload.idempotent and (rng := Random(f"{seed}/world/pipelines")).random() < PIPELINED:
        workload = _pipelined(workload, rng.randint(2, 5))
    if (rng := Random(f"{seed}/world/administrators")).random() < ADMINISTERED:
        workload = workload.model_copy(update={"admin": rng.choice((6.0, 12.0)), "admins": rng.choice((4, 12, 30))})
    if cluster.config.get(SELECTOR) == RACK_AWARE:
        workload = workload.model_copy(update={"consumer_racks": RACKS[: 1 + seed % len(RACKS)]})
    cluster = _with_room(cluster, SEGMENT_BATCHES * (workload.record_size + BATCH_OVERHEAD))
    times = scenario.time.model_copy(update={"load": Random(f"{seed}/world/time").choice(LOAD_SECONDS)})
    return scenario.model_copy(update={"cluster": cluster, "workload": workload, "time": times})


def _with_room(cluster: ClusterOptions, least: int) -> ClusterOptions:
    """Return the cluster with segments of at least so many bytes."""
    topics = {
        name: one.model_copy(update={"config": _with_larger(one.config, "segment.bytes", least)})
        for name, one in cluster.topics.items()
    }
    return cluster.model_copy(update={"topics": topics})


def _with_larger(settings: Mapping[str, str | int | float | bool], name: str, least: int) -> Settings:
    return {key: max(int(value), least) if key == name else value for key, value in settings.items()}


def keeps_eligible_leaders(scenario: Scenario) -> bool:
    """Return whether the scenario's settings keep eligible leader replicas from the start."""
    return scenario.cluster.config.get(ELIGIBLE_LEADERS) == 1


def switches_features(scenario: Scenario, seed: int) -> bool:
    """Return whether operators also switch eligible leader replicas off and on in this seed's world."""
    keeps = keeps_eligible_leaders(scenario)
    if scenario.swarm != WORLDS or not keeps or may_lose_power(scenario, seed):
        return False
    return Random(f"{seed}/world/switches").random() < 0.25


def may_lose_power(scenario: Scenario, seed: int) -> bool:
    """Return whether this seed's world is one in which power losses of brokers are frequent."""
    return scenario.swarm == WORLDS and _is_lossy(seed)


def _is_lossy(seed: int) -> bool:
    return Random(f"{seed}/world/lossy").random() < LOSSY


def world_lines(scenario: Scenario) -> tuple[str, ...]:
    """Describe a drawn world in a few lines, for the output of one seed."""
    cluster, usual = scenario.cluster, LogOptions().model_dump()
    load = {key: value for key, value in scenario.workload.model_dump().items() if value != usual.get(key)}
    nodes = f"{cluster.brokers} brokers, {cluster.controllers} controllers"
    nodes += " (combined)" if cluster.combined else ""
    nodes += ", dynamic voters" if cluster.dynamic_voters else ""
    nodes += f", {cluster.node_ids}" if cluster.node_ids != "usual" else ""
    topics = [
        f"{name}: {one.partitions} topic-partitions, RF {one.replication_factor}, min ISR {one.min_insync_replicas}"
        + "".join(f", {key} {value}" for key, value in one.config.items())
        for name, one in cluster.topics.items()
    ]
    settings = ", ".join(f"{key} {value}" for key, value in cluster.config.items())
    rare = (f"buggify {', '.join(cluster.buggify)}",) if cluster.buggify else ()
    return (nodes, *topics, settings, ", ".join(f"{key} {value}" for key, value in load.items()), *rare)


# -- the cluster -----------------------------------------------------------------------------------------------


def _cluster(given: ClusterOptions, seed: int) -> ClusterOptions:
    rng = Random(f"{seed}/world/cluster")
    brokers = rng.choice((1, 2, 3, 3, 3, 4, 5))
    controllers = rng.choice((1, 3, 3, 3, 5))
    combined = controllers <= brokers and rng.random() < 0.2
    dynamic = rng.random() < 0.4
    topics = _topics(Random(f"{seed}/world/topics"), brokers)
    if Random(f"{seed}/world/synced").random() < SYNCED:
        topics = {name: _with(one, FLUSH_MESSAGES, 1) for name, one in topics.items()}
    if (rng := Random(f"{seed}/world/ages")).random() < AGED:
        topics = {name: _aged(one, _log_uniform(rng, 5_000, 12_000)) for name, one in topics.items()}
    kept: Settings = {}
    if _is_lossy(seed):
        brokers = max(brokers, LOSSY_REPLICAS)
        topics = {name: _replicated(one) for name, one in topics.items()}
        kept = {ELIGIBLE_LEADERS: 1}
    if (rng := Random(f"{seed}/world/created when asked")).random() < CREATED_WHEN_ASKED:
        # A wish that no controller has answered must be passed on again when somebody asks again.
        kept = {**kept, AUTO_CREATE: True, REQUEST_TIMEOUT: _log_uniform(rng, 500, 4_000)}
    settings = _settings(Random(f"{seed}/world/settings"), brokers)
    return given.model_copy(
        update={
            "brokers": brokers,
            "controllers": controllers,
            "combined": combined,
            "dynamic_voters": dynamic,
            "node_ids": _node_ids(Random(f"{seed}/world/ids"), combined=combined),
            "topics": topics,
            "config": {
                **settings,
                **_capacity(Random(f"{seed}/world/capacity")),
                **_snapshot_interval(Random(f"{seed}/world/snapshots")),
                **_patience(Random(f"{seed}/world/patience"), settings),
                **kept,
                **given.config,
            },
            "buggify": draw_places(seed) if Random(f"{seed}/world/buggify").random() < BUGGIFIED else (),
        }
    )


def _node_ids(rng: Random, *, combined: bool) -> NodeIds:
    """A quarter of the worlds have a node with the id 0, as Kafka's clusters have."""
    if rng.random() >= FROM_0:
        return "usual"
    return "brokers-from-0" if combined else rng.choice(("brokers-from-0", "controllers-from-0"))


def _with(topic: TopicOptions, name: str, value: int | str) -> TopicOptions:
    return topic.model_copy(update={"config": {**topic.config, name: value}})


def _aged(topic: TopicOptions, age_ms: int) -> TopicOptions:
    """The topic with records that go at this age, by the leaders' clocks: clients' times are no times of day."""
    return _with(_with(topic, "message.timestamp.type", "LogAppendTime"), "retention.ms", age_ms)


def _replicated(topic: TopicOptions) -> TopicOptions:
    """The topic with replicas enough that one broker may lose what it has not synced."""
    config = {name: value for name, value in topic.config.items() if name != FLUSH_MESSAGES}
    least = {
        "replication_factor": max(topic.replication_factor, LOSSY_REPLICAS),
        "min_insync_replicas": max(topic.min_insync_replicas, 2),
    }
    return topic.model_copy(update={**least, "config": config})


def _topics(rng: Random, brokers: int) -> dict[str, TopicOptions]:
    drawn = {}
    for name in ("events", "wide")[: rng.choice((1, 1, 2))]:
        replicas = min(brokers, rng.choice((1, 2, 3, 3, 3, 4, 5)))
        drawn[name] = TopicOptions(
            partitions=rng.choice((1, 1, 2, 3, 4, 8, 15)),
            replication_factor=replicas,
            min_insync_replicas=rng.randint(1, min(3, replicas)),
            config=_topic_config(rng),
        )
    return drawn


def _topic_config(rng: Random) -> Settings:
    drawn: Settings = {}
    if rng.random() < 0.6:
        drawn["segment.bytes"] = _log_uniform(rng, 300, 20_000)
    if rng.random() < 0.2:
        drawn["segment.ms"] = _log_uniform(rng, 300, 5_000)
    if rng.random() < 0.5:
        drawn["index.interval.bytes"] = rng.choice((0, 1, 200))
    if rng.random() < 0.15:
        drawn["retention.bytes"] = _log_uniform(rng, 1_000, 50_000)
    if rng.random() < 0.15:
        drawn["flush.messages"] = rng.choice((1, 5, 50))
    if rng.random() < 0.1:
        drawn["message.timestamp.type"] = "LogAppendTime"
    return drawn


def _settings(rng: Random, brokers: int) -> Settings:
    """Draw the nodes' settings, by Kafka's names."""
    heartbeat = _log_uniform(rng, 100, 600)
    lag = _log_uniform(rng, 600, 3_000)
    election = _log_uniform(rng, 250, 1_000)
    drawn: Settings = {
        "default.replication.factor": min(3, brokers),
        "broker.heartbeat.interval.ms": heartbeat,
        "broker.session.timeout.ms": max(_log_uniform(rng, 1_200, 4_000), 4 * heartbeat),
        "replica.lag.time.max.ms": lag,
        "replica.fetch.wait.max.ms": min(_log_uniform(rng, 20, 500), lag // 2),
        "replica.fetch.backoff.ms": _log_uniform(rng, 20, 400),
        "controller.quorum.election.timeout.ms": election,
        "controller.quorum.fetch.timeout.ms": 2 * election,
        "controller.quorum.election.backoff.max.ms": _log_uniform(rng, 50, 1_000),
        "metadata.max.idle.interval.ms": _log_uniform(rng, 200, 2_000),
        ELIGIBLE_LEADERS: rng.choice((0, 1, 1, 1)),
        UNCLEAN: rng.random() < 0.2,
    }
    drawn |= _limits(rng)
    drawn |= _checkpoints(rng)
    return drawn | _of_the_metadata_log(rng)


def other_settings(scenario: Scenario, rng: Random) -> Settings:
    """Draw settings that a broker may have beside others that have those of the world."""
    lag = int(scenario.cluster.config["replica.lag.time.max.ms"])
    drawn: Settings = {
        "replica.fetch.wait.max.ms": min(_log_uniform(rng, 20, 500), lag // 2),
        "replica.fetch.backoff.ms": _log_uniform(rng, 20, 400),
    }
    drawn |= {key: value for key, value in _limits(rng).items() if key != SELECTOR}
    return drawn | _checkpoints(rng)


def _limits(rng: Random) -> Settings:
    """Draw how much is fetched at once; a fetch returns at least one batch, whatever its limit (KIP-74)."""
    drawn: Settings = {}
    if rng.random() < 0.4:
        drawn["replica.fetch.max.bytes"] = _log_uniform(rng, 1, 4_000)
    if rng.random() < 0.3:
        drawn["replica.fetch.response.max.bytes"] = _log_uniform(rng, 1, 10_000)
    if rng.random() < 0.3:
        drawn["fetch.max.bytes"] = _log_uniform(rng, 3_000, 20_000)
    if rng.random() < 0.4:
        drawn["max.incremental.fetch.session.cache.slots"] = rng.choice((0, 1, 2, 5))
    if rng.random() < 0.3:
        drawn[SELECTOR] = RACK_AWARE
    return drawn


def _capacity(rng: Random) -> Settings:
    """Draw how much a node takes before its clients wait, how long they may be silent, and how often leaders move back.

    The usual values are those of large machines, and nothing in a small world reaches them.
    """
    drawn: Settings = {}
    if rng.random() < SCARCE:
        drawn["queued.max.requests"] = rng.choice((1, 2, 5, 20))
    if rng.random() < SCARCE:
        drawn["turn.requests.max"] = rng.choice((1, 2, 5))
    if rng.random() < SCARCE:
        drawn["queued.max.request.bytes"] = _log_uniform(rng, 20_000, 300_000)
    if rng.random() < SCARCE:
        # Far above the time between two heartbeats: a forwarded request that meets the end of a connection is lost.
        drawn["connections.max.idle.ms"] = _log_uniform(rng, 5_000, 20_000)
    if rng.random() < SCARCE:
        drawn["leader.imbalance.check.interval.seconds"] = rng.choice((1, 2, 5))
    if rng.random() < SCARCE:
        drawn["log.flush.interval.ms"] = rng.choice((0, 1, 20, 200))
    return drawn


def _checkpoints(rng: Random) -> Settings:
    """Draw how often a broker notes on disk what recovery begins from, and how often retention looks."""
    drawn: Settings = {"log.retention.check.interval.ms": _log_uniform(rng, 200, 5_000)}
    if rng.random() < 0.6:
        drawn["replica.high.watermark.checkpoint.interval.ms"] = _log_uniform(rng, 100, 5_000)
    if rng.random() < 0.6:
        drawn["log.flush.offset.checkpoint.interval.ms"] = _log_uniform(rng, 200, 10_000)
    return drawn


def _of_the_metadata_log(rng: Random) -> Settings:
    if rng.random() < 0.4:
        return {}
    between = _log_uniform(rng, 1_500, 10_000)
    return {
        "metadata.log.segment.bytes": _log_uniform(rng, 1_024, 6_000),
        "metadata.log.max.record.bytes.between.snapshots": between,
        "metadata.max.retention.bytes": 2 * between,
    }


def _snapshot_interval(rng: Random) -> Settings:
    """Draw how old the newest snapshot may become, if there is news; the usual hour is longer than any run."""
    if rng.random() >= PUNCTUAL:
        return {}
    return {"metadata.log.max.snapshot.interval.ms": _log_uniform(rng, 500, 8_000)}


def _patience(rng: Random, settings: Settings) -> Settings:
    """Draw how long nodes wait for one another in a part of the worlds; the usual times are longer than most loads."""
    if rng.random() >= IMPATIENT:
        return {}
    drawn: Settings = {}
    if rng.random() < 0.6:
        drawn[REQUEST_TIMEOUT] = _log_uniform(rng, 500, 4_000)
    if rng.random() < 0.6:
        wait = int(settings["replica.fetch.wait.max.ms"])
        drawn["replica.socket.timeout.ms"] = wait + _log_uniform(rng, 100, 2_000)
    if rng.random() < 0.6:
        drawn["controller.quorum.request.timeout.ms"] = _log_uniform(rng, 600, 2_000)
    if rng.random() < 0.6:
        drawn["controller.quorum.retry.backoff.ms"] = _log_uniform(rng, 5, 200)
    if rng.random() < 0.6:
        drawn["controlled.shutdown.timeout.ms"] = _log_uniform(rng, 300, 8_000)
    return drawn


# -- the load --------------------------------------------------------------------------------------------------


def _load(rng: Random, few: bool) -> LogOptions:
    """Draw what clients do. `few`: there are few topic-partitions, so that more may be in flight for each."""
    acks = rng.choice(("all",) * 9 + ("1",))
    return LogOptions(
        producers=rng.randint(1, 3),
        consumers=rng.randint(1, 2),
        rate=float(rng.choice((10, 20, 40, 60))),
        acks=acks,
        idempotent=acks == "all" and rng.random() < 0.7,
        record_size=rng.choice((16, 16, 100, 600)),
        in_flight=rng.randint(1, 5) if few else 1,
        list_offsets=_sometimes(rng, (0.05, 0.2)),
        delete_records=_sometimes(rng, (0.02, 0.1)),
        seek=_sometimes(rng, (0.05, 0.2)),
        reopen=_sometimes(rng, (0.005, 0.02)),
        admin=_sometimes(rng, (0.5, 2.0, 6.0)),
        admins=rng.choice((1, 1, 2)),
        final_timeout=90.0,
    )


def _pipelined(load: LogOptions, batches: int) -> LogOptions:
    """The load with so many batches in flight, and one process more, so that a further record waits for them."""
    return load.model_copy(update={"batches_in_flight": batches, "in_flight": max(load.in_flight, batches + 1)})


def _sometimes(rng: Random, choices: Sequence[float]) -> float:
    return rng.choice(choices) if rng.random() < 0.5 else 0.0


def _log_uniform(rng: Random, low: float, high: float) -> int:
    return round(exp(rng.uniform(log(low), log(high))))
