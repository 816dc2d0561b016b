"""A process of a cluster with its log and times, such as a broker that ZooKeeper may elect; for experiments.

The log is read as it is written, and each line keeps the time of this machine's monotonic clock at which it arrived.
`kafka_process.py` is Apache Kafka with ZooKeeper, `squall_process.py` ours, `kafka_controllers.py` a quorum of Kafka.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import psutil

POLL_S = 0.02
LINES_SHOWN = 30


@dataclass(frozen=True)
class Logged:
    """A line of the log; `at` in seconds of the monotonic clock."""

    at: float
    line: str


@dataclass(frozen=True)
class LogTexts:
    """What the process logs at the moments that an experiment measures."""

    started: str
    """It is registered, and may be elected."""
    elected: str
    serves: str | None
    """It is the controller and serves requests; None if it logs nothing then."""
    stages: Mapping[str, str]
    """The ends of the stages between `elected` and `serves`, in their order."""


class LoggingProcess(ABC):
    """One process; a subclass gives the command."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.lines: list[Logged] = []
        self.directory = Path(tempfile.mkdtemp(prefix=f"squall-process-{node}-"))
        self._process: subprocess.Popen[str] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command line that starts it."""

    def start(self) -> None:
        self._process = subprocess.Popen(
            self.command(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            cwd=self.directory,
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
                raise AssertionError(f"node {self.node} does not log {text!r}:\n{self.end_of_log()}")
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
        shutil.rmtree(self.directory, ignore_errors=True)


class ElectedProcess(LoggingProcess):
    """A broker process that ZooKeeper may elect as the controller."""

    texts: LogTexts

    def __init__(self, broker: int, port: int) -> None:
        super().__init__(broker)
        self.port = port

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port
