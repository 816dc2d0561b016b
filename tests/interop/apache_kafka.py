"""Apache Kafka itself as the control: three brokers and one controller within one JVM, on loopback.

    with ApacheKafka(jars) as kafka:
        kafka.bootstrap, kafka.controllers

What a tool does here is what it has to do on our cluster. One JVM for all four nodes costs a third of the memory and a
fifth of the start of four processes; it is a control of answers, not of speed or of failures.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from squall.harness.loopback.loopback import free_ports
from tests.interop.jvm import Jvm

CLUSTER_ID = "c3F1YWxsLXNxdWFsbC1zcQ"
BROKERS = (1, 2, 3)
CONTROLLER = 101


class ApacheKafka:
    """See the module."""

    def __init__(self, jars: Sequence[Path]) -> None:
        self._jvm = Jvm(jars, heap="-Xmx700m")
        self._directory = Path(tempfile.mkdtemp(prefix="squall-interop-kafka-"))
        ports = free_ports(len(BROKERS) + 1)
        self._ports = dict(zip((*BROKERS, CONTROLLER), ports, strict=True))
        self._servers: list[object] = []

    def __enter__(self) -> ApacheKafka:
        self._jvm.__enter__()
        try:
            for node in self._ports:
                self._format(node)
            for node in (CONTROLLER, *BROKERS):
                self._start(node)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._jvm.__exit__(None, None, None)
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._ports[node]}" for node in BROKERS)

    @property
    def controllers(self) -> str:
        return f"127.0.0.1:{self._ports[CONTROLLER]}"

    def data_directory(self, node: int) -> Path:
        return self._directory / f"data-{node}"

    def _settings(self, node: int) -> dict[str, str]:
        name = "CONTROLLER" if node == CONTROLLER else "PLAINTEXT"
        return {
            "process.roles": "controller" if node == CONTROLLER else "broker",
            "node.id": str(node),
            "controller.quorum.bootstrap.servers": self.controllers,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": f"{name}://127.0.0.1:{self._ports[node]}",
            "log.dirs": str(self.data_directory(node)),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "min.insync.replicas": "1",
            "log.cleaner.dedupe.buffer.size": "2097152",
        }

    def _format(self, node: int) -> None:
        path = self._directory / f"{node}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self._settings(node).items()))
        standalone = ["--standalone"] if node == CONTROLLER else ["--no-initial-controllers"]
        done = self._jvm.tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(path), *standalone)
        assert done.status == 0, done

    def _start(self, node: int) -> None:
        java = self._jvm.java
        properties = java.java.util.Properties()
        for key, value in self._settings(node).items():
            properties.setProperty(key, value)
        config = java.kafka.server.KafkaConfig.fromProps(properties)
        server = java.kafka.server.KafkaRaftServer(config, java.org.apache.kafka.common.utils.Time.SYSTEM)
        self._servers.append(server)
        server.startup()
