"""Tables of the APIs and versions that each listener serves and that this node uses towards its peers.

Broker and controller listeners have separate tables: the control plane shares no socket, no queue and no API key by
accident with the data plane (CL-24). What ApiVersions advertises is exactly what is implemented; clients choose their
features by it, so a row too many breaks them (a client that is offered telemetry uses it).

Produce is advertised from version 0 although only 3 and later are served: librdkafka before 2.5 compresses only for
brokers that begin at 0 (KAFKA-18659), and no client that knows version 3 uses a lower one.
"""

from __future__ import annotations

from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import Versions
from squall.nodes.protocol.schema import Message

BROKER_VERSIONS: Versions = {
    int(ApiKey.PRODUCE): (0, 12),
    int(ApiKey.FETCH): (4, 18),
    int(ApiKey.LIST_OFFSETS): (1, 11),
    int(ApiKey.METADATA): (0, 12),
    int(ApiKey.OFFSET_FETCH): (1, 9),
    int(ApiKey.FIND_COORDINATOR): (0, 6),
    int(ApiKey.JOIN_GROUP): (0, 9),
    int(ApiKey.API_VERSIONS): (0, 4),
    int(ApiKey.CREATE_TOPICS): (2, 7),
    int(ApiKey.DELETE_TOPICS): (1, 6),
    int(ApiKey.DELETE_RECORDS): (0, 2),
    int(ApiKey.INIT_PRODUCER_ID): (0, 4),
    int(ApiKey.OFFSET_FOR_LEADER_EPOCH): (2, 4),
    int(ApiKey.DESCRIBE_CONFIGS): (1, 4),
    int(ApiKey.ALTER_REPLICA_LOG_DIRS): (1, 2),
    int(ApiKey.DESCRIBE_LOG_DIRS): (1, 5),
    int(ApiKey.CREATE_PARTITIONS): (0, 3),
    int(ApiKey.ELECT_LEADERS): (0, 2),
    int(ApiKey.ALTER_PARTITION_REASSIGNMENTS): (0, 1),
    int(ApiKey.LIST_PARTITION_REASSIGNMENTS): (0, 0),
    int(ApiKey.INCREMENTAL_ALTER_CONFIGS): (0, 1),
    int(ApiKey.UPDATE_FEATURES): (0, 1),
    int(ApiKey.DESCRIBE_QUORUM): (0, 2),
    int(ApiKey.DESCRIBE_CLUSTER): (0, 2),
    int(ApiKey.UNREGISTER_BROKER): (0, 0),
    int(ApiKey.DESCRIBE_TOPIC_PARTITIONS): (0, 0),
}
"""APIs of a broker for clients and follower brokers."""

CONTROLLER_VERSIONS: Versions = {
    int(ApiKey.FETCH): (12, 17),
    int(ApiKey.API_VERSIONS): (0, 4),
    int(ApiKey.CREATE_TOPICS): (2, 7),
    int(ApiKey.DELETE_TOPICS): (1, 6),
    int(ApiKey.CREATE_PARTITIONS): (0, 3),
    int(ApiKey.ELECT_LEADERS): (0, 2),
    int(ApiKey.ALTER_PARTITION_REASSIGNMENTS): (0, 1),
    int(ApiKey.LIST_PARTITION_REASSIGNMENTS): (0, 0),
    int(ApiKey.INCREMENTAL_ALTER_CONFIGS): (0, 1),
    int(ApiKey.UPDATE_FEATURES): (0, 1),
    int(ApiKey.VOTE): (0, 2),
    int(ApiKey.BEGIN_QUORUM_EPOCH): (0, 1),
    int(ApiKey.END_QUORUM_EPOCH): (0, 1),
    int(ApiKey.DESCRIBE_QUORUM): (0, 2),
    int(ApiKey.FETCH_SNAPSHOT): (0, 1),
    int(ApiKey.DESCRIBE_CLUSTER): (0, 2),
    int(ApiKey.ALTER_PARTITION): (3, 3),
    int(ApiKey.BROKER_REGISTRATION): (0, 4),
    int(ApiKey.BROKER_HEARTBEAT): (0, 1),
    int(ApiKey.UNREGISTER_BROKER): (0, 0),
    int(ApiKey.ALLOCATE_PRODUCER_IDS): (0, 0),
    int(ApiKey.ADD_RAFT_VOTER): (0, 1),
    int(ApiKey.REMOVE_RAFT_VOTER): (0, 0),
    int(ApiKey.UPDATE_RAFT_VOTER): (0, 0),
}
"""APIs of a controller for voters and brokers."""

