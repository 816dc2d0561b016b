"""Apache Kafka as a process, for benchmarks: the last version with a ZooKeeper controller, and its log with times.

The process hosts no topic-partition; the brokers of the measured cluster are stubs (`zookeeper_stubs.py`). Its log is
read as it is written, and each line keeps the time of this machine's monotonic clock at which it arrived.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import psutil

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
    "zookeeper.session.timeout.ms": "18000",
}
"""What keeps the controller's own background work out of the figures; the session's time-out is Kafka's default."""
LOGGED = ("kafka.controller.KafkaController", "kafka.server.KafkaServer")
POLL_S = 0.02
LINES_SHOWN = 30


@dataclass(frozen=True)
class Logged:
    """A line of the log; `at` in seconds of the monotonic clock."""

    at: float
    line: str


class KafkaProcess:
    """One process of Apache Kafka with a ZooKeeper controller; it has the broker id `broker`."""

    def __init__(
        self, broker: int, zookeeper: str, *, heap_mb: int, request_max: int, settings: Mapping[str, str] | None = None
    ) -> None:
        self.broker = broker
        (self.port,) = free_ports(1)
        self.lines: list[Logged] = []
        self._directory = Path(tempfile.mkdtemp(prefix="squall-kafka-"))
        properties = {
            "broker.id": str(broker),
            "zookeeper.connect": zookeeper,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self._directory / "data"),
            **SETTINGS,
            **(settings or {}),
        }
        config = self._directory / "server.properties"
        config.write_text(format_properties(properties), encoding="utf-8")
        self._command = command(MAIN_CLASS, jars(VERSION), [str(config)], options=_options(heap_mb, request_max))
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            cwd=self._directory,
        )
        Thread(target=self._read, args=(self._process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.lines.append(Logged(time.monotonic(), line.rstrip()))

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def resident(self) -> int:
        """Resident bytes."""
        assert self._process is not None
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def logged(self, text: str, since: float = 0.0) -> float | None:
        """When a line with this text first arrived since a time; None if there is none yet."""
        return next((one.at for one in list(self.lines) if one.at >= since and text in one.line), None)

    def wait_for(self, text: str, *, since: float = 0.0, timeout_s: float) -> float:
        """Wait for a line, and return when it arrived. Raises AssertionError with the end of the log."""
        deadline = time.monotonic() + timeout_s
        while (found := self.logged(text, since)) is None:
            if not self.is_running or time.monotonic() > deadline:
                raise AssertionError(f"Kafka {self.broker} does not log {text!r}:\n{self.end_of_log()}")
            time.sleep(POLL_S)
        return found

    def end_of_log(self) -> str:
        return "\n".join(one.line for one in self.lines[-LINES_SHOWN:])

    def kill(self) -> float:
        """Send SIGKILL. Returns when."""
        at = time.monotonic()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        return at

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)


def _options(heap_mb: int, request_max: int) -> list[str]:
    levels = [f"-Dorg.slf4j.simpleLogger.log.{name}=info" for name in LOGGED]
    return [
        f"-Xmx{heap_mb}m",
        "-XX:+UseParallelGC",
        f"-Djute.maxbuffer={request_max}",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        *levels,
    ]
