"""A simulated cluster in one kernel: hosts with nodes, a network, clients; implements `harness.world.World`.

Names, node ids, ports and configurations are those of a lab of the same size, so a suite means the same in both worlds.
Every random stream is keyed by the run's seed and the name of its user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from squall.harness.hosts.system import BROKER_PORT, CONTROLLER_PORT, FIRST_BROKER_ID, FIRST_CONTROLLER_ID
from squall.harness.hosts.voters import initial_voters, quorum_properties
from squall.harness.scenario.admin import ClusterAdmin
from squall.harness.scenario.control_plane import add_control_listener
from squall.harness.scenario.node_ids import NodeIds
from squall.harness.simulation.world.agent import SimHost
from squall.harness.simulation.world.buggify import SeededBuggify, WorldBuggify
from squall.harness.simulation.world.connector import SimConnector
from squall.harness.simulation.world.disk import SimDisk
from squall.harness.simulation.world.ensemble import PORT as ENSEMBLE_PORT
from squall.harness.simulation.world.ensemble import SimEnsemble
from squall.harness.simulation.world.kernel import Kernel
from squall.harness.simulation.world.memory.broker_node import MemoryBroker
from squall.harness.simulation.world.memory.controller_node import MemoryController
from squall.harness.simulation.world.memory.memory_log import MemoryLog
from squall.harness.simulation.world.network import SimNetwork
from squall.harness.simulation.world.process import NodeFactory, SimProcess, SimWallClock
from squall.harness.simulation.world.streams import Streams
from squall.harness.simulation.world.zookeeper_session import SimSession
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.config import ConfigError, NodeConfig
from squall.nodes.metadata.image import PartitionRegistration
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.node.base import BaseNode
from squall.nodes.node.effects import Effect
from squall.nodes.node.formatting import STANDALONE, format_directory
from squall.nodes.node.node import Node
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.ports import NullTrace, Trace
from squall.nodes.raft.config import KRAFT, Variant
from squall.workloads.clients.native.operator import NativeOperator

CLIENT_ADDRESS = "10.0.0.200"
FIRST_IDS: Mapping[NodeIds, tuple[int, int]] = {
    "usual": (FIRST_BROKER_ID, FIRST_CONTROLLER_ID),
    "brokers-from-0": (0, FIRST_CONTROLLER_ID),
    "controllers-from-0": (FIRST_CONTROLLER_ID, 0),
}
"""The ids of the first broker and of the first controller; a combined node has that of a broker."""
STANDALONE_SHARE = 0.5
"""Of the clusters with one controller, whose quorum may change, the share that is formatted as `--standalone`."""
ENSEMBLE = {f"z{number}": f"10.0.0.{150 + number}" for number in (1, 2, 3)}
"""Names and addresses of the servers of a simulated ensemble."""


@dataclass(frozen=True)
class ClusterShape:
    """The shape of the simulated cluster: numbers of nodes, Kafka's configuration, seeded bugs."""

    controllers: int = 3
    brokers: int = 3
    config: Mapping[str, str] = field(default_factory=dict)
    mutants: Mutants = HEALTHY
    dynamic_voters: bool = False
    """The voters are those of the metadata log, initially all controllers (KIP-853)."""
    combined: bool = False
    """The first brokers are also the controllers, one process each, like a host in both groups of an inventory."""
    racks: tuple[str, ...] = ()
    """The racks in which the brokers stand, in turn; without any, brokers have no rack."""
    zookeeper: bool = False
    """ZooKeeper keeps the metadata, in a simulated ensemble, and elects one of the brokers as the controller."""
    memory: bool = False
    """A single controller keeps the metadata in memory (`world/memory`)."""
    buggify: tuple[str, ...] = ()
    """The places where rare but legal things may happen (`scenario/buggify_places.py`)."""
    node_ids: NodeIds = "usual"
    """Which node has the id 0, if any."""
    variant: Variant = KRAFT
    """What of KRaft is exchanged, for comparisons."""


@dataclass(frozen=True)
class SimPlace:
    """One simulated node: its host's name and address, its id and its roles."""

    name: str
    address: str
    node_id: int
    roles: tuple[str, ...]

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def port(self) -> int:
        """The port of the node's first role: for clients if it is a broker, else for other nodes."""
        return BROKER_PORT if self.is_broker else CONTROLLER_PORT

    @property
    def listeners(self) -> dict[int, str]:
        """The names of the listeners by port."""
        ports = {"broker": (BROKER_PORT, "PLAINTEXT"), "controller": (CONTROLLER_PORT, "CONTROLLER")}
        return dict(ports[role] for role in self.roles)


