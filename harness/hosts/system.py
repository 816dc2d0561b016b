"""The interface to a system under test: `System` decides what to bundle, configure, launch and collect.

Workloads, nemesis and results use the Kafka protocol and talk to hosts; they do not depend on the software that runs
there. Our own nodes, `SquallNodes`, are the first system; `harness/systems/` has others.

    system = SquallNodes()
    deployed = deploy_all(remotes, system)                                  # bundles onto hosts, in parallel
    nodes = system.configure(inventory, deployed, ClusterSettings(run_id, config={...}))
    for node in nodes.values():
        write_files(remotes[node.host], node)
        await hosts[node.host].call("proc.define", **node.process.arguments())

A node's configuration is Kafka's: `node.properties` with `process.roles`, `node.id`, `listeners`,
`controller.quorum.voters` or `controller.quorum.bootstrap.servers`, `log.dirs`, and the suite's settings, which take
precedence. Host groups decide roles; a host in both groups runs one combined node. Brokers are numbered from 1, pure
controllers from 101, in the inventory's order.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import Bundle, Bundler, Deployed, HostKind, HostPaths, deploy, probe
from squall.harness.hosts.libraries import Library
from squall.harness.hosts.ssh import Remote, on_all
from squall.harness.hosts.ssh_access import resolve
from squall.harness.hosts.voters import Controller, format_arguments, initial_voters, quorum_properties
from squall.harness.plugins.system_plugins import on_zookeeper, system_class
from squall.harness.scenario.control_plane import add_control_listener
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.scenario.system_choice import SystemChoice
from squall.nemesis.core.ports import NODE_PROCESS
from squall.nodes.config import ConfigError, NodeConfig, format_properties
from squall.workloads.clients.common.client import Admin
from squall.workloads.core.ports import Connector

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
METRICS_PORT = 9404
PROBE_PORT = 7465
"""UDP, between hosts: the datagrams that prove partitions (nemesis/agent/probe/probes.py)."""
ZOOKEEPER_PORT = 2181
PORT_OF_ROLE = {"broker": BROKER_PORT, "controller": CONTROLLER_PORT}
FIRST_BROKER_ID = 1
FIRST_CONTROLLER_ID = 101
STOP_SIGNAL = "SIGTERM"
TRACE_FILE = "trace.jsonl"
QUORUM = "quorum"
"""What keeps the metadata, unless a suite chooses ZooKeeper."""
DIGEST_FILE = "digest.jsonl.gz"


@dataclass(frozen=True)
class ClusterSettings:
    """A scenario's settings of its cluster."""

    run_id: str
    config: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    mutants: tuple[str, ...] = ()
    dynamic_voters: bool = False
    """Whether the quorum's voters are kept in its log, initially all controllers (KIP-853)."""
    disk_calls: tuple[str, ...] = ()
    """The disk calls that faults of the run affect; nodes run under a supervisor of these calls, or without one."""

    @property
    def cluster_id(self) -> str:
        """The cluster id that brokers of this run return: the suite's, or an id that no other run has."""
        return _text(self.config.get("cluster.id", cluster_id(self.run_id)))


@dataclass(frozen=True)
class ProcessDefinition:
    """What the agent needs to start and restart a process."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    log: str
    stop_signal: str = STOP_SIGNAL
    data: str = ""
    ledger: str = ""
    disk_calls: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    """Ports on which it accepts connections of the Kafka protocol."""
    config: str = ""
    """The file with its settings, in the format of Java's properties. Empty if it has none."""

    def arguments(self) -> dict[str, object]:
        """Return the arguments of the verb `proc.define`."""
        return {
            "name": self.name,
            "argv": list(self.argv),
            "env": dict(self.env),
            "cwd": self.cwd,
            "log": self.log,
            "stop_signal": self.stop_signal,
            "data": self.data,
            "ledger": self.ledger,
            "disk_calls": list(self.disk_calls),
            "ports": list(self.ports),
            "config": self.config,
        }


@dataclass(frozen=True)
class NodePlan:
    """One node on one host: its files, its process, and what to fetch from it afterwards."""

    host: str
    node_id: int
    roles: tuple[str, ...]
    address: str
    files: Mapping[str, str]
    directories: tuple[str, ...]
    """Made before the start, and removed with all other files of the run."""
    process: ProcessDefinition
    logs: tuple[str, ...]
    preparation: tuple[str, ...] = ()
    """A command to run once on the host when the files exist; none if empty."""
    digest: tuple[str, ...] = ()
    """A command that describes the node's logs (`nodes/server/digest.py`) in a file, its last argument.

    None if empty.
    """
    trace: str = ""
    """Where the node writes its control trace; among `logs`. Empty if it writes none."""
    metrics: str = ""
    """Address and port at which the node serves its metrics over HTTP. Empty if it serves none."""

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def port(self) -> int:
        """A port that it listens on: where its life is visible from outside."""
        if self.is_broker:
            return BROKER_PORT
        return CONTROLLER_PORT if "controller" in self.roles else ZOOKEEPER_PORT


