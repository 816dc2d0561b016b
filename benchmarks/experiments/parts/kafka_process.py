"""Apache Kafka as a process: the last version with a ZooKeeper controller. It hosts no topic-partition."""

from __future__ import annotations

from collections.abc import Sequence

from squall.benchmarks.experiments.parts.elected_process import ElectedProcess, LogTexts
from squall.harness.artifacts.jar_cache import jars
from squall.harness.artifacts.java import command
from squall.harness.loopback.loopback import free_ports
from squall.nodes.config import format_properties

VERSION = "kafka-3.9.2"
MAIN_CLASS = "kafka.Kafka"
SETTINGS = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.enable": "false",
    "offsets.topic.replication.factor": "1",
}
"""What keeps the controller's own background work out of the figures."""
LOGGED = ("kafka.controller.KafkaController", "kafka.server.KafkaServer")


class KafkaProcess(ElectedProcess):
    """One process of Apache Kafka with a ZooKeeper controller; it has the broker id `broker`."""

    texts = LogTexts(
        started="] started",
        elected="successfully elected as the controller",
        serves="Ready to serve as the new controller",
        stages={"read from ZooKeeper": "Fetching topic deletions in progress"},
    )

    def __init__(self, broker: int, zookeeper: str, *, heap_mb: int, request_max: int, session_ms: int) -> None:
        (port,) = free_ports(1)
        super().__init__(broker, port)
        properties = {
            "broker.id": str(broker),
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": str(session_ms),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(self.directory / "data"),
            **SETTINGS,
        }
        config = self.directory / "server.properties"
        config.write_text(format_properties(properties), encoding="utf-8")
        self._command = command(MAIN_CLASS, jars(VERSION), [str(config)], options=_options(heap_mb, request_max))

    def command(self) -> Sequence[str]:
        return self._command


def _options(heap_mb: int, request_max: int) -> list[str]:
    levels = [f"-Dorg.slf4j.simpleLogger.log.{name}=info" for name in LOGGED]
    return [
        f"-Xmx{heap_mb}m",
        "-XX:+UseParallelGC",
        f"-Djute.maxbuffer={request_max}",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        *levels,
    ]
