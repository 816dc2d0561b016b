"""Our codecs against two others, for every message in every version: kio, and kafka-python with Kafka's own schemas."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import re
import types
import typing
import uuid
from typing import Any

import pytest
from kafka.protocol.schemas import load_json
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from squall.nodes.protocol.codegen import FIXED
from squall.nodes.protocol.compiler import decode, encode_bytes
from squall.nodes.protocol.errors import RETRIABLE, ErrorCode
from squall.nodes.protocol.messages import APIS, ApiKey
from squall.nodes.protocol.schema import Message, fields_of

SEEDS = range(12)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)

ZOOKEEPER_ERA = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"}
"""Kafka 4, whose messages the two know, has these no more; `test_zookeeper_era.py` has their bytes."""

VERSIONS = [
    pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
    for api in APIS.values()
    if api.key != ApiKey.APPEND_ENTRIES  # Squall's own; nobody else knows it
    for cls in (api.request, api.response)
    if cls.__name__.removesuffix("Request").removesuffix("Response") not in ZOOKEEPER_ERA
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)
]


# -- kio: same bytes, both ways ------------------------------------------------------------------------------------


def kio_class(cls: type[Message], version: int) -> Any:
    api, kind = re.fullmatch(r"(\w+)(Request|Response)", cls.__name__).groups()  # type: ignore[union-attr]
    package = re.sub(r"(?<!^)(?=[A-Z])", "_", api).lower()
    return getattr(importlib.import_module(f"kio.schema.{package}.v{version}.{kind.lower()}"), cls.__name__)


def to_kio(message: Message, cls: Any) -> Any:
    hints = typing.get_type_hints(cls)
    values = {}
    for field in dataclasses.fields(cls):
        kafka_type = field.metadata.get("kafka_type", "")
        # kio drops the unit from the names of times and durations.
        name = field.name + "_ms" if kafka_type.startswith(("timedelta", "datetime")) else field.name
        values[field.name] = value_to_kio(getattr(message, name), hints[field.name], kafka_type)
    return cls(**values)


def value_to_kio(value: Any, hint: Any, kafka_type: str) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if isinstance(value, list):
        return tuple(value_to_kio(item, typing.get_args(hint)[0], kafka_type) for item in value)
    if dataclasses.is_dataclass(hint) and value is not None:
        return to_kio(value, hint)
    if value is None:
        return None
    if kafka_type == "uuid":
        return uuid.UUID(bytes=value) if value != bytes(16) else None
    if kafka_type == "error_code":
        return KioErrorCode(value)
    if kafka_type.startswith("timedelta"):
        return value * MILLISECOND
    if kafka_type.startswith("datetime"):
        return None if value == -1 else EPOCH + value * MILLISECOND
    return bytes(value) if kafka_type == "records" else value


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
def test_we_write_what_kio_writes_and_read_what_kio_wrote(cls: type[Message], version: int, fill, plain) -> None:
    oracle = kio_class(cls, version)
    for seed in SEEDS:
        message = fill(cls, version, seed)
        buffer = io.BytesIO()
        entity_writer(oracle)(buffer, to_kio(message, oracle))
        expected = buffer.getvalue()
        assert encode_bytes(message, version) == expected, f"seed {seed}"
        assert plain(decode(cls, version, expected)) == plain(message), f"seed {seed}"


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
def test_kio_reads_what_we_write_of_default_messages(cls: type[Message], version: int) -> None:
    written = encode_bytes(cls(), version)
    _, end = entity_reader(kio_class(cls, version))(written, 0)
    assert end == len(written)


def test_error_codes_are_kafkas() -> None:
    for theirs in KioErrorCode:
        if theirs.value in [int(code) for code in ErrorCode]:
            ours = ErrorCode(theirs.value)
            assert ours.name.lower() == theirs.name
            assert (ours in RETRIABLE) == theirs.retriable, ours


# -- Kafka's schemas, as kafka-python carries them ----------------------------------------------------------------


WITH_KAFKAS_SCHEMA = {
    "Produce", "Fetch", "ListOffsets", "Metadata", "FindCoordinator", "ApiVersions", "CreateTopics", "DeleteTopics",
    "InitProducerId", "OffsetForLeaderEpoch", "DescribeConfigs", "CreatePartitions", "DescribeQuorum",
    "DescribeCluster", "ElectLeaders", "IncrementalAlterConfigs", "UpdateFeatures", "JoinGroup", "OffsetFetch",
    "DescribeLogDirs", "AlterReplicaLogDirs",
}  # fmt: skip


def in_range(text: str | None, version: int) -> bool:
    if not text or text == "none":
        return False
    first, _, last = text.partition("-")
    if text.endswith("+"):
        return version >= int(text[:-1])
    return int(first) <= version <= int(last or first)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def kafkas_fields(fields: list[dict[str, Any]], structs: dict[str, Any], version: int) -> list[Any]:
    """(name, type, nullable, tag, default, nested) of every field of a version, as Kafka declares them."""
    out = []
    for field in fields:
        if not in_range(field["versions"], version):
            continue
        kind = field["type"]
        element = kind.removeprefix("[]")
        nested = field.get("fields") or structs.get(element)
        out.append(
            (
                snake(field["name"]),
                "array" if kind.startswith("[]") else "struct" if nested else kind,
                in_range(field.get("nullableVersions"), version),
                field.get("tag") if in_range(field.get("taggedVersions"), version) else None,
                kafkas_default(field, kind),
                kafkas_fields(nested, structs, version) if nested else element,
            )
        )
    return out


def kafkas_default(field: dict[str, Any], kind: str) -> Any:
    text = field.get("default")
    if kind not in FIXED or kind == "uuid":
        return None
    if kind == "bool":
        return str(text).lower() == "true"
    return int(str(text or 0), 0)


def our_fields(cls: type[Message], version: int) -> list[Any]:
    out: list[Any] = []
    for name, schema in fields_of(cls):
        if version not in schema.versions:
            continue
        nested = schema.element if schema.type in ("array", "struct") else schema.type
        out.append(
            (
                name,
                schema.type,
                schema.nullable is not None and version in schema.nullable,
                schema.tag if schema.tagged is not None and version in schema.tagged else None,
                schema.default if schema.type in FIXED and schema.type != "uuid" else None,
                our_fields(nested, version) if isinstance(nested, type) else nested,
            )
        )
    return out


CLIENT_VERSIONS = [
    param for param in VERSIONS if re.sub("(Request|Response)$", "", param.values[0].__name__) in WITH_KAFKAS_SCHEMA
]


@pytest.mark.parametrize(("cls", "version"), CLIENT_VERSIONS)
def test_fields_names_types_defaults_and_tags_are_those_of_kafkas_schema(cls: type[Message], version: int) -> None:
    schema = load_json(cls.__name__)
    structs = {item["name"]: item["fields"] for item in schema.get("commonStructs", ())}
    theirs = kafkas_fields(schema["fields"], structs, version)
    # Nested lists are compared as a whole; the order of ordinary fields on the wire is the first test's matter.
    assert sorted(our_fields(cls, version)) == sorted(theirs)
    assert in_range(schema["flexibleVersions"], version) == (version >= cls.FLEXIBLE_FROM)
    assert schema["apiKey"] == cls.API_KEY


@pytest.mark.parametrize(("name", "version"), [("Produce", 9), ("Fetch", 12), ("ListOffsets", 7), ("CreateTopics", 5)])
def test_kafka_python_reads_what_we_write(name: str, version: int, fill) -> None:
    package = {"Produce": "producer", "CreateTopics": "admin"}.get(name, "consumer")
    for kind in ("Request", "Response"):
        theirs = getattr(importlib.import_module(f"kafka.protocol.{package}"), name + kind)
        ours = next(param.values[0] for param in VERSIONS if param.values[0].__name__ == name + kind)
        for seed in SEEDS:
            message = fill(ours, version, seed)
            assert_same(theirs.decode(encode_bytes(message, version), version=version), message, version)


def assert_same(theirs: Any, ours: Any, version: int) -> None:
    if theirs is None and isinstance(ours, Message):
        assert ours == type(ours)()  # a tagged field that was not sent
    elif isinstance(ours, Message):
        for name, schema in fields_of(type(ours)):
            if version in schema.versions:
                assert_same(getattr(theirs, name), getattr(ours, name), version)
    elif isinstance(ours, list):
        assert len(theirs) == len(ours)
        for one, other in zip(theirs, ours, strict=True):
            assert_same(one, other, version)
    else:
        assert theirs == ours
