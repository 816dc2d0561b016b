"""Our own broker as a process, on a ZooKeeper ensemble. It hosts no topic-partition."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from squall.benchmarks.experiments.parts.elected_process import ElectedProcess, LogTexts
from squall.harness.loopback.loopback import free_ports
from squall.nodes.config import format_properties


class SquallProcess(ElectedProcess):
    """One of our brokers with the id `broker`; `in_flight` requests to ZooKeeper are unanswered at a time."""

    texts = LogTexts(started="listens on", elected="is the controller with epoch", serves=None, stages={})

    def __init__(self, broker: int, zookeeper: str, *, in_flight: int, session_ms: int) -> None:
        (port,) = free_ports(1)
        super().__init__(broker, port)
        properties = {
            "node.id": str(broker),
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": str(session_ms),
            "zookeeper.max.in.flight.requests": str(in_flight),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(self.directory / "data"),
        }
        self._config = self.directory / "node.properties"
        self._config.write_text(format_properties(properties), encoding="utf-8")

    def command(self) -> Sequence[str]:
        return [sys.executable, "-u", "-m", "squall.nodes", "--config", str(self._config)]
