"""Records of `__cluster_metadata`: Kafka's ids, fields and framing (MD-08).

A record's value is a frame version, its id and its version as unsigned varints, then the message, always in its
flexible form. Unknown ids are refused: a node that skipped a record would build another image than its peers (IMAGE).
The two most frequent records have hand-written codecs for their usual form (`hot_records`).
"""

from __future__ import annotations

from squall.nodes.metadata.hot_records import (
    CHANGE_HEAD,
    PARTITION_HEAD,
    decode_change,
    decode_partition,
    encode_change,
    encode_partition,
)
from squall.nodes.protocol.compiler import Buffer, decode_from, encode, read_uvarint, uvarint
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.schema import (
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    uint16,
    uuid,
)

FRAME_VERSION = 1
NO_LEADER = -1
NO_LEADER_CHANGE = -2
RECOVERED, RECOVERING = 0, 1
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
CLUSTER_DEFAULT = ""
"""The name of the broker resource whose settings are the defaults of all brokers."""


@message()
class BrokerEndpoint(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@message()
class BrokerFeature(Message):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(kind="record", record_id=0, versions=(0, 3), flexible=0)
class RegisterBrokerRecord(Message):
    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean(versions="2+")
    incarnation_id: bytes = uuid()
    broker_epoch: int = int64()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(default=None, nullable="0+")
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean(versions="1+")
    log_dirs: list[bytes] = array("uuid", versions="3+", tag=0)


@message(kind="record", record_id=1, versions=(0, 0), flexible=0)
class UnregisterBrokerRecord(Message):
    broker_id: int = int32()
    broker_epoch: int = int64()


@message(kind="record", record_id=2, versions=(0, 0), flexible=0)
class TopicRecord(Message):
    name: str = string()
    topic_id: bytes = uuid()


@message(kind="record", record_id=3, versions=(0, 2), flexible=0)
class PartitionRecord(Message):
    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    replicas: list[int] = array("int32")
    isr: list[int] = array("int32")
    removing_replicas: list[int] = array("int32")
    adding_replicas: list[int] = array("int32")
    leader: int = int32(default=NO_LEADER)
    leader_recovery_state: int = int8(default=RECOVERED, tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[bytes] = array("uuid", versions="1+")
    eligible_leader_replicas: list[int] | None = array("int32", default=None, versions="2+", nullable="2+", tag=1)
    last_known_elr: list[int] | None = array("int32", default=None, versions="2+", nullable="2+", tag=2)


@message(kind="record", record_id=4, versions=(0, 0), flexible=0)
class ConfigRecord(Message):
    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(default=None, nullable="0+")


@message(kind="record", record_id=5, versions=(0, 2), flexible=0)
class PartitionChangeRecord(Message):
    """None and `NO_LEADER_CHANGE` leave the field unchanged."""

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    isr: list[int] | None = array("int32", default=None, nullable="0+", tag=0)
    leader: int = int32(default=NO_LEADER_CHANGE, tag=1)
    replicas: list[int] | None = array("int32", default=None, nullable="0+", tag=2)
    removing_replicas: list[int] | None = array("int32", default=None, nullable="0+", tag=3)
    adding_replicas: list[int] | None = array("int32", default=None, nullable="0+", tag=4)
    leader_recovery_state: int = int8(default=-1, tag=5)
    eligible_leader_replicas: list[int] | None = array("int32", default=None, versions="2+", nullable="2+", tag=6)
    last_known_elr: list[int] | None = array("int32", default=None, versions="2+", nullable="2+", tag=7)
    directories: list[bytes] | None = array("uuid", default=None, versions="1+", nullable="1+", tag=8)


@message(kind="record", record_id=7, versions=(0, 0), flexible=0)
class FenceBrokerRecord(Message):
    id: int = int32()
    epoch: int = int64()


@message(kind="record", record_id=8, versions=(0, 0), flexible=0)
class UnfenceBrokerRecord(Message):
    id: int = int32()
    epoch: int = int64()


@message(kind="record", record_id=9, versions=(0, 0), flexible=0)
class RemoveTopicRecord(Message):
    topic_id: bytes = uuid()


@message(kind="record", record_id=12, versions=(0, 0), flexible=0)
class FeatureLevelRecord(Message):
    name: str = string()
    feature_level: int = int16()


@message(kind="record", record_id=15, versions=(0, 0), flexible=0)
class ProducerIdsRecord(Message):
    broker_id: int = int32()
    broker_epoch: int = int64()
    next_producer_id: int = int64()


@message(kind="record", record_id=17, versions=(0, 2), flexible=0)
class BrokerRegistrationChangeRecord(Message):
    """`fenced`: -1 unfence, 1 fence, 0 no change. `in_controlled_shutdown`: 1 begin, 0 no change."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8(versions="1+", tag=1)
    log_dirs: list[bytes] = array("uuid", versions="2+", tag=2)


@message(kind="record", record_id=20, versions=(0, 0), flexible=0)
class NoOpRecord(Message):
    """Keeps the log moving while idle, so that lag is distinguishable from silence."""


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | NoOpRecord
)

RECORDS: dict[int, type[Message]] = {
    record.RECORD_ID: record
    for record in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        FeatureLevelRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        NoOpRecord,
    )
}


def encode_record(record: Message) -> bytes:
    """Encode a metadata record's value, in the newest version of its schema."""
    value = None
    if isinstance(record, PartitionChangeRecord):
        value = encode_change(record)
    elif isinstance(record, PartitionRecord):
        value = encode_partition(record)
    return value if value is not None else encode_compiled(record)


def encode_compiled(record: Message) -> bytes:
    """Encode any form of any record, by the compiled codecs."""
    version = type(record).VERSIONS[1]
    head = uvarint(FRAME_VERSION) + uvarint(record.RECORD_ID) + uvarint(version)
    return head + b"".join(encode(record, version))


def decode_record(value: Buffer) -> Message:
    """Decode a record's value. Raises ProtocolError for an unknown frame, id or version, or malformed bytes."""
    if type(value) is bytes:
        if value.startswith(CHANGE_HEAD):
            fields = decode_change(value)
            if fields is not None:
                return PartitionChangeRecord(*fields)
        elif value.startswith(PARTITION_HEAD):
            fields = decode_partition(value)
            if fields is not None:
                return PartitionRecord(*fields)
    return decode_compiled(value)


def decode_compiled(value: Buffer) -> Message:
    """Decode any form of any record, by the compiled codecs. Raises ProtocolError."""
    view = memoryview(value)
    try:
        frame, position = read_uvarint(view, 0)
        record_id, position = read_uvarint(view, position)
        version, position = read_uvarint(view, position)
    except IndexError as trouble:
        raise ProtocolError("a metadata record is cut off") from trouble
    if frame != FRAME_VERSION:
        raise ProtocolError(f"metadata record in frame version {frame}; {FRAME_VERSION} is known")
    cls = RECORDS.get(record_id)
    if cls is None or not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
        raise ProtocolError(f"metadata record {record_id} version {version} is not known here")
    record, end = decode_from(cls, version, view, position)
    if end != len(view):
        raise ProtocolError(f"{cls.__name__}: {len(view) - end} bytes too many")
    return record
