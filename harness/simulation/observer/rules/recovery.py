"""RECOVER: once the last fault is over, everything works again within a bound.

A cluster that stands still is safe, and useless. Each part has a bound of its own, in virtual time since the last fault
was reverted and every node was started:

* the quorum has a leader that knows its high watermark, or ZooKeeper has elected a controller;
* every topic-partition has a leader;
* every ISR is whole: it has all replicas;
* the metadata log names the place at which each of its voters listens (KIP-853).

At the end, no reassignment is under way whose targets are all in the ISR (RA-05): nothing is missing that could
complete it, so it would stay for ever.

Source: requirements FD-01, FD-02, IS-05, RA-05. Parked requests are the subject of ANSWER. Asserted at each turn that
touches metadata, until all parts hold. Legal: a topic-partition that loses its leader or a member again after all was
whole, by a reassignment or a controlled shutdown that an administrator began before.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.process import SimProcess
from squall.harness.simulation.world.voter_places import misplaced_voter
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node

QUORUM_LEADER = 20 * MICROSECONDS
LEADERS = 30 * MICROSECONDS
WHOLE_ISR = 45 * MICROSECONDS
PLACES = 30 * MICROSECONDS
PARTS = 4


class RecoveredCluster(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self.healed_at: int | None = None
        self.recovered: dict[str, int] = {}
        """How long each part took, in microseconds."""

    def healed(self, now: int) -> None:
        self.healed_at = now

    def images_examined(self, process: SimProcess, node: BaseNode) -> None:
        if self.healed_at is None or len(self.recovered) == PARTS:
            return
        waited = process.now - self.healed_at
        image = self.cluster.images.newest_image
        for part, bound, missing in (
            ("the quorum has no leader", QUORUM_LEADER, None if self._has_active_controller() else "it"),
            ("a topic-partition has no leader", LEADERS, without_leader(image)),
            ("an ISR is not whole", WHOLE_ISR, without_member(image)),
            ("a voter is not where the metadata log has it", PLACES, misplaced_voter(self._nodes())),
        ):
            if part in self.recovered:
                continue
            if missing is None:
                self.recovered[part] = waited
            elif waited > bound:
                raise InvariantBroken(
                    "RECOVER",
                    f"{waited / MICROSECONDS:.3f} s after the last fault {part}: {missing}; the bound is "
                    f"{bound // MICROSECONDS} s",
                )

    def at_end(self) -> None:
        waits = without_completion(self.cluster.images.newest_image)
        if waits is not None:
            raise InvariantBroken("RA-05", f"a reassignment has all it needs and is not complete at the end: {waits}")

    def _nodes(self) -> dict[str, Node | None]:
        return {name: node_of_quorum(process.node) for name, process in self.cluster.processes.items()}

    def _has_active_controller(self) -> bool:
        nodes = [process.node for process in self.cluster.processes.values()]
        return any(node is not None and node.is_active_controller for node in nodes)


def without_leader(image: MetadataImage | None) -> str | None:
    """Describe a topic-partition without a leader, None if there is none."""
    for topic, number, registration in () if image is None else image.all_partitions():
        if registration.leader < 0:
            return f"{topic.name}-{number}, ISR {list(registration.isr)}, ELR {list(registration.elr)}"
    return None


def without_member(image: MetadataImage | None) -> str | None:
    """Describe a topic-partition whose ISR lacks a replica, None if there is none."""
    for topic, number, registration in () if image is None else image.all_partitions():
        if len(registration.isr) < len(registration.replicas):
            return f"{topic.name}-{number}, ISR {list(registration.isr)} of {list(registration.replicas)}"
    return None


def without_completion(image: MetadataImage | None) -> str | None:
    """Describe a topic-partition whose reassignment is under way though its targets are in sync, None if none is."""
    for topic, number, one in () if image is None else image.all_partitions():
        if (one.adding or one.removing) and set(one.replicas) - set(one.removing) <= set(one.isr):
            return f"{topic.name}-{number}, ISR {list(one.isr)} of {list(one.replicas)}, leaving {list(one.removing)}"
    return None