PUSH_VERSIONS: Versions = {int(ApiKey.APPEND_ENTRIES): (0, 0)}
"""What the controllers of a quorum that pushes offer besides."""


_SPOKEN_TO_BROKERS = {int(ApiKey.FETCH): 16, int(ApiKey.LIST_OFFSETS): 8}
"""APIs whose newer versions add nothing between brokers."""


def peer_version(message: Message, *, to_controller: bool) -> int:
    """The version for a request to a peer: the newest that adds anything and that its listener serves."""
    if to_controller:
        versions = PUSH_VERSIONS if message.API_KEY in PUSH_VERSIONS else CONTROLLER_VERSIONS
        return versions[message.API_KEY][1]
    return _SPOKEN_TO_BROKERS.get(message.API_KEY, BROKER_VERSIONS[message.API_KEY][1])


ZOOKEEPER_VERSIONS: Versions = {
    **{key: versions for key, versions in BROKER_VERSIONS.items() if key != ApiKey.DESCRIBE_QUORUM},
    int(ApiKey.LEADER_AND_ISR): (5, 7),
    int(ApiKey.STOP_REPLICA): (3, 4),
    int(ApiKey.UPDATE_METADATA): (7, 8),
    int(ApiKey.CONTROLLED_SHUTDOWN): (3, 3),
}
"""APIs of a broker of a ZooKeeper-era cluster, for clients, followers and the controller."""
_WITHOUT_BROKER_EPOCH = 13
"""The version of Fetch between brokers that do not know each other's epochs; later ones name them (KIP-903)."""


def zookeeper_peer_version(message: Message, *, to_controller: bool) -> int:
    """The version for a request between the brokers of a ZooKeeper-era cluster, the controller among them."""
    if message.API_KEY == ApiKey.FETCH:
        return _WITHOUT_BROKER_EPOCH
    return _SPOKEN_TO_BROKERS.get(message.API_KEY, ZOOKEEPER_VERSIONS[message.API_KEY][1])


ORDERS = "orders"
CONTROLLER_REQUESTS = frozenset({int(ApiKey.LEADER_AND_ISR), int(ApiKey.STOP_REPLICA), int(ApiKey.UPDATE_METADATA)})
"""What a ZooKeeper-era controller sends to brokers; KIP-291 keeps these from waiting behind clients' requests."""

_PURPOSES = {
    int(ApiKey.FETCH): "fetch",
    int(ApiKey.FETCH_SNAPSHOT): "fetch",
    int(ApiKey.VOTE): "quorum",
    int(ApiKey.BEGIN_QUORUM_EPOCH): "quorum",
    int(ApiKey.END_QUORUM_EPOCH): "quorum",
    int(ApiKey.APPEND_ENTRIES): "append",
    int(ApiKey.UPDATE_RAFT_VOTER): "voters",
    int(ApiKey.BROKER_REGISTRATION): "lifecycle",
    int(ApiKey.BROKER_HEARTBEAT): "lifecycle",
    int(ApiKey.ALTER_PARTITION): "isr",
    int(ApiKey.LEADER_AND_ISR): ORDERS,
    int(ApiKey.STOP_REPLICA): ORDERS,
    int(ApiKey.UPDATE_METADATA): ORDERS,
    int(ApiKey.CONTROLLED_SHUTDOWN): "lifecycle",
}


def purpose_of(message: Message) -> str:
    """The purpose of a request; requests of one purpose share a connection.

    Responses leave a connection in request order, so a fetch that the other side holds, or a topic that takes long to
    create, must not delay a heartbeat.
    """
    return _PURPOSES.get(message.API_KEY, "admin")
