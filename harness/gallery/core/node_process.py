"""The process of a node on this machine: started, killed, stopped and resumed, with its output in a file.

A family's node says how it is started (`_spawn`) and what a loss of power takes (`lose_power`).
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.core.write_hold import WriteHold
from squall.harness.loopback.stopped import is_stopped

END_SECONDS: Final = 30.0
LOG_SHOWN: Final = 1500
LOOK_EVERY_S: Final = 0.05


class NodeProcess(ABC):
    """One node, which may be started again and again."""

    writes: WriteHold | None = None
    """Holds its writes, if it was started under such a watch."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as out:
            self._process = self._spawn(out)

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_SECONDS)
        if self.writes is not None:
            self.writes.wait_until_ended()

    @abstractmethod
    def lose_power(self) -> int:
        """Kill the node and drop what it has not fsynced. Returns how many bytes that was."""

    def pause(self) -> None:
        """Stop every thread of the process where it is (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    @property
    def is_paused(self) -> bool:
        """Whether every thread of the process is stopped."""
        assert self._process is not None
        return is_stopped(self._process.pid)

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-LOG_SHOWN:] if self.log.exists() else ""

    @abstractmethod
    def _spawn(self, out: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the process, its output to `out`."""

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def wait_until_listening(ports: Mapping[NodeProcess, int], seconds: float) -> None:
    """Wait until every node accepts connections at its port. Raises NotReproduced with a node's last words."""
    end = time.monotonic() + seconds
    for node, port in ports.items():
        while not _accepts(port):
            if not node.runs or time.monotonic() > end:
                raise NotReproduced(f"{node.log.parent.name} does not start:\n{node.last_words()}")
            time.sleep(LOOK_EVERY_S)


def keep_files(nodes: Mapping[int, NodeProcess], names: Sequence[str], directory: Path) -> None:
    """Copy these files of each node, which lie beside its log, to `directory`/NODE."""
    for number, node in nodes.items():
        there = directory / str(number)
        there.mkdir(parents=True, exist_ok=True)
        for name in names:
            if (found := node.log.parent / name).exists():
                shutil.copyfile(found, there / name)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
