"""Run Apache Kafka as a cluster of processes on loopback, to be measured by the same client on the same machine.

Its jars come from the public Maven repository through `mvn`, once, into the user's cache; they are not part of this
project. Three controllers and three brokers run as separate processes, with default settings except ports, directories
and the replication of internal topics, and with the heap of a small broker.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from squall.benchmarks.parts.load import CRITICAL
from squall.harness.errors import UsageError
from squall.harness.loopback.loopback import free_ports

VERSION = "4.1.0"
CLUSTER_ID = "c3F1YWxsLXNxdWFsbC1zcQ"
HEAP = "-Xmx512m"
START_TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.1
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>squall</groupId><artifactId>peer</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
    </dependency>{tools}
  </dependencies>
</project>
"""


TOOLS = """
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>"""
"""Kafka's own command-line tools, and a logger, without which some of them fail silently."""


def fetched_jars(version: str = VERSION, *, tools: bool = False) -> Path:
    """The folder with Kafka's jars. Raises UsageError if they are missing and cannot be fetched."""
    name = f"kafka-{version}-tools" if tools else f"kafka-{version}"
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "squall" / name
    if (cache / "complete").exists():
        return cache
    for program, package in (("mvn", "maven"), ("java", "default-jre-headless")):
        if shutil.which(program) is None:
            raise UsageError(f"there is no {program} here, which fetches and runs Apache Kafka; install {package}")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pom.xml").write_text(
            POM.format(version=version, tools=TOOLS.format(version=version) if tools else "")
        )
        command = ["mvn", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={cache}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"Apache Kafka {version} could not be fetched: {(done.stdout + done.stderr)[-1000:]}")
    (cache / "complete").touch()
    return cache


class KafkaCluster:
    """Three brokers and three controllers of Apache Kafka; a context manager."""

    def __init__(self) -> None:
        self._jars = fetched_jars()
        self._directory = Path(tempfile.mkdtemp(prefix="squall-kafka-"))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        ports = free_ports(6)
        self._brokers = dict(zip((1, 2, 3), ports[:3], strict=True))
        self._controllers = dict(zip((101, 102, 103), ports[3:], strict=True))

    def __enter__(self) -> KafkaCluster:
        try:
            for node in (*self._controllers, *self._brokers):
                self._format(node)
            for node in (*self._controllers, *self._brokers):
                self._start(node)
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
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._brokers.values())

    @property
    def broker_pids(self) -> list[int]:
        return [self._processes[node].pid for node in self._brokers]

    def logs(self) -> str:
        return "\n".join(f"--- node {node}\n{self._log(node)[-3000:]}" for node in self._processes)

    def wait_for(self, what: str, find: Callable[[], object]) -> object:
        """Call `find` repeatedly until it returns something true."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (found := find()):
            assert time.monotonic() < deadline, f"not within {START_TIMEOUT_S} s: {what}\n{self.logs()}"
            time.sleep(LOOK_EVERY_S)
        return found

    def _started(self) -> bool:
        """Whether a client sees all brokers; Kafka logs nothing without a logging library."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": CRITICAL})
        try:
            return len(admin.list_topics(timeout=5).brokers) == len(self._brokers)
        except KafkaException:
            return False

    def _log(self, node: int) -> str:
        path = self._directory / f"{node}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _properties(self, node: int) -> Path:
        is_broker = node in self._brokers
        port = self._brokers[node] if is_broker else self._controllers[node]
        name = "PLAINTEXT" if is_broker else "CONTROLLER"
        voters = ",".join(f"{one}@127.0.0.1:{at}" for one, at in self._controllers.items())
        settings = {
            "process.roles": "broker" if is_broker else "controller",
            "node.id": node,
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": f"{name}://127.0.0.1:{port}",
            "log.dirs": self._directory / f"data-{node}",
            "offsets.topic.replication.factor": 1,
        }
        path = self._directory / f"{node}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _java(self, *arguments: str) -> list[str]:
        return ["java", HEAP, "-cp", f"{self._jars}/*", *arguments]

    def _format(self, node: int) -> None:
        command = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties(node)))
        subprocess.run(command, check=True, capture_output=True, cwd=self._directory)

    def _start(self, node: int) -> None:
        with (self._directory / f"{node}.log").open("wb") as log:
            self._processes[node] = subprocess.Popen(
                self._java("kafka.Kafka", str(self._directory / f"{node}.properties")),
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
            )
