"""Decode records of `__cluster_metadata` to names and fields, Squall's and those that only Kafka writes. No I/O.

`decoded(value)` gives every record a name. The image of a node refuses unknown ids (IMAGE, MD-08); a tool that shows a
log must not, so a record that cannot be decoded is returned as a name and the reason, by Kafka's name for its id.
Control records (leader changes, headers and footers of snapshots, voters) are handled the same way. Secrets are not
shown: SCRAM keys, and configs whose names indicate passwords.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from squall.harness.operator.log_content import CONTROL_RECORDS
from squall.nodes.metadata.records import FRAME_VERSION, RECORDS, BrokerEndpoint, BrokerFeature
from squall.nodes.protocol.compiler import decode_from, read_uvarint
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.records import Record, control_kind
from squall.nodes.protocol.schema import (
    Message,
    array,
    boolean,
    data,
    fields_of,
    float64,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uint16,
    uuid,
)
from squall.nodes.protocol.topic_partition import format_id

HIDDEN = "(hidden)"
_SECRET_FIELDS = ("salt", "stored_key", "server_key")
_SECRET_CONFIGS = ("password", "secret", "jaas", "keystore.key")


@dataclass(frozen=True)
class Decoded:
    """One record: its name, its version, and its fields; or why there are none."""

    name: str
    version: int
    fields: dict[str, Any]
    unknown: str | None = None
    is_malformed: bool = False
    """The bytes are wrong; otherwise `unknown` only states that their meaning is unknown."""

    def described(self) -> str:
        """Return `TopicRecord name=orders topic_id=…`."""
        said = " ".join(f"{name}={plain(value)}" for name, value in self.fields.items())
        return " ".join(part for part in (self.name, said, self.unknown and f"({self.unknown})") if part)


# -- records that only Kafka writes --------------------------------------------------------------------------------


@message(kind="record", record_id=11, versions=(0, 0), flexible=0)
class UserScramCredentialRecord(Message):
    name: str = string()
    mechanism: int = int8()
    salt: bytes = data()
    stored_key: bytes = data()
    server_key: bytes = data()
    iterations: int = int32()


@message()
class QuotaEntity(Message):
    entity_type: str = string()
    entity_name: str | None = string(default=None, nullable="0+")


@message(kind="record", record_id=14, versions=(0, 0), flexible=0)
class ClientQuotaRecord(Message):
    entity: list[QuotaEntity] = array(QuotaEntity)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@message(kind="record", record_id=18, versions=(0, 0), flexible=0)
class AccessControlEntryRecord(Message):
    id: bytes = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message(kind="record", record_id=19, versions=(0, 0), flexible=0)
class RemoveAccessControlEntryRecord(Message):
    id: bytes = uuid()


@message(kind="record", record_id=21, versions=(0, 0), flexible=0)
class ZkMigrationStateRecord(Message):
    zk_migration_state: int = int8()


@message(kind="record", record_id=22, versions=(0, 0), flexible=0)
class RemoveUserScramCredentialRecord(Message):
    name: str = string()
    mechanism: int = int8()


@message(kind="record", record_id=23, versions=(0, 0), flexible=0)
class BeginTransactionRecord(Message):
    name: str | None = string(default=None, nullable="0+", tag=0)


@message(kind="record", record_id=24, versions=(0, 0), flexible=0)
class EndTransactionRecord(Message):
    """The records since the transaction began take effect."""


@message(kind="record", record_id=25, versions=(0, 0), flexible=0)
class AbortTransactionRecord(Message):
    reason: str | None = string(default=None, nullable="0+", tag=0)


@message(kind="record", record_id=27, versions=(0, 0), flexible=0)
class RegisterControllerRecord(Message):
    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)


@message(kind="record", record_id=28, versions=(0, 0), flexible=0)
class ClearElrRecord(Message):
    """The topic's min.insync.replicas changed, so no replica outside its ISRs is eligible now; all topics if empty."""

    topic_name: str = string()


FOREIGN: dict[int, type[Message]] = {
    cls.RECORD_ID: cls
    for cls in (
        UserScramCredentialRecord,
        ClientQuotaRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        ZkMigrationStateRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RegisterControllerRecord,
        ClearElrRecord,
    )
}
OTHER_NAMES = {10: "DelegationTokenRecord", 26: "RemoveDelegationTokenRecord"}


# -- control records -----------------------------------------------------------------------------------------------


@message()
class ChangeVoter(Message):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid(versions="1+")


@message(flexible=0)
class LeaderChangeMessage(Message):
    """Kafka's newest version; Squall's nodes write version 0."""

    version: int = int16()
    leader_id: int = int32()
    voters: list[ChangeVoter] = array(ChangeVoter)
    granting_voters: list[ChangeVoter] = array(ChangeVoter)


@message(flexible=0)
class SnapshotHeaderRecord(Message):
    version: int = int16()
    last_contained_log_timestamp: int = int64()


@message(flexible=0)
class SnapshotFooterRecord(Message):
    version: int = int16()


@message(flexible=0)
class KRaftVersionRecord(Message):
    version: int = int16()
    k_raft_version: int = int16()


