"""Metadata records by name and fields: all of ours, those only Kafka writes, and those nobody here knows."""

from __future__ import annotations

from typing import Any

import pytest

from squall.harness.operator.metadata_content import (
    CONTROL,
    FOREIGN,
    HIDDEN,
    UserScramCredentialRecord,
    Voter,
    VoterEndpoint,
    VotersRecord,
    decoded,
    plain,
    record_names,
)
from squall.nodes.metadata.records import (
    RECORDS,
    ConfigRecord,
    PartitionChangeRecord,
    TopicRecord,
    encode_compiled,
    encode_record,
)
from squall.nodes.protocol.compiler import encode_bytes
from squall.nodes.protocol.record import Record
from squall.nodes.protocol.records import control_key
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import parse_id

TOPIC_ID = parse_id("AAECAwQFBgcICQoLDA0ODw")


def read(value: bytes) -> Any:
    return decoded(Record(value=value), is_control=False)


@pytest.mark.parametrize("cls", [*RECORDS.values(), *FOREIGN.values()], ids=lambda cls: cls.NAME)
def test_every_known_record_gets_its_name(cls: type[Message]) -> None:
    found = read(encode_compiled(cls()))
    assert (found.name, found.unknown) == (cls.NAME, None)
    assert found.name in record_names()


def test_fields_are_shown_as_kafka_names_them_and_ids_as_it_prints_them() -> None:
    found = read(encode_record(TopicRecord(name="orders", topic_id=TOPIC_ID)))
    assert found.fields == {"name": "orders", "topic_id": "AAECAwQFBgcICQoLDA0ODw"}
    assert found.described() == "TopicRecord name=orders topic_id=AAECAwQFBgcICQoLDA0ODw"


def test_of_a_change_only_what_changes_is_shown() -> None:
    found = read(encode_record(PartitionChangeRecord(partition_id=2, topic_id=TOPIC_ID, isr=[1, 3], leader=3)))
    assert set(found.fields) == {"partition_id", "topic_id", "isr", "leader"}
    assert "isr=[1,3] leader=3" in found.described()


def test_secrets_are_hidden() -> None:
    scram = UserScramCredentialRecord(name="ann", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v")
    shown = read(encode_compiled(scram)).fields
    assert [shown[name] for name in ("salt", "stored_key", "server_key")] == [HIDDEN] * 3 and shown["name"] == "ann"
    password = ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="hunter2")
    assert "hunter2" not in read(encode_record(password)).described()


@pytest.mark.parametrize(
    ("value", "name", "said"),
    [
        (b"\x01\x0a\x00abc", "DelegationTokenRecord", "version 0 is not known here, 3 bytes"),
        (b"\x01\x63\x00", "record 99", "not known here"),
        (b"\x01\x02\x09", "TopicRecord", "version 9 is not known here"),
        (b"\x02\x02\x00", "(unknown)", "frame version 2"),
    ],
)
def test_what_nobody_here_knows_has_a_name_all_the_same(value: bytes, name: str, said: str) -> None:
    found = read(value)
    assert found.name == name and said in found.unknown and not found.is_malformed


@pytest.mark.parametrize("value", [b"", b"\x01", None, b"\x01\x02\x00\x0aab"])
def test_what_is_malformed_is_told_and_does_not_raise(value: bytes | None) -> None:
    found = decoded(Record(value=value), is_control=False)
    assert found.is_malformed and found.unknown


def test_every_cut_of_a_record_is_malformed() -> None:
    whole = encode_record(TopicRecord(name="orders", topic_id=TOPIC_ID))
    assert not read(whole).is_malformed
    assert all(read(whole[:length]).is_malformed for length in range(len(whole)))
    assert read(whole + b"\x00").is_malformed


@pytest.mark.parametrize("kind", sorted(CONTROL))
def test_control_records_have_names(kind: int) -> None:
    value = encode_bytes(CONTROL[kind](), 0)
    found = decoded(Record(key=control_key(kind), value=value), is_control=True)
    assert found.unknown is None and found.fields


def test_the_voters_of_a_dynamic_quorum_are_read() -> None:
    voter = Voter(voter_id=2, voter_directory_id=TOPIC_ID, endpoints=[VoterEndpoint("CONTROLLER", "c2", 9093)])
    value = encode_bytes(VotersRecord(voters=[voter]), 0)
    found = decoded(Record(key=control_key(6), value=value), is_control=True)
    assert found.name == "KRaftVoters"
    (shown,) = found.fields["voters"]
    assert shown["voter_id"] == 2 and shown["endpoints"] == [{"name": "CONTROLLER", "host": "c2", "port": 9093}]


def test_values_on_a_line() -> None:
    assert plain([1, None, True]) == "[1,-,true]"
    assert plain({"a": "x y", "b": ""}) == "{a='x y' b=''}"
