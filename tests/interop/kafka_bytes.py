"""Have the message classes of Apache Kafka 3.9.2 serialise messages: the pinned jars in a JVM, nothing is compiled."""

from __future__ import annotations

import json
import random

from squall.harness.artifacts.jar_cache import jars
from tests.interop.jvm import Jvm
from tests.nodes.protocol.conftest import filled
from tests.nodes.protocol.kafka_json import CLASSES, Recorded, json_of

VERSION = "kafka-3.9.2"
SEEDS = range(6)


def serialised() -> list[Recorded]:
    """Return messages filled from seeds, in every version that we speak, with the bytes that Kafka makes of them."""
    with Jvm(jars(VERSION)) as jvm:
        return [
            _serialised(jvm, name, version, seed)
            for name, cls in CLASSES.items()
            for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)
            for seed in SEEDS
        ]


def _serialised(jvm: Jvm, name: str, version: int, seed: int) -> Recorded:
    fields = json_of(filled(CLASSES[name], version, random.Random(seed)), version)
    kafka = jvm.java.org.apache.kafka.common
    tree = jvm.java.com.fasterxml.jackson.databind.ObjectMapper().readTree(json.dumps(fields))
    data = getattr(kafka.message, f"{name}DataJsonConverter").read(tree, version)
    return Recorded(name, version, fields, bytes(kafka.protocol.MessageUtil.toByteBuffer(data, version).array()))
