"""Run a ZooKeeper ensemble of one or three real servers on loopback; for tests and benchmarks.

    with Ensemble(servers=3) as ensemble:
        ensemble.wait_until_ready()
        ensemble.servers[0].kill()      # and start(), pause(), resume()

Every process ends with the ensemble; files are temporary.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil

from squall.harness.artifacts.jar_cache import jars
from squall.harness.artifacts.zookeeper import QUICK, VERSION, Server, configuration, start_command
from squall.harness.loopback.loopback import ClusterTrouble, free_ports
from squall.harness.loopback.stopped import is_stopped

READY_TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.05
STOP_TIMEOUT_S = 10.0
LOG_SHOWN = 2000
_RECEIVED = re.compile(r"^Received: (\d+)$", re.MULTILINE)


class ServerProcess:
    """One server: its files, and its process if it runs."""

    def __init__(self, server: Server, directory: Path, command: Sequence[str]) -> None:
        self.server = server
        self.log_path = directory / "server.log"
        self._directory = directory
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> None:
        assert self.pid is None, f"server {self.server.number} runs already"
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=self._directory
            )

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Stop the process; return once every thread of it is stopped. Raises ClusterTrouble."""
        self._signal(signal.SIGSTOP)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while not self._is_stopped():
            if time.monotonic() > deadline:
                raise ClusterTrouble(f"a ZooKeeper server does not stop within {STOP_TIMEOUT_S:g} s")
            time.sleep(0.005)

    def _is_stopped(self) -> bool:
        assert self._process is not None
        return is_stopped(self._process.pid)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def resident(self) -> int:
        """Resident bytes."""
        assert self._process is not None
        return int(psutil.Process(self._process.pid).memory_info().rss)

    @property
    def is_serving(self) -> bool:
        """Whether the server serves clients: alone, or as a member of a quorum."""
        return "Mode: " in four_letters(self.server.address, "srvr")


class Ensemble:
    """An ensemble on loopback; see the module. `settings` are lines of each `zoo.cfg`."""

    def __init__(
        self,
        *,
        servers: int = 1,
        settings: Mapping[str, str] = QUICK,
        version: str = VERSION,
        heap_mb: int = 256,
        request_max: int = 0,
        start: bool = True,
    ) -> None:
        used = jars(version)
        self.directory = Path(tempfile.mkdtemp(prefix="squall-zookeeper-"))
        ports = iter(free_ports(3 * servers))
        listed = [
            Server(number, "127.0.0.1", next(ports), next(ports), next(ports)) for number in range(1, servers + 1)
        ]
        self.servers: list[ServerProcess] = []
        for one in listed:
            directory = self.directory / f"server-{one.number}"
            data = directory / "data"
            data.mkdir(parents=True)
            (data / "myid").write_text(f"{one.number}\n")
            config = directory / "zoo.cfg"
            config.write_text(configuration(one, listed, str(data), settings))
            command = start_command(str(config), used, heap_mb=heap_mb, request_max=request_max)
            self.servers.append(ServerProcess(one, directory, command))
        if start:
            self.start()

    def __enter__(self) -> Ensemble:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [one.server.address for one in self.servers]

    @property
    def connect(self) -> str:
        """The ensemble as clients are configured with it."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    def start(self) -> None:
        for one in self.servers:
            one.start()

    def wait_until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every running server serves clients. Raises ClusterTrouble with the ends of the logs."""
        deadline = time.monotonic() + timeout_s
        for one in self.servers:
            while not one.is_serving:
                if one.pid is None or time.monotonic() > deadline:
                    raise ClusterTrouble(f"ZooKeeper server {one.server.number} does not serve\n{self.logs()}")
                time.sleep(LOOK_EVERY_S)

    def received(self) -> int:
        """The number of packets that all servers have received so far; a server that does not respond counts none."""
        found = (_RECEIVED.search(four_letters(one, "srvr")) for one in self.addresses)
        return sum(int(one[1]) for one in found if one is not None)

    def logs(self) -> str:
        return "\n".join(f"--- server {one.server.number}\n{one.log[-LOG_SHOWN:]}" for one in self.servers)

    def close(self) -> None:
        """End every process at once and remove the files."""
        for one in self.servers:
            one.kill()
        if "SQUALL_KEEP_CLUSTER" in os.environ:
            print(f"kept {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)


def four_letters(address: tuple[str, int], word: str, timeout_s: float = 2.0) -> str:
    """Return a server's response to one of its commands of four letters; empty if it does not respond."""
    try:
        with socket.create_connection(address, timeout=timeout_s) as connection:
            connection.sendall(word.encode())
            content = b""
            while piece := connection.recv(4096):
                content += piece
            return content.decode(errors="replace")
    except OSError:
        return ""
