"""Messages that Kafka 4 has no more: against bytes that Kafka 3.9.2 made, and some written by hand from its schemas."""

from __future__ import annotations

import pytest

from squall.nodes.protocol.compiler import decode, encode_bytes
from squall.nodes.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from squall.nodes.protocol.messages.leader_and_isr import (
    FULL,
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from squall.nodes.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from squall.nodes.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from squall.nodes.protocol.schema import Message
from tests.nodes.protocol.kafka_json import CLASSES, Recorded, json_of, recorded

TOPIC_ID = bytes(range(1, 17))


def int16(value: int) -> bytes:
    return value.to_bytes(2, "big", signed=True)


def int32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big", signed=True) for value in values)


def int64(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def text(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


def items(*values: bytes) -> bytes:
    return bytes([len(values) + 1]) + b"".join(values)


def ids(*values: int) -> bytes:
    return items(*(int32(value) for value in values))


END = b"\0"
"""No tagged fields."""
LED = LeaderAndIsrPartitionState(3, 9, 1, 7, [1, 2], 5, [1, 2, 4], [4], [2], True, 1)
LED_V5 = int32(3, 9, 1, 7) + ids(1, 2) + int32(5) + ids(1, 2, 4) + ids(4) + ids(2) + b"\1"
KNOWN = UpdateMetadataPartitionState(3, 9, -2, 7, [1], 5, [1, 2], [2])
KNOWN_BYTES = int32(3, 9, -2, 7) + ids(1) + int32(5) + ids(1, 2) + ids(2) + END
BROKER = UpdateMetadataBroker(1, [UpdateMetadataEndpoint(9092, "b1", "PLAIN", 0)], None)
BROKER_BYTES = int32(1) + items(int32(9092) + text("b1") + text("PLAIN") + int16(0) + END) + b"\0" + END


def led(flag: bool) -> LeaderAndIsrRequest:
    state = LeaderAndIsrTopicState("t", TOPIC_ID, [LED])
    return LeaderAndIsrRequest(2, flag, 9, 99, FULL, [state], [LeaderAndIsrLiveLeader(1, "b1", 9092)])


def led_bytes(flag: bytes, state: bytes) -> bytes:
    topic = text("t") + TOPIC_ID + items(state + END) + END
    leader = int32(1) + text("b1") + int32(9092) + END
    return int32(2) + flag + int32(9) + int64(99) + b"\2" + items(topic) + items(leader) + END


def known(kind: int, flag: bool) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(2, flag, kind, 9, 99, [UpdateMetadataTopicState("t", TOPIC_ID, [KNOWN])], [BROKER])


def known_bytes(flag: bytes, end: bytes) -> bytes:
    topic = text("t") + TOPIC_ID + items(KNOWN_BYTES) + END
    return int32(2) + flag + int32(9) + int64(99) + items(topic) + items(BROKER_BYTES) + end


def stopping(flag: bool) -> StopReplicaRequest:
    return StopReplicaRequest(2, flag, 9, 99, [StopReplicaTopicState("t", [StopReplicaPartitionState(3, 7, True)])])


def stopping_bytes(flag: bytes) -> bytes:
    topic = text("t") + items(int32(3, 7) + b"\1" + END) + END
    return int32(2) + flag + int32(9) + int64(99) + items(topic) + END


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (led(False), 6, led_bytes(b"", LED_V5 + b"\1")),
        (led(True), 7, led_bytes(b"\1", LED_V5 + b"\1")),
        (
            LeaderAndIsrResponse(11, [LeaderAndIsrTopicError(TOPIC_ID, [LeaderAndIsrPartitionError(3, 6)])]),
            5,
            int16(11) + items(TOPIC_ID + items(int32(3) + int16(6) + END) + END) + END,
        ),
        (known(0, False), 7, known_bytes(b"", END)),
        (known(2, True), 8, known_bytes(b"\1", b"\1\0\1\2")),
        (UpdateMetadataResponse(11), 7, int16(11) + END),
        (stopping(False), 3, stopping_bytes(b"")),
        (stopping(True), 4, stopping_bytes(b"\1")),
        (
            StopReplicaResponse(0, [StopReplicaPartitionError("t", 3, 6)]),
            3,
            int16(0) + items(text("t") + int32(3) + int16(6) + END) + END,
        ),
        (ControlledShutdownRequest(1, 99), 3, int32(1) + int64(99) + END),
        (
            ControlledShutdownResponse(0, [RemainingPartition("t", 3)]),
            3,
            int16(0) + items(text("t") + int32(3) + END) + END,
        ),
    ],
)
def test_bytes_are_those_of_the_schema(message: Message, version: int, expected: bytes) -> None:
    """ZK-06, ZK-08."""
    assert encode_bytes(message, version) == expected
    assert decode(type(message), version, expected) == message


def test_before_version_6_there_is_no_recovery_state() -> None:
    assert encode_bytes(led(False), 5) == led_bytes(b"", LED_V5)


KAFKAS = [pytest.param(one, id=f"{one.name}-v{one.version}-{number}") for number, one in enumerate(recorded())]


@pytest.mark.parametrize("one", KAFKAS)
def test_bytes_are_those_that_kafka_serialises(one: Recorded) -> None:
    """ZK-06, ZK-08: recorded from Kafka's own classes by `scripts/record_kafka_bytes.py`."""
    assert encode_bytes(one.message, one.version) == one.content
    assert decode(CLASSES[one.name], one.version, one.content) == one.message


def test_every_message_is_recorded_in_every_version_that_we_speak() -> None:
    spoken = {
        (name, version) for name, cls in CLASSES.items() for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)
    }
    assert {(one.name, one.version) for one in recorded()} == spoken
    assert all(json_of(one.message, one.version) == one.fields for one in recorded())
