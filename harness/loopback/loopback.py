"""Run a cluster of real node processes on loopback: no hosts, no SSH; for tests and benchmarks.

    with Cluster(brokers=3, controllers=3) as cluster:      # separate roles; Cluster.combined() for one node
        cluster.wait_until_ready()
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})

Ports are free ones that no other process takes from here; directories are temporary; every process ends with the
cluster, after failures too. Waiting is for conditions, with a deadline and with the nodes' logs in the error, never
for a fixed time.
"""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from squall.harness.loopback.scraping import Metrics, scrape
from squall.harness.scenario.control_plane import add_control_listener
from squall.nodes.config import NodeConfig, format_properties
from squall.nodes.node.formatting import InitialVoters
from squall.nodes.protocol.topic_partition import random_id
from squall.nodes.raft.config import Voter
from squall.nodes.server.clock import seeded_rng
from squall.nodes.server.format import format_node

Found = TypeVar("Found")

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
LOOK_EVERY_S = 0.02
FAST = {
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "2000",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "replica.fetch.backoff.ms": "100",
    "replica.lag.time.max.ms": "4000",
}
"""Settings that make faults show soon; a test that measures Kafka's defaults passes other settings."""
OF_QUORUM = ("controller.quorum.",)
"""Settings that brokers with an ensemble refuse."""
ZOOKEEPER_SESSION_MS = "4000"


class ClusterTrouble(AssertionError):
    """The cluster did not reach a state in time; the message has the ends of the nodes' logs."""


class _PortBlock:
    """A block of ports that no other process takes from, so that two test workers or two users never pick the same.

    The kernel gives ephemeral ports to outgoing connections: a port from that range may be taken between the moment
    it is chosen and the moment a node listens on it. Blocks lie outside the range. A block belongs to the process that
    holds the abstract socket named after it; the kernel frees that socket when the process ends, however it ends.
    """

    SIZE = 200
    FIRST = 10_000

    def __init__(self) -> None:
        self._held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._ports = itertools.cycle(self._claim())

    def take(self) -> int:
        """Return the next port of the block on which no process listens; raise ClusterTrouble if there is none."""
        for port in itertools.islice(self._ports, self.SIZE):
            if _is_free(port):
                return port
        raise ClusterTrouble(f"all {self.SIZE} ports of this process's block are in use")

    def _claim(self) -> range:
        low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        for first in range(self.FIRST, 65_536 - self.SIZE, self.SIZE):
            if first + self.SIZE > low and first <= high:
                continue
            try:
                self._held.bind(f"\0squall-ports-{first}")
            except OSError:
                continue
            return range(first, first + self.SIZE)
        raise ClusterTrouble(f"no block of {self.SIZE} ports is left outside {low} to {high}; end other clusters")


@functools.cache
def _ports_of(process: int) -> _PortBlock:
    """Return the block of `process`. A forked child has another id and claims a block of its own."""
    return _PortBlock()


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Return `count` different ports on which no process listens now and which no other process takes from here."""
    block = _ports_of(os.getpid())
    return [block.take() for _ in range(count)]


class NodeProcess:
    """One node: its files, and its process if it runs."""

    def __init__(self, node_id: int, directory: Path, properties: Mapping[str, str], mutants: tuple[str, ...]) -> None:
        self.node_id = node_id
        self.directory = directory
        self.mutants = mutants
        self.log_path = directory / "node.log"
        self.trace_path = directory / "trace.jsonl"
        self.traced = False
        self.config_path = directory / "node.properties"
        directory.mkdir(parents=True, exist_ok=True)
        self.config_path.write_text(format_properties(properties), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def start(self) -> None:
        assert self.pid is None, f"node {self.node_id} runs already"
        argv = [sys.executable, "-m", "squall.nodes", "--config", str(self.config_path)]
        for mutant in self.mutants:
            argv += ["--mutant", mutant]
        if self.traced:
            argv += ["--trace", str(self.trace_path)]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """Send SIGTERM. Return the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(STOP_TIMEOUT_S)

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        assert self._process is not None
        return self._process.wait(timeout_s)


