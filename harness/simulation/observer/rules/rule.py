"""The interface of a rule: the moments of a run at which the observer calls it.

A rule overrides the hooks it needs; `Rules` calls only those that are overridden, so that a hook costs nothing to rules
that have no use for it. A breach is raised as `InvariantBroken`. Hooks run between two turns of a node, before any
output of the last turn is released, so the state that they read is complete and no other node has seen more.

A node may die within a turn, at a call of its disk. What it traced before is then not followed by a turn: a rule that
collects trace events discards them in `died`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from squall.harness.simulation.observer.state.client_checker import Promised
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, Watched
from squall.harness.simulation.observer.state.observed_log import Batch, SeenReplica
from squall.harness.simulation.world.memory.broker_node import MemoryBroker
from squall.harness.simulation.world.memory.controller_node import MemoryController
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.node.base import BaseNode
from squall.nodes.node.effects import Effect
from squall.nodes.node.node import Node
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchRequest
from squall.nodes.protocol.requests.headers import decode_request
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import METADATA_TOPIC, METADATA_TOPIC_ID
from squall.nodes.raft.config import PARTITION, TOPIC
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.workloads.core.operation import Event

QuorumPosition = tuple[int, int, bool, int]
"""End, high watermark, whether it leads, epoch."""


METADATA_DIRECTORY = f"{TOPIC}-{PARTITION}"
"""The directory of the metadata log, on every disk."""
_WITHOUT_QUORUM = frozenset((ZooKeeperNode, MemoryController, MemoryBroker))


def node_of_quorum(node: BaseNode | None) -> Node | None:
    """Return a node with a replica of the metadata log, None for any other."""
    # By exact type: this runs several times in each turn, and isinstance is slow with abstract classes.
    return None if node is None or type(node) in _WITHOUT_QUORUM else cast("Node", node)


def requests_of(process: SimProcess, keys: Sequence[bytes]) -> Iterator[Message]:
    """Yield the requests that arrived in a process's last turn, of the APIs whose keys, as on the wire, are given."""
    for method, arguments in process.last_inputs:
        if method.__name__ == "received" and arguments[0] >= 0 and arguments[1][:2] in keys:
            yield decode_request(arguments[1])[1]


def is_of_quorum(request: Message) -> bool:
    """Return whether a request is a Fetch of the metadata log."""
    topics = request.topics if isinstance(request, FetchRequest) else ()
    return any(topic.topic_id == METADATA_TOPIC_ID or topic.topic == METADATA_TOPIC for topic in topics)


def is_of_follower(request: Message) -> bool:
    """Return whether a request is a Fetch of a replica, whichever version names it."""
    return isinstance(request, FetchRequest) and max(request.replica_id, request.replica_state.replica_id) >= 0


def replica_named(replicas: Replicas, topic: str, topic_id: bytes, partition: int) -> TopicPartitionReplica | None:
    """Return a broker's replica that a message names by the name of its topic or, where that is empty, by its id."""
    hosted = replicas.by_name(topic, partition) if topic else replicas.by_id(topic_id, partition)
    return None if hosted is None else hosted.replica


def wire_keys(*keys: ApiKey) -> tuple[bytes, ...]:
    """The keys of APIs as requests begin with them. A tuple, since frames may be buffers that have no hash."""
    return tuple(int(one).to_bytes(2, "big") for one in keys)


class QuorumTurn(NamedTuple):
    """A turn that changed a replica of the metadata log.

    `before` is its position after its previous change, None in a new incarnation. `cut` is where the log was truncated,
    `reset` where it restarts after a snapshot.
    """

    process: SimProcess
    node: Node
    before: QuorumPosition | None
    now: QuorumPosition
    cut: int | None
    reset: int | None


class ReplicaTurn(NamedTuple):
    """A turn that touched a replica of a topic-partition.

    `cut` is where its log was truncated, `removed` the first batch that went by that, if all of what went lay above the
    replica's high watermark.
    """

    process: SimProcess
    watched: Watched
    replica: TopicPartitionReplica
    seen: SeenReplica
    cut: int | None
    removed: Batch | None = None