class System(Protocol):
    """A system that can be put on hosts and tested there.

    The rest of Squall knows a system only by this contract, and by the Kafka protocol that its nodes speak: brokers at
    `BROKER_PORT`, controllers (Raft voters that answer DescribeQuorum) at `CONTROLLER_PORT`. A package adds a system by
    an entry point of the group `squall.systems`, and a suite chooses it by `cluster: {system: NAME}`
    (docs/writing-a-system.md). An object is made for each run.
    """

    @property
    def name(self) -> str:
        """The name that suites use."""
        ...

    def bundle(self, kind: HostKind) -> Bundle:
        """What has to lie on a host of this kind: the system's files and the host agent, as `bundler` puts them
        together. Equal content must have an equal name: a host that has the bundle does not get it again.
        """
        ...

    def configure(
        self, inventory: Inventory, places: Mapping[str, HostPaths], settings: ClusterSettings
    ) -> dict[str, NodePlan]:
        """A plan for every controller and broker of the inventory, by host name; `places` says where the bundle lies on
        each. Nothing is started or written here. Raises UsageError for what the system cannot do, such as an unknown
        key of `settings.config` or a mutant.
        """
        ...


@runtime_checkable
class FetchedSystem(Protocol):
    """A system whose programs have to be fetched before they can be sent to hosts."""

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch them onto the control node, unless they are there. Raises UsageError. Called before anything starts."""
        ...

    def library(self) -> Library:
        """What was fetched; `configure` finds it on a host at `HostPaths.programs`."""
        ...


@runtime_checkable
class DemandingSystem(Protocol):
    """A system that needs more of hosts than Python and sshd."""

    def refuse_hosts(self, remotes: Sequence[Remote]) -> None:
        """Raise one UsageError for all hosts that lack what its nodes need."""
        ...


@runtime_checkable
class ObservedSystem(Protocol):
    """A system that does not speak Kafka's protocol: it says itself how to observe it and to make topics."""

    def admin(self, connector: Connector, brokers: Sequence[tuple[str, int]]) -> Admin:
        """Return what describes the nodes at these addresses: live ones, topic-partitions with leaders and ISRs."""
        ...


@runtime_checkable
class ClientSystem(Protocol):
    """A system that brings programs as clients of workloads (docs/client-programs.md); its limits name these."""

    def client_program(self, workload: str, programs: str) -> tuple[str, ...]:
        """Return the command of the program for a workload, on a host where the system's library lies at `programs`."""
        ...


@runtime_checkable
class ReachedSystem(Protocol):
    """A system that runs already, and is reached by its addresses. Nothing is deployed or configured."""

    @property
    def bootstrap(self) -> list[tuple[str, int]]: ...

    @property
    def security(self) -> Mapping[str, str]:
        """How clients connect, by librdkafka's keys. It has credentials: it is written nowhere."""
        ...


