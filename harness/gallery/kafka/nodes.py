"""Nodes of Apache Kafka on the loopback interface, for entries of the gallery.

    with KafkaNodes(ApacheKafka("4.4.0"), ClusterShape(brokers=1), directory) as nodes:
        nodes.start()
        nodes.wait_until_ready()

Brokers have ids from 1. With `combined`, broker 1 is the controller as well; otherwise a controller has id 101. A
broker that is `proxied` advertises the port of a proxy (`frame_proxy.py`), to clients and to brokers.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from squall.harness.artifacts.jar_lists import pinned_jars
from squall.harness.gallery.core.node_process import NodeProcess, keep_files, wait_until_listening
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.kafka.power import drop_unflushed
from squall.harness.loopback.loopback import free_ports
from squall.harness.systems.kafka.launch import USUAL_JVM, script
from squall.harness.systems.kafka.properties import CLUSTER_ID, FEATURES, USUAL, features, format_properties
from squall.harness.systems.kafka.system import ApacheKafka
from squall.harness.systems.kafka.versions import jar_list, settings_of

CONTROLLER: Final = 101
ID: Final = "c3F1YWxsLWdhbGxlcnktMQ"
FORMAT_SECONDS: Final = 120.0
INTERNAL: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@dataclass(frozen=True)
class ClusterShape:
    """How many brokers, which of them stand behind a proxy, and their settings."""

    brokers: int = 1
    combined: bool = True
    proxied: tuple[int, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    """Settings by Kafka's names, levels of features among them."""


class KafkaNode(NodeProcess):
    """One node and its files."""

    def __init__(self, node_id: int, port: int, directory: Path, launcher: Path, data: Path) -> None:
        super().__init__(directory / "node.log")
        self.node_id = node_id
        self.port = port
        self.data = data
        self._launcher = launcher

    def format(self) -> None:
        """Write the node's identity into its log directory. Raises NotReproduced."""
        command = ["/bin/sh", str(self._launcher), "format"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_SECONDS, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise NotReproduced(
                f"node {self.node_id} cannot be formatted: {done.stderr.strip() or done.stdout.strip()}"
            )

    def lose_power(self) -> int:
        """Kill the node and drop what it has not fsynced of its topic-partitions. Returns how many bytes that was."""
        self.kill()
        return drop_unflushed(self.data)

    def _spawn(self, out: IO[bytes]) -> subprocess.Popen[bytes]:
        command = ["/bin/sh", str(self._launcher), "run"]
        return subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)


class KafkaNodes:
    """A cluster; see the module. `close` ends every process."""

    def __init__(self, system: ApacheKafka, shape: ClusterShape, directory: Path) -> None:
        self.shape = shape
        self._system = system
        brokers = range(1, shape.brokers + 1)
        ports = iter(free_ports(2 * shape.brokers + 2))
        self.ports = {node: next(ports) for node in brokers}
        self.proxy_ports = {node: next(ports) for node in shape.proxied}
        self._controller_port = next(ports)
        controller = 1 if shape.combined else CONTROLLER
        self._voters = f"{controller}@127.0.0.1:{self._controller_port}"
        nodes = [*brokers, *([] if shape.combined else [CONTROLLER])]
        self.nodes = {node: self._made(node, directory / f"node-{node}") for node in nodes}

    def __enter__(self) -> KafkaNodes:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """The addresses that clients begin with: as the brokers advertise them."""
        return ",".join(f"127.0.0.1:{self.advertised(node)}" for node in self.ports)

    def advertised(self, node: int) -> int:
        return self.proxy_ports.get(node, self.ports[node])

    def start(self) -> None:
        for node in self.nodes.values():
            node.format()
        for node in self.nodes.values():
            node.start()

    def wait_until_listening(self, seconds: float) -> None:
        """Wait until every broker accepts connections. Raises NotReproduced with a node's last words."""
        wait_until_listening({self.nodes[number]: port for number, port in self.ports.items()}, seconds)

    def keep_logs(self, directory: Path) -> None:
        """Copy each node's log and configuration to `directory`/NODE."""
        keep_files(self.nodes, ("node.log", "node.properties"), directory)

    def close(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def _made(self, node: int, directory: Path) -> KafkaNode:
        directory.mkdir(parents=True)
        data, config, launcher = directory / "data", directory / "node.properties", directory / "kafka.sh"
        config.write_text(format_properties(self._properties(node, data)), encoding="utf-8")
        library = self._system.library()
        arguments = [f"--cluster-id={ID}"]
        for name, level in features(self.shape.config).items():
            arguments += ["--feature", f"{name}={level}"]
        launcher.write_text(
            script(
                library=str(library.directory),
                jars=[one.coordinates.file_name for one in pinned_jars(jar_list(self._system.version))],
                directory=str(directory),
                data=str(data),
                config=str(config),
                jvm=USUAL_JVM,
                format_arguments=arguments,
                again_arguments=arguments,
            ),
            encoding="utf-8",
        )
        launcher.chmod(0o755)
        return KafkaNode(node, self.ports.get(node, self._controller_port), directory, launcher, data)

    def _properties(self, node: int, data: Path) -> dict[str, str]:
        known = settings_of(self._system.version)
        broker, controller = node in self.ports, f"CONTROLLER://127.0.0.1:{self._controller_port}"
        both = broker and self.shape.combined and node == 1
        roles = "broker,controller" if both else "broker" if broker else "controller"
        inside = f"PLAINTEXT://127.0.0.1:{self.ports[node]}" if broker else ""
        mine = {
            "process.roles": roles,
            "node.id": str(node),
            "controller.quorum.voters": self._voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{inside},{controller}" if both else inside or controller,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(data),
            **{key: value for key, value in {**USUAL, **INTERNAL}.items() if key in known},
        }
        if broker:
            mine["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{self.advertised(node)}"
            mine["inter.broker.listener.name"] = "PLAINTEXT"
        return mine | {key: value for key, value in self.shape.config.items() if key not in (CLUSTER_ID, *FEATURES)}