@message()
class VoterEndpoint(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()


@message()
class VoterFeature(Message):
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message()
class Voter(Message):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[VoterEndpoint] = array(VoterEndpoint)
    k_raft_version_feature: VoterFeature = struct(VoterFeature)


@message(flexible=0)
class VotersRecord(Message):
    version: int = int16()
    voters: list[Voter] = array(Voter)


CONTROL: dict[int, type[Message]] = {
    2: LeaderChangeMessage,
    3: SnapshotHeaderRecord,
    4: SnapshotFooterRecord,
    5: KRaftVersionRecord,
    6: VotersRecord,
}


# -- decoding ------------------------------------------------------------------------------------------------------


def decoded(record: Record, *, is_control: bool) -> Decoded:
    """Decode a record of the metadata log or of a snapshot. Never raises: an error is in `unknown`."""
    if is_control:
        return decoded_control(record)
    value = record.value
    if value is None:
        return Decoded("(no value)", 0, {}, "a metadata record has a value", True)
    try:
        frame, position = read_uvarint(memoryview(value), 0)
        number, position = read_uvarint(memoryview(value), position)
        version, position = read_uvarint(memoryview(value), position)
    except (IndexError, ProtocolError):
        return Decoded("(cut off)", 0, {}, f"{len(value)} bytes hold no frame, id and version", True)
    if frame != FRAME_VERSION:
        return Decoded("(unknown)", version, {}, f"frame version {frame}; {FRAME_VERSION} is known")
    cls = RECORDS.get(number) or FOREIGN.get(number)
    name = cls.NAME if cls is not None else OTHER_NAMES.get(number, f"record {number}")
    if cls is None or not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
        return Decoded(name, version, {}, f"version {version} is not known here, {len(value) - position} bytes")
    return _opened(cls, name, version, memoryview(value), position)


def decoded_control(record: Record) -> Decoded:
    """Decode a control record: its key has its kind, its value the content."""
    try:
        kind = control_kind(record.key)
    except ProtocolError as trouble:
        return Decoded("(control)", 0, {}, str(trouble))
    name = CONTROL_RECORDS.get(kind, f"control record {kind}")
    cls = CONTROL.get(kind)
    if cls is None or record.value is None:
        return Decoded(name, 0, {}, None if kind in (0, 1) else "not known here")
    written = int.from_bytes(record.value[:2], "big")  # each value begins with the version of its schema
    tried = [_opened(cls, name, version, memoryview(record.value), 0) for version in (written, 0)]
    return next((one for one in tried if one.unknown is None), tried[0])


def _opened(cls: type[Message], name: str, version: int, view: memoryview, position: int) -> Decoded:
    try:
        found, end = decode_from(cls, version, view, position)
    except (ProtocolError, IndexError, UnicodeDecodeError) as trouble:
        return Decoded(name, version, {}, f"malformed: {trouble}", True)
    left = len(view) - end
    return Decoded(name, version, fields_by_name(found, version), f"{left} bytes too many" if left else None, left > 0)


def fields_by_name(found: Message, version: int) -> dict[str, Any]:
    """Return fields of a version in their order, as plain values; tagged ones, which are optional, only if set."""
    shown: dict[str, Any] = {}
    for name, schema in fields_of(type(found)):
        value = getattr(found, name)
        empty = [] if schema.type == "array" and callable(schema.default) else schema.default
        if version not in schema.versions or (schema.tag is not None and value == empty):
            continue
        shown[name] = HIDDEN if _is_secret(found, name) else _plain_value(schema.type, schema.element, value, version)
    return shown


def _is_secret(found: Message, field: str) -> bool:
    if field == "value" and type(found).NAME == "ConfigRecord":
        config = str(getattr(found, "name", "")).lower()
        return any(word in config for word in _SECRET_CONFIGS)
    return field in _SECRET_FIELDS


def _plain_value(kind: str, element: Any, value: Any, version: int) -> Any:
    if value is None:
        return None
    if kind == "array":
        if isinstance(element, str):
            return [_plain_value(element, None, one, version) for one in value]
        return [fields_by_name(one, version) for one in value]
    if kind == "struct":
        return fields_by_name(value, version)
    if kind == "uuid":
        return format_id(bytes(value))
    if kind in ("bytes", "records"):
        return bytes(value).hex()
    return value


def plain(value: Any) -> str:
    """Format a field's value in a line of text: `[1,2]`, `{name=…}`, `-` for none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ",".join(plain(one) for one in value) + "]"
    if isinstance(value, dict):
        return "{" + " ".join(f"{name}={plain(one)}" for name, one in value.items()) + "}"
    text = str(value)
    return repr(text) if isinstance(value, str) and (not text or any(letter.isspace() for letter in text)) else text


def record_names() -> list[str]:
    """Return every name that `decoded` uses."""
    messages = [*RECORDS.values(), *FOREIGN.values()]
    return sorted({cls.NAME for cls in messages} | set(OTHER_NAMES.values()) | set(CONTROL_RECORDS.values()))