def places_of(shape: ClusterShape) -> tuple[SimPlace, ...]:
    """Return controllers c1 …, then brokers b1 …; or brokers alone, of which the first are also controllers.

    With ZooKeeper there are brokers only.
    """
    first_broker, first_controller = FIRST_IDS[shape.node_ids]
    if shape.combined:
        return tuple(
            SimPlace(
                f"b{number + 1}",
                f"10.0.0.{1 + number}",
                first_broker + number,
                ("broker", "controller") if number < shape.controllers else ("broker",),
            )
            for number in range(shape.brokers)
        )
    controllers = tuple(
        SimPlace(f"c{number + 1}", f"10.0.0.{101 + number}", first_controller + number, ("controller",))
        for number in range(0 if shape.zookeeper else 1 if shape.memory else shape.controllers)
    )
    brokers = tuple(
        SimPlace(f"b{number + 1}", f"10.0.0.{1 + number}", first_broker + number, ("broker",))
        for number in range(shape.brokers)
    )
    return controllers + brokers


def voters_of(places: tuple[SimPlace, ...]) -> list[tuple[int, str, int]]:
    """Return id, address and port of every controller."""
    return [(one.node_id, one.address, CONTROLLER_PORT) for one in places if one.is_controller]


def properties_of(place: SimPlace, places: tuple[SimPlace, ...], shape: ClusterShape) -> dict[str, str]:
    """Return the node's configuration, by Kafka's names."""
    controllers = voters_of(places)
    listening = {name: f"{name}://{place.address}:{port}" for port, name in place.listeners.items()}
    properties = {
        "node.id": str(place.node_id),
        **(_of_ensemble() if shape.zookeeper else _of_quorum(place, controllers, dynamic=shape.dynamic_voters)),
        "listeners": ",".join(listening.values()),
        "log.dirs": "data",
    }
    if place.is_broker:
        properties["advertised.listeners"] = listening["PLAINTEXT"]
        properties["inter.broker.listener.name"] = "PLAINTEXT"
        # Runs are judged by the records still in the log, and record timestamps need not be times of day.
        properties["log.retention.ms"] = "-1"
        if shape.racks:
            brokers = [one for one in places if one.is_broker]
            properties["broker.rack"] = shape.racks[brokers.index(place) % len(shape.racks)]
    properties |= dict(shape.config)
    return add_control_listener(properties, place.address, CONTROLLER_PORT) if shape.zookeeper else properties


def listeners_of(config: NodeConfig) -> dict[int, str]:
    """Return the names of the listeners by port."""
    return {one.port: one.listener for one in config.listeners}


def _of_quorum(place: SimPlace, controllers: list[tuple[int, str, int]], *, dynamic: bool) -> dict[str, str]:
    return {
        "process.roles": ",".join(place.roles),
        **quorum_properties(controllers, dynamic=dynamic),
        "controller.listener.names": "CONTROLLER",
    }


def _of_ensemble() -> dict[str, str]:
    servers = ",".join(f"{address}:{ENSEMBLE_PORT}" for address in ENSEMBLE.values())
    return {"zookeeper.connect": servers, "zookeeper.session.timeout.ms": "6000"}


