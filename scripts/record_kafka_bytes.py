"""Record what Apache Kafka 3.9.2's own classes serialise ZooKeeper-era messages to, for tests/nodes/protocol.

    .venv/bin/python -m scripts.record_kafka_bytes

It writes `tests/nodes/protocol/zookeeper_era.json`. It needs Java; the jars are pinned (`harness/artifacts`).
"""

from __future__ import annotations

from tests.interop.kafka_bytes import serialised
from tests.nodes.protocol.kafka_json import RECORDED, text_of


def main() -> None:
    records = serialised()
    RECORDED.write_text(text_of(records), encoding="utf-8")
    print(f"{RECORDED}: {len(records)} messages")


if __name__ == "__main__":
    main()