class SquallNodes:
    """Our own brokers and controllers."""

    name = "squall"

    def __init__(self, *, cache: Path | None = None) -> None:
        self._bundler = bundler({"squall/nodes": room("nodes")}, cache=cache)

    def bundle(self, kind: HostKind) -> Bundle:
        return self._bundler.bundle(kind)

    def configure(
        self, inventory: Inventory, places: Mapping[str, HostPaths], settings: ClusterSettings
    ) -> dict[str, NodePlan]:
        if not inventory.controllers or not inventory.brokers:
            raise UsageError(f"{inventory.source}: a cluster needs at least one controller and one broker")
        numbered = number_nodes(inventory)
        controllers = [(numbered[host.name], resolve(host), CONTROLLER_PORT) for host in inventory.controllers]
        hosts = [host for host in inventory.hosts if host.name in numbered]
        return {
            host.name: self._plan(host, numbered[host.name], controllers, places[host.name], settings) for host in hosts
        }

    def _plan(
        self, host: HostSpec, node_id: int, controllers: list[Controller], place: HostPaths, settings: ClusterSettings
    ) -> NodePlan:
        directory = place.run_directory(settings.run_id)
        roles = roles_of(host)
        data = data_directory(host, directory, settings.run_id)
        address = resolve(host)
        properties = self._properties(host, node_id, controllers, data, settings)
        properties |= {"cluster.id": settings.cluster_id}
        properties |= {key: _text(value) for key, value in settings.config.items()}
        if "zookeeper.connect" in properties:
            properties = add_control_listener(properties, address, CONTROLLER_PORT)
        check_properties(properties)
        path = f"{directory}/node.properties"
        ledger = f"{directory}/ledger"
        trace = f"{directory}/{TRACE_FILE}"
        argv = [place.python, "-u", "-m", "squall.nodes", "--config", path, "--ledger", ledger]
        argv += ["--control-trace", trace]
        for mutant in settings.mutants:
            argv += ["--mutant", mutant]
        log = f"{directory}/node.log"
        process = ProcessDefinition(
            name=NODE_PROCESS,
            argv=tuple(argv),
            env={"PYTHONPATH": place.library, "PYTHONUNBUFFERED": "1"},
            cwd=directory,
            log=log,
            data=data,
            ledger=ledger,
            disk_calls=settings.disk_calls,
            ports=tuple(PORT_OF_ROLE[role] for role in roles),
            config=path,
        )
        text = format_properties(properties)
        return NodePlan(
            host=host.name,
            node_id=node_id,
            roles=roles,
            address=address,
            files={path: text},
            directories=(directory, data),
            process=process,
            logs=(log, path, trace),
            digest=digest_command(place, data, directory),
            trace=trace,
            metrics=f"{address}:{METRICS_PORT}",
            preparation=_formatting(place, path, controllers, settings) if "controller" in roles else (),
        )

    def _properties(
        self, host: HostSpec, node_id: int, controllers: list[Controller], data: str, settings: ClusterSettings
    ) -> dict[str, str]:
        """Return what follows from the inventory, by Kafka's names."""
        quorum = quorum_properties(controllers, dynamic=settings.dynamic_voters)
        return node_properties(host, node_id, roles_of(host), resolve(host), quorum, data)


def data_directory(host: HostSpec, directory: str, run_id: str) -> str:
    """Return where a node keeps its logs: in the inventory's directory, or in the run's. Raises UsageError."""
    if len(host.data_dirs) > 1:
        raise UsageError(
            f"{host.name}: data_dirs: {', '.join(host.data_dirs)} are {len(host.data_dirs)} directories",
            remedy="a node keeps all its logs in one; name one directory",
        )
    return f"{host.data_dirs[0]}/squall-{run_id}" if host.data_dirs else f"{directory}/data"


def roles_of(host: HostSpec) -> tuple[str, ...]:
    """Return the roles of a host's node, by its groups."""
    return tuple(role for role, group in (("broker", "brokers"), ("controller", "controllers")) if group in host.groups)


def _formatting(
    place: HostPaths, config: str, controllers: list[Controller], settings: ClusterSettings
) -> tuple[str, ...]:
    """Return the command that formats a controller's directory with the initial dynamic voters."""
    if not settings.dynamic_voters:
        return ()
    initial = initial_voters(controllers, settings.run_id)
    command = (*_node_python(place), "-m", "squall.nodes.server.format")
    return (*command, "--config", config, *format_arguments(initial))


def digest_command(place: HostPaths, data: str, directory: str, *, delayed_starts: bool = False) -> tuple[str, ...]:
    """Return the command that describes the logs in `data`, for a bundle that has `squall/nodes`.

    `delayed_starts`: the node writes raised log starts down at intervals only.
    """
    options = ("--delayed-starts",) if delayed_starts else ()
    return (*_node_python(place), "-m", "squall.nodes.server.digest", *options, data, f"{directory}/{DIGEST_FILE}")


def _node_python(place: HostPaths) -> tuple[str, ...]:
    """Return the command of a host's Python with the node's modules on its path."""
    return ("env", f"PYTHONPATH={place.library}", place.python)


def number_nodes(inventory: Inventory) -> dict[str, int]:
    """Return node ids by host name: brokers from 1, hosts that are only controllers from 101."""
    brokers = {host.name: FIRST_BROKER_ID + index for index, host in enumerate(inventory.brokers)}
    only = [host for host in inventory.controllers if host.name not in brokers]
    return brokers | {host.name: FIRST_CONTROLLER_ID + index for index, host in enumerate(only)}