class SimWorld:
    """The cluster of one run. `on_iteration` is called with every process between two of its turns."""

    def __init__(
        self,
        shape: ClusterShape,
        seed: object,
        *,
        topics: Mapping[str, int],
        trace: Trace | None = None,
        on_iteration: Callable[[SimProcess], None] | None = None,
        on_early_turn: Callable[[SimProcess, int], Callable[[], None]] | None = None,
        on_early_release: Callable[[SimProcess, Sequence[Effect]], None] | None = None,
        on_loss: Callable[[str], None] | None = None,
        network: type[SimNetwork] = SimNetwork,
        traced: Callable[[str, Trace], Trace] = lambda name, trace: trace,
    ) -> None:
        """Create the cluster.

        `on_iteration` is called after each turn of a process, `on_early_turn` and `on_early_release` as `SimProcess`
        says, `on_loss` with a host whose disk lost what was not synced. `traced` returns the trace that a host's node
        uses instead of `trace`, to which it passes everything on.
        """
        self.kernel = Kernel()  # type: ignore[abstract]  # asyncio's base class is abstract in name only
        self.streams = Streams(seed)
        self.network = network(self.kernel, self.streams.stream("network"))
        self.buggify = WorldBuggify(seed, shape.buggify, self.streams)
        self.network.buggify = self._rarities("network", trace or NullTrace()) if shape.buggify else None
        self.places = places_of(shape)
        names = {place.node_id: place.name for place in self.places}
        self._voters_listen = {names[node_id]: (address, port) for node_id, address, port in voters_of(self.places)}
        """Where each voter listens to other nodes; it may move (`move_controller`)."""
        self.processes: dict[str, SimProcess] = {}
        self.sim_hosts: dict[str, SimHost] = {}
        self.ensemble = self._ensemble() if shape.zookeeper else None
        self.memory = MemoryLog() if shape.memory else None
        addresses = {place.name: place.address for place in self.places} | {"clients": CLIENT_ADDRESS}
        if shape.zookeeper:
            addresses |= ENSEMBLE
        controllers = voters_of(self.places)
        alone = len(controllers) == 1 and Random(f"{seed}/standalone").random() < STANDALONE_SHARE
        initial = STANDALONE if alone else initial_voters(controllers, seed)
        for place in self.places:
            config = NodeConfig.of(properties_of(place, self.places, shape), place.name)
            disk = SimDisk(self.streams.stream(f"{place.name}/disk"))
            node_trace = traced(place.name, trace or NullTrace())
            rarities = self._rarities(place.node_id, node_trace) if shape.buggify else None
            if shape.dynamic_voters and place.is_controller:
                format_directory(config, initial, disk=disk, rng=self.streams.stream(f"{place.name}/format"), now_ms=0)
            process = SimProcess(
                place.name,
                place.address,
                listeners_of(config),
                kernel=self.kernel,
                network=self.network,
                disk=disk,
                factory=self._factory(place, config, shape, rarities or OFF),
                trace=node_trace,
                streams=self.streams,
                on_iteration=on_iteration,
                on_early_turn=on_early_turn,
                on_early_release=on_early_release,
                on_loss=on_loss,
                buggify=rarities,
            )
            disk.buggify = rarities
            self.processes[place.name] = process
            self.sim_hosts[place.name] = SimHost(
                process,
                kernel=self.kernel,
                network=self.network,
                addresses=addresses,
                reconfigure=partial(self.reconfigure, place, rarities or OFF),
            )
        for host in self.sim_hosts.values():
            host.meet(self.sim_hosts)
        self.cluster = SimClusterView(self.places, self.processes, topics)
        self._shape = shape

    def reconfigure(self, place: SimPlace, rarities: Buggify, settings: Mapping[str, str]) -> None:
        """Have a node start next with these settings beside its own, as an operator edits a file before a restart.

        Raises ValueError for settings that the node would refuse.
        """
        try:
            config = NodeConfig.of(properties_of(place, self.places, self._shape) | dict(settings), place.name)
        except ConfigError as wrong:
            raise ValueError(str(wrong)) from None
        factory = self._factory(place, config, self._shape, rarities)
        self.processes[place.name].reconfigure(listeners_of(config), factory)

    def move_controller(self, name: str, port: int) -> None:
        """Have a controller listen to other nodes on another port from its next start on, for good."""
        [place] = [one for one in self.places if one.name == name]
        ports = {listener: number for number, listener in place.listeners.items()} | {"CONTROLLER": port}
        listening = [f"{listener}://{place.address}:{number}" for listener, number in ports.items()]
        self.sim_hosts[name].keep_settings({"listeners": ",".join(listening)})
        self._voters_listen[name] = place.address, port

    def _ensemble(self) -> SimEnsemble:
        return SimEnsemble(
            tuple(ENSEMBLE.values()), self.kernel, self.network, self.streams.stream("ensemble"), ENSEMBLE_PORT
        )

    def _factory(self, place: SimPlace, config: NodeConfig, shape: ClusterShape, buggify: Buggify) -> NodeFactory:
        mutants = shape.mutants
        if self.memory is not None:
            return partial(
                partial(MemoryController, config, self.memory)
                if place.is_controller
                else partial(MemoryBroker, config),
                mutants=mutants,
                buggify=buggify,
            )
        if self.ensemble is None:
            return node_factory(config, mutants, buggify, shape.variant)

        def make(*, disk: SimDisk, clock: SimWallClock, rng: Random, trace: Trace, now: int) -> ZooKeeperNode:
            session = SimSession(
                place.address, tuple(ENSEMBLE.values()), config.zookeeper_session_timeout_ms * 1000,
                network=self.network, rng=rng, wake=self.processes[place.name].wake, now=now,
            )  # fmt: skip
            return ZooKeeperNode(
                config, session,
                disk=disk, clock=clock, rng=rng, trace=trace, now=now, mutants=mutants, buggify=buggify,
            )  # fmt: skip

        return make

    def _rarities(self, user: int | str, trace: Trace) -> SeededBuggify:
        """Return the decisions for a node, or the network; each happening is traced."""
        return self.buggify.of(str(user), lambda name: trace.event("buggify", node=user, place=name))

    @property
    def has_quorum(self) -> bool:
        """Whether a quorum of controllers keeps the metadata."""
        return self.ensemble is None and self.memory is None

    @property
    def hosts(self) -> Mapping[str, SimHost]:
        return self.sim_hosts

    def start(self) -> None:
        """Start every node."""
        for process in self.processes.values():
            process.start()

    def switch_off(self) -> None:
        """End everything: processes at once, then the remaining coroutines."""
        for process in self.processes.values():
            process.crash()
        if self.ensemble is not None:
            self.ensemble.stop()
        self.kernel.shut_down()

    def now_ns(self) -> int:
        return self.kernel.now * 1000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def connector(self) -> SimConnector:
        return SimConnector(self.network, CLIENT_ADDRESS)

    def operator(self) -> ClusterAdmin:
        """Return an operator with its own connections; the caller closes it."""
        first = tuple((address, port) for _, address, port in voters_of(self.places))
        client = NativeOperator(self.connector(), self.bootstrap(), first, has_quorum=self.has_quorum)
        return ClusterAdmin(client, {place.name: place.node_id for place in self.places}, self._voters_listen)

    def bootstrap(self) -> list[tuple[str, int]]:
        return [(place.address, place.port) for place in self.places if place.is_broker]

    def ports(self) -> dict[str, int]:
        return {place.name: place.port for place in self.places}


