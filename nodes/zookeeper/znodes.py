"""Kafka's layout of an ensemble: paths and the JSON of each znode, as Kafka 3.9 writes and reads them (ZK-03).

/controller                                  who is the controller; ephemeral
/controller_epoch                            how many controllers there were
/brokers/ids/ID                              a broker that lives, with its endpoints; ephemeral
/brokers/topics/TOPIC                        the replicas of each of its partitions
/brokers/topics/TOPIC/partitions/N/state     leader, leader epoch, ISR; its version is the partition epoch
/config/topics/TOPIC, /config/brokers/ID     settings
/config/changes/config_change_N              that some of them have changed
/admin/delete_topics/TOPIC                   that a topic is to be deleted
/admin/reassign_partitions                   replicas that topic-partitions are to get
/isr_change_notification/isr_change_N        that leaders have written ISRs
/latest_producer_id_block                    the producer ids that were handed out last
/cluster/id                                  the cluster's id
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from squall.nodes.metadata.image import Endpoint
from squall.nodes.protocol.topic_partition import format_id, parse_id

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
DEFAULT_ENTITY = "<default>"
CONFIG_CHANGES = "/config/changes"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
ISR_CHANGES = "/isr_change_notification"
PRODUCER_IDS = "/latest_producer_id_block"
CLUSTER_ID = "/cluster/id"
PERSISTENT = (
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/config",
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    "/admin",
    DELETE_TOPICS,
    ISR_CHANGES,
    PRODUCER_IDS,
    "/cluster",
)
"""The znodes that every broker makes sure of at its start, parents first."""
NO_LEADER = -1

TopicPartition = tuple[str, int]


class MalformedZnode(ValueError):
    """A znode holds something that Kafka does not write there. The message names the path."""


# -- paths -----------------------------------------------------------------------------------------------------------


def broker_path(broker: int) -> str:
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_of_path(path: str) -> str | None:
    """The topic whose znode this is; None for another path."""
    name = path.removeprefix(f"{TOPICS}/")
    return None if name == path or "/" in name else name


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def deletion_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


# -- contents --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerZnode:
    """A broker that lives. `epoch` is its broker epoch, the czxid of the znode (KIP-380)."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((one for one in self.endpoints if one.listener == listener), None)