class Cluster:
    """Node processes on loopback; see the module.

    Brokers have ids from 1, controllers from 101; a combined node has 1.
    """

    def __init__(
        self,
        *,
        brokers: int = 3,
        controllers: int = 3,
        combined: bool = False,
        properties: Mapping[str, str] | None = None,
        mutants: tuple[str, ...] = (),
        trace: bool = False,
        start: bool = True,
        initial_controllers: int | None = None,
        controller_logs: Path | None = None,
        zookeeper: str | None = None,
    ) -> None:
        """`zookeeper`: the ensemble that keeps the metadata, as brokers are configured with it; no controllers then.

        `initial_controllers`: the voters are kept in the log, initially the first so many controllers.

        `controller_logs`: a directory, owned by the caller, on another disk than the one for temporary files.
        """
        self.directory = Path(tempfile.mkdtemp(prefix="squall-cluster-"))
        self._controller_logs = controller_logs
        self.nodes: dict[int, NodeProcess] = {}
        self.ports: dict[int, int] = {}
        self.controller_ports: dict[int, int] = {}
        self._zookeeper = zookeeper
        controllers = 0 if zookeeper else controllers
        broker_ids = list(range(1, brokers + 1))
        controller_ids = broker_ids[:controllers] if combined else list(range(101, 101 + controllers))
        node_ids = list(dict.fromkeys([*controller_ids, *broker_ids]))
        free = iter(free_ports(len(broker_ids) + len(controller_ids) + 2 * len(node_ids)))
        self.ports = {node: next(free) for node in broker_ids}
        self.controller_ports = {node: next(free) for node in controller_ids}
        self.metrics_ports = {node: next(free) for node in node_ids}
        self.control_ports = {node: next(free) for node in node_ids}
        """Where brokers with an ensemble have the listener of KIP-291, if it is configured."""
        quorum = self._quorum(dynamic=initial_controllers is not None)
        for node in node_ids:
            quick = {key: value for key, value in FAST.items() if zookeeper is None or not key.startswith(OF_QUORUM)}
            settings = self._settings(node) | quorum | quick | dict(properties or {})
            if zookeeper is not None:
                settings = add_control_listener(settings, "127.0.0.1", self.control_ports[node])
            self.nodes[node] = NodeProcess(node, self.directory / f"node-{node}", settings, mutants)
            self.nodes[node].traced = trace
        if initial_controllers is not None:
            self._format(controller_ids[:initial_controllers])
        if start:
            self.start()

    @classmethod
    def combined(cls, **options: object) -> Cluster:
        """Return a cluster of one node that is broker and controller."""
        return cls(brokers=1, controllers=1, combined=True, **options)  # type: ignore[arg-type]

    def _quorum(self, *, dynamic: bool) -> dict[str, str]:
        if self._zookeeper is not None:
            return {"zookeeper.connect": self._zookeeper, "zookeeper.session.timeout.ms": ZOOKEEPER_SESSION_MS}
        if dynamic:
            servers = ",".join(f"127.0.0.1:{port}" for port in self.controller_ports.values())
            return {"controller.quorum.bootstrap.servers": servers}
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in self.controller_ports.items())
        return {"controller.quorum.voters": voters}

    def _format(self, controllers: list[int]) -> None:
        """Format the directories with these controllers as the initial voters."""
        listed = tuple(
            Voter(node, "127.0.0.1", self.controller_ports[node], random_id(seeded_rng())) for node in controllers
        )
        for node in controllers:
            config = NodeConfig.parse(self.nodes[node].config_path.read_text())
            format_node(config, InitialVoters(listed))

    def _settings(self, node: int) -> dict[str, str]:
        found = self._settings_with_quorum(node)
        of_quorum = ("process.roles", "controller.listener.names") if self._zookeeper is not None else ()
        return {key: value for key, value in found.items() if key not in of_quorum}

    def _settings_with_quorum(self, node: int) -> dict[str, str]:
        listeners, roles = [], []
        if node in self.ports:
            roles.append("broker")
            listeners.append(f"PLAINTEXT://127.0.0.1:{self.ports[node]}")
        if node in self.controller_ports:
            roles.append("controller")
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_ports[node]}")
        return {
            "process.roles": ",".join(roles),
            "node.id": str(node),
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "log.dirs": str(self._data_of(node)),
            "metrics.listener": f"127.0.0.1:{self.metrics_ports[node]}",
        }

    def _data_of(self, node: int) -> Path:
        if self._controller_logs is not None and node not in self.ports:
            return self._controller_logs / f"node-{node}"
        return self.directory / f"node-{node}" / "data"

    # -- life -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def close(self) -> None:
        """End every process at once and remove the files."""
        for node in self.nodes.values():
            node.kill()
        if "SQUALL_KEEP_CLUSTER" in os.environ:
            print(f"kept {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    # -- state ------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def brokers(self) -> list[NodeProcess]:
        return [self.nodes[node] for node in self.ports]

    @property
    def broker_pids(self) -> list[int]:
        return [node.pid for node in self.brokers if node.pid is not None]

    @property
    def controllers(self) -> list[NodeProcess]:
        return [self.nodes[node] for node in self.controller_ports]

    def metrics(self, node: int) -> Metrics:
        """Return the metrics of a running node."""
        return scrape("127.0.0.1", self.metrics_ports[node])

    def logs(self) -> str:
        return "\n".join(f"--- node {node.node_id}\n{node.log[-3000:]}" for node in self.nodes.values())

    # -- waiting --------------------------------------------------------------------------------------------------

    def wait_for(self, what: str, find: Callable[[], Found | None], timeout_s: float = START_TIMEOUT_S) -> Found:
        """Poll until `find` returns something true; fail with the nodes' logs."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = find()
            if found:
                return found
            if time.monotonic() > deadline:
                raise ClusterTrouble(f"not within {timeout_s} s: {what}\n{self.logs()}")
            time.sleep(LOOK_EVERY_S)

    def wait_until_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until every running broker has reported that it is unfenced."""
        for node in self.brokers:
            if node.pid is not None:
                self.wait_for(f"broker {node.node_id} ready", functools.partial(_is_ready, node), timeout_s)

    def pause(self, node: int) -> None:
        self.nodes[node].signal(signal.SIGSTOP)

    def resume(self, node: int) -> None:
        self.nodes[node].signal(signal.SIGCONT)


def _is_ready(node: NodeProcess) -> bool:
    return "is ready" in node.log