class Rule:
    """One rule; see the module. Its class variable `events` names the trace events that `traced` receives."""

    events: Sequence[str] = ()

    def __init__(self, cluster: ObservedCluster) -> None:
        self.cluster = cluster

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        """A node traces one of `events`, within its turn."""

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        """A node answers a request, within its turn, so its state is that by which it has decided.

        A breach ends the run after the turn, unless the node dies in it.
        """

    def died(self, process: SimProcess) -> None:
        """A node died in its last turn, or was stopped."""

    def power_lost(self, name: str) -> None:
        """A host's disk has lost what was not durable, and its node is dead."""

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        """A node took a turn, whatever it touched. Before all other hooks of the turn."""

    def turned_early(self, process: SimProcess, node: BaseNode, due: int, traced: Sequence[str]) -> None:
        """A node took a turn without an input, before the time `due` that it had named; `traced` names what it traced.

        Its effects are still in its outbox. The turn goes on with inputs, and all other hooks follow.
        """

    def turned_in_vain(self, process: SimProcess, node: BaseNode) -> None:
        """A node took a turn without an input, traced nothing and asked for nothing. After `turned`."""

    def released_early(self, process: SimProcess, node: BaseNode, effects: Sequence[Effect]) -> None:
        """What a node releases between its turn and its flush: the disk may still lose what it has written."""

    def messages_seen(self, process: SimProcess, node: Node) -> None:
        """A turn touched the metadata quorum or an image. First of the hooks for that."""

    def quorum_moved(self, turn: QuorumTurn) -> None:
        """A replica of the metadata log changed; its new records are not examined yet."""

    def quorum_led(self, turn: QuorumTurn) -> None:
        """A node begins to lead the quorum in a new epoch."""

    def metadata_touched(self, process: SimProcess, node: Node) -> None:
        """The quorum's log and its committed records are examined; the images are not yet."""

    def images_examined(self, process: SimProcess, node: BaseNode) -> None:
        """The images are examined as well."""

    def replica_touched(self, turn: ReplicaTurn) -> None:
        """A replica of a topic-partition was touched; its new records are not examined yet."""

    def appended(self, turn: ReplicaTurn) -> None:
        """A replica appended; its records were read and compared with those of the other replicas."""

    def led(self, turn: ReplicaTurn, before: int) -> None:
        """A replica begins to lead in a new epoch. `before` is the newest epoch so far."""

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        """All of a turn that concerns a replica is examined. `committed_before` is the committed end before it."""

    def membership_changed(self, key: tuple[bytes, int], watched: Watched) -> None:
        """An image holds a newer registration of a topic-partition than any before."""

    def truncated(self, process: SimProcess, where: str, replica: TopicPartitionReplica) -> None:
        """A replica was truncated in this turn, and has not become a leader since."""

    def completed(self, event: Event, promised: Promised) -> None:
        """An operation of a client completes; ACK, UNIQ, RT, PREFIX and PHANTOM are checked."""

    def healed(self, now: int) -> None:
        """All faults are over, and every node has been started."""

    def became_whole(self, now: int) -> None:
        """All faults are over, and the cluster has all its brokers and replicas in sync. The final reads follow."""

    def idle(self, now: int) -> None:
        """All is whole, and no client asks anything from now on. Only in swarms."""

    def at_end(self) -> None:
        """All faults are over, the cluster is healthy again, and the final reads are complete."""


class Rules:
    """The rules of a run, in the order in which they are called."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.all = list(rules)
        self.listeners: dict[str, list[Callable[[str, Mapping[str, Any]], None]]] = {}
        for rule in self.all:
            for name in rule.events:
                self.listeners.setdefault(name, []).append(rule.traced)

    def having(self, hook: str) -> list[Any]:
        """Return the bound hooks of this name, of those rules that override it."""
        return [getattr(rule, hook) for rule in self.all if getattr(type(rule), hook) is not getattr(Rule, hook)]
