"""Our messages in the JSON form of Kafka's own classes, such as `LeaderAndIsrRequestDataJsonConverter`.

`zookeeper_era.json` beside this file has messages in that form, and the bytes that the classes of kafka-clients 3.9.2
serialise them to. `scripts/record_kafka_bytes.py` makes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squall.nodes.protocol.messages import APIS, ApiKey
from squall.nodes.protocol.schema import FieldSchema, Message, fields_of
from squall.nodes.protocol.topic_partition import format_id, parse_id

RECORDED = Path(__file__).parent / "zookeeper_era.json"
KEYS = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)
CLASSES: dict[str, type[Message]] = {
    cls.__name__: cls for key in KEYS for cls in (APIS[key].request, APIS[key].response)
}
"""What only a ZooKeeper-era cluster sends."""
NAMES = {"is_kraft_controller": "isKRaftController"}
"""Fields whose names in Kafka do not follow from ours."""


@dataclass(frozen=True)
class Recorded:
    """A message in Kafka's JSON form, and the bytes that Kafka made of it."""

    name: str
    version: int
    fields: Mapping[str, Any]
    content: bytes

    @property
    def message(self) -> Message:
        return message_of(CLASSES[self.name], self.version, self.fields)


def recorded() -> list[Recorded]:
    """Return what the committed file has."""
    return [
        Recorded(one["message"], one["version"], one["fields"], bytes.fromhex(one["bytes"]))
        for one in json.loads(RECORDED.read_text(encoding="utf-8"))
    ]


def text_of(records: list[Recorded]) -> str:
    """Return the text of a file with these, a line each."""
    lines = [
        json.dumps({"message": one.name, "version": one.version, "fields": one.fields, "bytes": one.content.hex()})
        for one in records
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def json_of(message: Message, version: int) -> dict[str, Any]:
    """Return a message's fields that this version has, by Kafka's names."""
    return {
        _camel_case(name): _value_to_json(getattr(message, name), schema, version)
        for name, schema in fields_of(type(message))
        if version in schema.versions
    }


def message_of(cls: type[Message], version: int, fields: Mapping[str, Any]) -> Message:
    """Return the message that `json_of` has returned these fields of."""
    return cls(
        **{
            name: _value_of_json(fields[_camel_case(name)], schema, version)
            for name, schema in fields_of(cls)
            if version in schema.versions
        }
    )


def _value_to_json(value: Any, schema: FieldSchema, version: int) -> Any:
    if schema.type == "uuid":
        return format_id(value)
    if schema.type == "array" and not isinstance(schema.element, str):
        return [json_of(one, version) for one in value]
    return value


def _value_of_json(value: Any, schema: FieldSchema, version: int) -> Any:
    if schema.type == "uuid":
        return parse_id(value)
    if schema.type == "array" and not isinstance(schema.element, str):
        return [message_of(schema.element, version, one) for one in value]
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return NAMES.get(name, first + "".join(one.capitalize() for one in rest))