def node_factory(
    config: NodeConfig, mutants: Mutants, buggify: Buggify = OFF, variant: Variant = KRAFT
) -> Callable[..., Node]:
    """Return a factory for incarnations of one node."""

    def make(*, disk: SimDisk, clock: SimWallClock, rng: Random, trace: Trace, now: int) -> Node:
        return Node(
            config, disk=disk, clock=clock, rng=rng, trace=trace, now=now, mutants=mutants, buggify=buggify,
            variant=variant,
        )  # fmt: skip

    return make


class SimClusterView:
    """Which node leads what, read from the nodes themselves; implements `nemesis.ports.ClusterView`.

    The view is that of the running node with the newest metadata, like that of an admin client that asks all nodes.
    With ZooKeeper any broker may be the controller.
    """

    def __init__(
        self, places: tuple[SimPlace, ...], processes: Mapping[str, SimProcess], topics: Mapping[str, int]
    ) -> None:
        self.brokers = tuple(place.name for place in places if place.is_broker)
        self.controllers = tuple(place.name for place in places if place.is_controller) or self.brokers
        self.zookeeper: tuple[str, ...] = ()  # the simulated ensemble has no hosts
        self.topics = topics
        self._names = {place.node_id: place.name for place in places}
        self._processes = processes

    def _running(self) -> list[BaseNode]:
        return [one.node for one in self._processes.values() if one.node is not None and not one.paused]

    def name_of(self, node_id: int) -> str:
        return self._names[node_id]

    async def active_controller(self) -> str | None:
        leaders = [(_controller_epoch(node), node.config.node_id) for node in self._running() if _leads(node)]
        return self._names[max(leaders)[1]] if leaders else None

    async def leader(self, topic: str, partition: int) -> str | None:
        found = self._registration(topic, partition)
        return None if found is None else self._names.get(found.leader)

    async def in_sync(self, topic: str, partition: int) -> list[str]:
        found = self._registration(topic, partition)
        return [] if found is None else [self._names[node_id] for node_id in found.isr]

    async def replicas(self, topic: str, partition: int) -> list[str]:
        found = self._registration(topic, partition)
        return [] if found is None else [self._names[node_id] for node_id in found.replicas]

    def _registration(self, topic: str, partition: int) -> PartitionRegistration | None:
        found = [
            registration
            for node in self._running()
            if node.broker is not None and (registration := node.broker.image.partition(topic, partition)) is not None
        ]
        return max(found, key=lambda one: (one.leader_epoch, one.partition_epoch), default=None)


def _leads(node: BaseNode) -> bool:
    return node.raft.is_leader if isinstance(node, Node) else node.is_active_controller


def _controller_epoch(node: BaseNode) -> int:
    if isinstance(node, Node):
        return node.raft.leader_and_epoch[1]
    return node.controller.context.epoch if isinstance(node, ZooKeeperNode) else -1
