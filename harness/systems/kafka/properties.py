"""Write a node's `node.properties` for Apache Kafka, from the inventory and a suite's settings.

Suites use Kafka's names, so most settings are taken as they are. The rest is this table:

    cluster.id, eligible.leader.replicas.version      no keys there: arguments of `kafka-storage format`
    metadata.log.segment.bytes below 8 MiB            internal.metadata.log.segment.bytes
    what our nodes alone know (metrics.listener, …)   refused, as every key that the version does not know

Version 3.9 also has brokers whose metadata ZooKeeper keeps (`broker_on_zookeeper`). Settings of one kind of cluster do
nothing in the other, and are refused there (`OF_QUORUM`, `OF_ZOOKEEPER`).

`USUAL` is what differs from Kafka's defaults unless the suite sets it: for judgeable runs, and for nodes of a small
machine. docs/testing-apache-kafka.md explains each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from squall.harness.hosts.system import BROKER_PORT, CONTROLLER_PORT
from squall.harness.scenario.control_plane import add_control_listener
from squall.harness.systems.kafka.versions import NEWEST, VERSIONS, WITHOUT_ELR, settings_of
from squall.harness.yaml_source import suggestion

CLUSTER_ID: Final = "cluster.id"
FEATURES: Final = ("eligible.leader.replicas.version",)
"""Levels of a cluster's features, which `kafka-storage format` writes into the metadata."""
FROM_HOSTS: Final = frozenset(
    (
        *("process.roles", "node.id", "broker.id", "broker.rack", "log.dir", "log.dirs", "metadata.log.dir"),
        *("controller.quorum.voters", "controller.quorum.bootstrap.servers", "controller.listener.names"),
        *("listeners", "advertised.listeners", "inter.broker.listener.name", "security.inter.broker.protocol"),
        *("listener.security.protocol.map", "zookeeper.connect"),
    )
)
OF_QUORUM: Final = (
    *("controller.quorum.", "metadata.log.", "metadata.max.", "broker.heartbeat.interval.ms"),
    *("broker.session.timeout.ms", "initial.broker.registration.timeout.ms"),
)
"""Beginnings of keys that do nothing on ZooKeeper."""
OF_ZOOKEEPER: Final = ("zookeeper.", "control.plane.listener.name", "inter.broker.protocol.version")
"""Beginnings of keys that do nothing with a quorum."""
LEAST_METADATA_SEGMENT: Final = 8 << 20
LONGEST: Final = str(2**63 - 1)
MOST_REPLICAS: Final = 3
USUAL: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    # Runs are judged by the records still in the log, and faults change clocks.
    "log.retention.ms": "-1",
    "log.message.timestamp.after.max.ms": LONGEST,
    # Smaller than Kafka's default, which does not fit into the heap of a node of a lab.
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
}


def wrong_with_setting(key: str, value: str, version: str = "") -> str | None:
    """Why a suite cannot set this; None if it can. Without a version the newest one is meant."""
    version = version or NEWEST
    if key in FROM_HOSTS:
        return "follows from the hosts and is set for each of them; leave it out"
    if any(not (character.isprintable()) for character in value):
        return f"{value!r} has a character that cannot be printed; a value is one line"
    if key in FEATURES and version in WITHOUT_ELR:
        having = ", ".join(one for one in VERSIONS if one not in WITHOUT_ELR)
        return f"Apache Kafka {version} has no such feature; {having} have it"
    if key in settings_of(version) or key in (CLUSTER_ID, *FEATURES):
        return None
    return f"Apache Kafka {version} has no such setting{suggestion(key, settings_of(version))}"


def wrong_with_metadata(key: str, metadata: str) -> str | None:
    """Why a key does nothing with this keeper of the metadata, `quorum` or `zookeeper`; None if it does something."""
    if metadata == "zookeeper" and (key.startswith(OF_QUORUM) or key in FEATURES):
        return "does nothing on brokers on ZooKeeper; leave it out, or leave out metadata: zookeeper"
    if metadata != "zookeeper" and key.startswith(OF_ZOOKEEPER):
        return "does nothing in a cluster with a quorum; leave it out, or set cluster.metadata: zookeeper"
    return None


def features(config: Mapping[str, str]) -> dict[str, str]:
    """The features of a suite's settings, by name."""
    return {key: value for key, value in config.items() if key in FEATURES}


def node_properties(
    *,
    node_id: int,
    roles: tuple[str, ...],
    address: str,
    quorum: Mapping[str, str],
    data: str,
    rack: str | None,
    brokers: int,
    config: Mapping[str, str],
    version: str = NEWEST,
) -> dict[str, str]:
    """Return the configuration of one node; `config` is the suite's, which takes precedence."""
    ports = {"broker": ("PLAINTEXT", BROKER_PORT), "controller": ("CONTROLLER", CONTROLLER_PORT)}
    listeners = {role: f"{name}://{address}:{port}" for role, (name, port) in ports.items()}
    properties = {
        "process.roles": ",".join(roles),
        "node.id": str(node_id),
        **quorum,
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners[role] for role in roles),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        **_usual(brokers, version),
    }
    if "broker" in roles:
        properties |= _of_broker(listeners["broker"], rack)
    return properties | _of_suite(config, version)


def broker_on_zookeeper(
    *,
    broker_id: int,
    address: str,
    connect: str,
    data: str,
    rack: str | None,
    brokers: int,
    config: Mapping[str, str],
    version: str,
) -> dict[str, str]:
    """Return the configuration of a broker whose metadata ZooKeeper keeps; `config` takes precedence."""
    listener = f"PLAINTEXT://{address}:{BROKER_PORT}"
    properties = {
        "broker.id": str(broker_id),
        "zookeeper.connect": connect,
        "listeners": listener,
        "log.dirs": data,
        **_usual(brokers, version),
        **_of_broker(listener, rack),
    }
    return add_control_listener(properties | _of_suite(config, version), address, CONTROLLER_PORT)


def _usual(brokers: int, version: str) -> dict[str, str]:
    """What differs from Kafka's defaults, as far as the version knows it."""
    known = settings_of(version)
    return {key: value for key, value in {**_internal_topics(brokers), **USUAL}.items() if key in known}


def _of_broker(listener: str, rack: str | None) -> dict[str, str]:
    own = {"advertised.listeners": listener, "inter.broker.listener.name": "PLAINTEXT"}
    return own if rack is None else own | {"broker.rack": rack}


def _of_suite(config: Mapping[str, str], version: str) -> dict[str, str]:
    known = settings_of(version)
    given = {key: value for key, value in config.items() if key not in (CLUSTER_ID, *FEATURES)}
    return dict(_named_as_there(key, value, known) for key, value in given.items())


def format_properties(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file: a backslash there begins an escape."""
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in properties.items())


def _internal_topics(brokers: int) -> dict[str, str]:
    """Return the replication of Kafka's own topics: no more replicas than there are brokers."""
    replicas = min(MOST_REPLICAS, brokers)
    in_sync = str(max(1, replicas - 1))
    return {
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def _named_as_there(key: str, value: str, known: Collection[str]) -> tuple[str, str]:
    internal = f"internal.{key}"
    small = key == "metadata.log.segment.bytes" and value.isdecimal() and int(value) < LEAST_METADATA_SEGMENT
    return (internal if small and internal in known else key), value
