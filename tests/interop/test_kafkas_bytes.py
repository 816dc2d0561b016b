"""The recorded bytes of Kafka's ZooKeeper-era messages are those that the pinned jars make."""

from __future__ import annotations

import pytest

from tests.interop.kafka_bytes import serialised
from tests.nodes.protocol.kafka_json import recorded


@pytest.mark.full
@pytest.mark.spark
def test_kafka_serialises_what_is_recorded() -> None:
    """ZK-06: `scripts/record_kafka_bytes.py` makes the file anew."""
    assert serialised() == recorded()
