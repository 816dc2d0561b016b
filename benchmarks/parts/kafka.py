"""Run Apache Kafka as a cluster of processes on loopback, to be measured by the same client on the same machine.

Three controllers and three brokers run as separate processes, with default settings except ports, directories and the
replication of internal topics. Heap and collector are those of Kafka's own start script. The jars are pinned
(`harness/artifacts`); Maven fetches them once.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from squall.benchmarks.parts.load import CRITICAL
from squall.harness.artifacts.jar_cache import jars
from squall.harness.artifacts.java import command
from squall.harness.loopback.loopback import free_ports
from squall.harness.systems.kafka.versions import NEWEST, jar_list

VERSION: Final = NEWEST
CLUSTER_ID: Final = "c3F1YWxsLXNxdWFsbC1zcQ"
JVM: Final = (
    "-Xms1g",
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""As `kafka-server-start.sh` and `kafka-run-class.sh` have it."""
START_TIMEOUT_S: Final = 120.0
END_TIMEOUT_S: Final = 60.0
LOOK_EVERY_S: Final = 0.1


class KafkaProcess:
    """One node: its directory, and its process if it runs."""

    def __init__(self, directory: Path, settings: dict[str, object]) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._properties = directory / "node.properties"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def log(self) -> str:
        path = self._directory / "node.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def format(self) -> None:
        argv = ["format", "-t", CLUSTER_ID, "-c", str(self._properties)]
        subprocess.run(_java("kafka.tools.StorageTool", *argv), check=True, capture_output=True, cwd=self._directory)

    def start(self) -> None:
        with (self._directory / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                _java("kafka.Kafka", str(self._properties)), stdout=log, stderr=log, cwd=self._directory
            )

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait(self, timeout_s: float = END_TIMEOUT_S) -> int:
        assert self._process is not None
        return self._process.wait(timeout_s)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)


class KafkaCluster:
    """Three brokers and three controllers of Apache Kafka; a context manager."""

    def __init__(self) -> None:
        jars(jar_list(VERSION))
        self._directory = Path(tempfile.mkdtemp(prefix="squall-kafka-"))
        ports = free_ports(6)
        self._brokers = dict(zip((1, 2, 3), ports[:3], strict=True))
        self._controllers = dict(zip((101, 102, 103), ports[3:], strict=True))
        self.nodes = {
            node: KafkaProcess(self._directory / str(node), self._settings(node))
            for node in (*self._controllers, *self._brokers)
        }

    def __enter__(self) -> KafkaCluster:
        try:
            for node in self.nodes.values():
                node.format()
            for node in self.nodes.values():
                node.start()
            self.wait_for("all brokers started", self._started)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for node in self.nodes.values():
            node.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._brokers.values())

    @property
    def broker_pids(self) -> list[int]:
        found = [self.nodes[node].pid for node in self._brokers]
        return [pid for pid in found if pid is not None]

    def logs(self) -> str:
        return "\n".join(f"--- node {number}\n{node.log[-3000:]}" for number, node in self.nodes.items())

    def wait_for(self, what: str, find: Callable[[], object]) -> object:
        """Call `find` repeatedly until it returns something true."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (found := find()):
            assert time.monotonic() < deadline, f"not within {START_TIMEOUT_S} s: {what}\n{self.logs()}"
            time.sleep(LOOK_EVERY_S)
        return found

    def pause(self, node: int) -> None:
        self.nodes[node].signal(signal.SIGSTOP)

    def resume(self, node: int) -> None:
        self.nodes[node].signal(signal.SIGCONT)

    def _started(self) -> bool:
        """Whether a client sees all brokers."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": CRITICAL})
        try:
            return len(admin.list_topics(timeout=5).brokers) == len(self._brokers)
        except KafkaException:
            return False

    def _settings(self, node: int) -> dict[str, object]:
        is_broker = node in self._brokers
        port = self._brokers[node] if is_broker else self._controllers[node]
        name = "PLAINTEXT" if is_broker else "CONTROLLER"
        voters = ",".join(f"{one}@127.0.0.1:{at}" for one, at in self._controllers.items())
        return {
            "process.roles": "broker" if is_broker else "controller",
            "node.id": node,
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": f"{name}://127.0.0.1:{port}",
            "log.dirs": self._directory / str(node) / "data",
            "offsets.topic.replication.factor": 1,
        }


def _java(main_class: str, *arguments: str) -> list[str]:
    return command(main_class, jars(jar_list(VERSION)), arguments, options=JVM)