def node_properties(
    host: HostSpec, node_id: int, roles: tuple[str, ...], address: str, quorum: Mapping[str, str], data: str
) -> dict[str, str]:
    """Return what follows from the inventory, by Kafka's names."""
    listeners = {"broker": f"PLAINTEXT://{address}:{BROKER_PORT}"}
    listeners["controller"] = f"CONTROLLER://{address}:{CONTROLLER_PORT}"
    properties = {
        "process.roles": ",".join(roles),
        "node.id": str(node_id),
        **quorum,
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners[role] for role in roles),
        "log.dirs": data,
        "metrics.listener": f"{address}:{METRICS_PORT}",
    }
    if "broker" in roles:
        properties["advertised.listeners"] = listeners["broker"]
        properties["inter.broker.listener.name"] = "PLAINTEXT"
        # Runs are judged by the records still in the log, and faults change clocks.
        properties["log.retention.ms"] = "-1"
        if host.rack is not None:
            properties["broker.rack"] = host.rack
    return properties


def cluster_id(run_id: str) -> str:
    """Return a cluster id unique to this run, so that a node left over from another run is not mistaken for its own."""
    return base64.urlsafe_b64encode(hashlib.sha256(run_id.encode()).digest()[:16]).decode().rstrip("=")


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise UsageError for properties that the node would refuse, before anything is started."""
    try:
        NodeConfig.of(properties, source="cluster.config")
    except ConfigError as wrong:
        raise UsageError(str(wrong)) from None


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def bundler(packages: Mapping[str, Path], *, cache: Path | None = None) -> Bundler:
    """What makes the bundles of a system: these directories under importable names, and the host agent."""
    return Bundler(packages, room("nemesis") / "agent", cache=cache)


def room(name: str) -> Path:
    """Return the directory of one of our top-level packages."""
    module = __import__(f"squall.{name}", fromlist=["__file__"])
    assert module.__file__ is not None
    return Path(module.__file__).resolve().parent


# --- Onto the hosts and off again -----------------------------------------------------------------------------


def deploy_all(remotes: Iterable[Remote], system: System) -> dict[str, Deployed]:
    """Probe all hosts, make the bundles they need, send them. Raises one UsageError for all failures."""
    listed = list(remotes)
    found = on_all(listed, probe)
    bundles = {kind: system.bundle(kind) for kind in {one.kind for one in found.values()}}
    return on_all(listed, lambda remote: deploy(remote, found[remote.name], bundles[found[remote.name].kind]))


def agent_command(place: HostPaths, spec: HostSpec, lock: str | None = None) -> list[str]:
    """Return the command that starts the host agent, for `AgentHost`.

    With `lock`, the agent obeys only while the host's lock has that token. Its probes listen at the host's address,
    where that is known.
    """
    return [
        *(place.python, "-u", place.agent_program, "--state", place.agent_state),
        *("--name", spec.name, "--control-port", str(spec.port)),
        *(("--listen", f"{spec.address}:{PROBE_PORT}") if _is_address(spec.address) and not spec.reduced else ()),
        *(("--reduced", spec.address) if spec.reduced else ()),
        *(("--lock", lock) if lock is not None else ()),
    ]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def write_files(remote: Remote, plan: NodePlan) -> None:
    """Make the node's directories, write its files, and run its preparation."""
    remote.run(["mkdir", "-p", *plan.directories], check=True, sudo=remote.spec.sudo)
    for path, text in plan.files.items():
        remote.put(text.encode(), path, sudo=remote.spec.sudo)
    if plan.preparation:
        remote.run(list(plan.preparation), check=True, timeout=60, sudo=remote.spec.sudo)


def collect_logs(remote: Remote, plan: NodePlan, into: Path) -> list[Path]:
    """Fetch what the node left, into `into/HOST/`. A missing file is skipped."""
    directory = into / plan.host
    directory.mkdir(parents=True, exist_ok=True)
    fetched = []
    for path in plan.logs:
        if remote.run(["test", "-e", path], sudo=remote.spec.sudo).ok:
            target = directory / Path(path).name
            remote.get(path, target, sudo=remote.spec.sudo)
            fetched.append(target)
    return fetched


def remove_run(remote: Remote, plan: NodePlan) -> None:
    """Remove everything of the run from the host, its data included. Its processes must have ended."""
    removed = " ".join(shlex.quote(directory) for directory in plan.directories)
    remote.run(f"rm -rf -- {removed}", check=True, timeout=120, sudo=remote.spec.sudo)


def system_of(choice: SystemChoice, metadata: str = QUORUM) -> System:
    """Make the system that a suite chooses, with what keeps its metadata.

    Raises ValueError, which says what is wrong with its package.
    """
    found = system_class(choice.name) if metadata == QUORUM else on_zookeeper(choice.name)
    made: System = found(**choice.options)
    return made
