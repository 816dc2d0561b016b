"""Follow what an ensemble decides as an omniscient observer: the cluster's state, and EPOCH, ELECT for ZooKeeper.

With a quorum the observer replays the metadata log; here it follows the ensemble's history, which is one sequence as
well, and keeps the same image of it. No broker's image is compared with it: brokers get theirs in requests, late and
each at its own time, as in Kafka. What replicas do by them is judged by all the other rules.

* EPOCH   the leader epoch of a topic-partition never falls, and names one leader
* ELECT   only the controller of the present epoch raises a leader epoch (ZK-14)
* ISR     a state that is written has a leader in the ISR, and an ISR of replicas
"""

from __future__ import annotations

from collections.abc import Callable

from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_images import Changed
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.ensemble import Decided
from squall.harness.simulation.world.znodes import Znode, ZnodeTree
from squall.nodes.metadata.image import BrokerRegistration, MetadataImage, PartitionRegistration, Topic
from squall.nodes.metadata.records import TOPIC_RESOURCE
from squall.nodes.metadata.topic import RareFields
from squall.nodes.protocol.topic_partition import ZERO_ID
from squall.nodes.zookeeper.session import Create, Delete, Multi, SetData
from squall.nodes.zookeeper.znodes import (
    BROKER_IDS,
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    NO_LEADER,
    TOPIC_CONFIGS,
    TOPICS,
    Assignment,
    StateZnode,
    decode_broker,
    decode_config,
    decode_state,
    decode_topic,
    topic_of_path,
)

Registered = Callable[[Changed, MetadataImage], None]


class ObservedEnsemble:
    """See the module. `registered` is called with every new state of a topic-partition."""

    def __init__(self, cluster: ObservedCluster, registered: Registered) -> None:
        self._cluster = cluster
        self._registered = registered
        self._image = cluster.metadata.image
        self._assignments: dict[str, dict[int, Assignment]] = {}
        self._states: dict[tuple[str, int], StateZnode] = {}
        cluster.images.newest_image = self._image

    def decided(self, decided: Decided, tree: ZnodeTree) -> None:
        """Follow one entry of the history. Raises InvariantBroken."""
        operation = decided.operation
        operations = operation.operations if isinstance(operation, Multi) else (operation,)
        for one in operations:
            if isinstance(one, Create | SetData | Delete):
                self._follow(one.path, tree)
        if operation is None or any(isinstance(one, Create | Delete) for one in operations):
            self._follow_brokers(tree)
        self._image.passed(decided.zxid)

    def _follow(self, path: str, tree: ZnodeTree) -> None:
        node = tree.nodes.get(path)
        topic = topic_of_path(path)
        if topic is not None:
            self._follow_topic(topic, node)
        elif path.startswith(f"{TOPICS}/") and path.endswith("/state"):
            _, _, _, name, _, number, _ = path.split("/")
            if node is not None and name in self._assignments:
                self._follow_state(name, int(number), decode_state(path, node.data, node.version), tree)
        elif path.startswith(f"{DELETE_TOPICS}/"):
            name = path.removeprefix(f"{DELETE_TOPICS}/")
            self._cluster.being_deleted.pop(name, None)
            if node is not None:
                self._cluster.being_deleted[name] = None
        elif path.startswith(f"{TOPIC_CONFIGS}/"):
            key = (TOPIC_RESOURCE, path.removeprefix(f"{TOPIC_CONFIGS}/"))
            settings = {} if node is None else decode_config(path, node.data)
            self._image.configs[key] = settings

    def _follow_brokers(self, tree: ZnodeTree) -> None:
        brokers = {}
        for path in tree.below(BROKER_IDS):
            number, node = int(path.rpartition("/")[2]), tree.nodes[path]
            found = decode_broker(number, node.data, node.czxid)
            brokers[number] = BrokerRegistration(
                number, found.epoch, ZERO_ID, found.endpoints, found.rack, False, False
            )
        if brokers != self._image.brokers:
            self._image.brokers = brokers

    def _follow_topic(self, name: str, node: Znode | None) -> None:
        if node is None:
            if self._assignments.pop(name, None) is not None:
                self._image.topics.pop(self._image.topic_ids.pop(name))
                for key in [key for key in self._states if key[0] == name]:
                    del self._states[key]
            return
        topic = decode_topic(name, node.data)
        former, self._assignments[name] = self._assignments.get(name, {}), dict(topic.assignments)
        for number, one in former.items():
            left = set(one.replicas) - set(topic.assignments[number].replicas) - set(one.adding)
            self._cluster.metadata.reassignments_completed += bool(left)
        if name not in self._image.topic_ids:
            self._image.topics[topic.id] = Topic(name, topic.id)
            self._image.topic_ids[name] = topic.id
            self._cluster.images.topic_ids.setdefault(name, []).append(topic.id)
        for number, state in [(key[1], state) for key, state in self._states.items() if key[0] == name]:
            self._register(name, number, state)

    def _follow_state(self, name: str, number: int, state: StateZnode, tree: ZnodeTree) -> None:
        before = self._states.get((name, number))
        if before == state:
            return
        where = f"{name}-{number}"
        if before is not None:
            self._check_epochs(where, before, state)
        if before is None or state.leader_epoch > before.leader_epoch:
            present = int(tree.nodes[CONTROLLER_EPOCH].data)
            if state.controller_epoch != present:
                raise InvariantBroken(
                    "ELECT",
                    f"{where}: the controller of epoch {state.controller_epoch} gives it leader {state.leader} in "
                    f"leader epoch {state.leader_epoch}, and the present controller has epoch {present}",
                )
        replicas = self._assignments[name][number].replicas
        if (state.leader != NO_LEADER and state.leader not in state.isr) or not set(state.isr) <= set(replicas):
            raise InvariantBroken("ISR", f"{where}: leader {state.leader}, ISR {state.isr} of replicas {replicas}")
        self._states[name, number] = state
        self._register(name, number, state)

    @staticmethod
    def _check_epochs(where: str, before: StateZnode, now: StateZnode) -> None:
        if now.leader_epoch < before.leader_epoch:
            raise InvariantBroken(
                "EPOCH", f"{where}: leader epoch {before.leader_epoch} is followed by {now.leader_epoch} ({now})"
            )
        if now.leader_epoch == before.leader_epoch and now.leader != before.leader:
            raise InvariantBroken(
                "EPOCH", f"{where}: leader epoch {now.leader_epoch} has leaders {before.leader} and {now.leader}"
            )

    def _register(self, name: str, number: int, state: StateZnode) -> None:
        topic = self._image.topics[self._image.topic_ids[name]]
        assignment = self._assignments[name][number]
        before = topic.partitions.get(number)
        registration = PartitionRegistration(
            assignment.replicas, state.isr, state.leader, state.leader_epoch, state.version,
            RareFields(assignment.removing, assignment.adding),
        )  # fmt: skip
        if registration == before:
            return
        topic.put(number, registration)
        self._cluster.images.newest[topic.id, number] = registration
        self._cluster.metadata.on_partition(name, number, registration)
        if before is not None and before.isr and state.leader != NO_LEADER and state.leader not in before.isr:
            self._cluster.counters.unclean_elections += 1
            self._cluster.metadata.on_unclean(name, (topic.id, number), state.leader_epoch)
        self._registered(Changed(name, topic.id, number, before, registration), self._image)