@dataclass(frozen=True, slots=True)
class StateZnode:
    """The state of a topic-partition. `version` is that of the znode: the partition epoch."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class Assignment:
    """The replicas of a topic-partition, and which of them a reassignment adds or removes."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas at the end of the reassignment."""
        return tuple(one for one in self.replicas if one not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple(one for one in self.replicas if one not in self.adding)


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """A topic: its id, and the replicas of each partition."""

    id: bytes
    assignments: Mapping[int, Assignment]


def _encoded(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _decoded(path: str, data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise MalformedZnode(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise MalformedZnode(f"{path}: not a JSON object")
    return found


def encode_controller(broker: int, now_ms: int) -> bytes:
    return _encoded({"version": 2, "brokerid": broker, "timestamp": str(now_ms), "kraftControllerEpoch": -1})


def decode_controller(data: bytes) -> int:
    return int(_decoded(CONTROLLER, data)["brokerid"])


def encode_broker(broker: BrokerZnode, now_ms: int) -> bytes:
    first = broker.endpoints[0]
    content: dict[str, object] = {
        "version": 5,
        "host": first.host,
        "port": first.port,
        "jmx_port": -1,
        "timestamp": str(now_ms),
        "endpoints": [f"{one.listener}://{one.host}:{one.port}" for one in broker.endpoints],
        "listener_security_protocol_map": {one.listener: "PLAINTEXT" for one in broker.endpoints},
        "features": {},
    }
    if broker.rack is not None:
        content["rack"] = broker.rack
    return _encoded(content)


def decode_broker(broker: int, data: bytes, epoch: int) -> BrokerZnode:
    found = _decoded(broker_path(broker), data)
    endpoints = []
    for text in found.get("endpoints", ()):
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        endpoints.append(Endpoint(listener, host.strip("[]"), int(port)))
    return BrokerZnode(broker, tuple(endpoints), found.get("rack"), epoch)


def encode_topic(topic: TopicZnode) -> bytes:
    def part(field: str) -> dict[str, list[int]]:
        members = {str(number): list(getattr(one, field)) for number, one in sorted(topic.assignments.items())}
        return members if field == "replicas" else {number: ids for number, ids in members.items() if ids}

    return _encoded(
        {
            "removing_replicas": part("removing"),
            "partitions": part("replicas"),
            "topic_id": format_id(topic.id),
            "adding_replicas": part("adding"),
            "version": 3,
        }
    )


def decode_topic(name: str, data: bytes) -> TopicZnode:
    found = _decoded(topic_path(name), data)
    if "topic_id" not in found:
        raise MalformedZnode(f"{topic_path(name)}: no topic_id; topics older than Kafka 2.8 are not supported")
    adding, removing = found.get("adding_replicas") or {}, found.get("removing_replicas") or {}
    return TopicZnode(
        parse_id(found["topic_id"]),
        {
            int(number): Assignment(tuple(replicas), tuple(adding.get(number, ())), tuple(removing.get(number, ())))
            for number, replicas in sorted(found["partitions"].items(), key=lambda item: int(item[0]))
        },
    )


def encode_state(state: StateZnode) -> bytes:
    return _encoded(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
        }
    )


def decode_state(path: str, data: bytes, version: int) -> StateZnode:
    found = _decoded(path, data)
    return StateZnode(
        int(found["leader"]), int(found["leader_epoch"]), tuple(found["isr"]), int(found["controller_epoch"]), version
    )


def encode_config(settings: Mapping[str, str]) -> bytes:
    return _encoded({"version": 1, "config": dict(settings)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    found = _decoded(path, data).get("config") or {}
    return {str(name): str(value) for name, value in found.items()}


def encode_config_change(entity_path: str) -> bytes:
    return _encoded({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes) -> str:
    return str(_decoded(path, data).get("entity_path", ""))


def encode_isr_change(partitions: Sequence[TopicPartition]) -> bytes:
    return _encoded(
        {"version": 1, "partitions": [{"topic": topic, "partition": number} for topic, number in partitions]}
    )


def decode_isr_change(path: str, data: bytes) -> list[TopicPartition]:
    return [(str(one["topic"]), int(one["partition"])) for one in _decoded(path, data).get("partitions", ())]


def encode_reassignment(replicas: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    return _encoded(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": number, "replicas": list(ids)}
                for (topic, number), ids in replicas.items()
            ],
        }
    )


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas that topic-partitions are to get. Raises MalformedZnode: an operator may have written anything."""
    found = _decoded(REASSIGN_PARTITIONS, data).get("partitions", ())
    try:
        return {
            (str(one["topic"]), int(one["partition"])): tuple(int(broker) for broker in one["replicas"])
            for one in found
        }
    except (KeyError, TypeError, ValueError) as wrong:
        raise MalformedZnode(
            f"{REASSIGN_PARTITIONS}: {wrong!r} in partitions; each has a topic, a partition and replicas"
        ) from None


def encode_producer_ids(broker: int, first: int, last: int) -> bytes:
    return _encoded({"version": 1, "broker": broker, "block_start": str(first), "block_end": str(last)})


def decode_last_producer_id(data: bytes) -> int:
    """The last id that was handed out; -1 before any."""
    return -1 if not data else int(_decoded(PRODUCER_IDS, data)["block_end"])


def encode_cluster_id(identity: str) -> bytes:
    return _encoded({"version": "1", "id": identity})


def decode_cluster_id(data: bytes) -> str:
    return str(_decoded(CLUSTER_ID, data)["id"])
