"""CALM: once all faults are over and the cluster is whole, it stays as it is.

A cluster that elects, fences and shrinks ISRs without a cause is safe, and its clients wait. A run under faults hides
that, since each such change may have a cause then. Between the moment when all is whole and the end there is none:

* no node begins to lead the quorum;
* no broker is fenced;
* no member leaves an ISR while it stays a replica;
* no topic-partition gets another leader than its preferred replica, the first one.

Source: requirements FD-05, IS-03, RA-07. Legal: a leadership that goes back to the preferred replica; replicas that a
reassignment takes away; a deleted topic; a member that leaves the ISR of a leader from which it replicated nothing when
all became whole. That leader may have lost power while the two did not reach each other, and then the follower waits
until `request.timeout.ms` for an answer to its Fetch from before (seed 998433 with successions everywhere). Also legal:
a member that lacked records when all became whole, and gets them so slowly that it leaves (`worlds` seed 1004592).
Also legal: a leader that a reassignment was taking away, and that the next one has added again before anybody looked
(`worlds` seed 1025421).
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import QuorumTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, TopicPartitionId, Watched
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.metadata.image import PartitionRegistration
from squall.nodes.node.base import BaseNode


class CalmCluster(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._whole_at: int | None = None
        self._fenced: frozenset[int] = frozenset()
        self._known: dict[TopicPartitionId, PartitionRegistration] = {}
        self._linked: frozenset[tuple[int, int]] = frozenset()
        """Followers and the leader from which each had fetched, when all became whole."""
        self._behind: frozenset[tuple[TopicPartitionId, int]] = frozenset()
        """Topic-partitions and the members that lacked records of the leader then."""

    def became_whole(self, now: int) -> None:
        self._whole_at = now
        self._fenced = self._fenced_brokers()
        self._known = dict(self.cluster.images.newest)
        self._linked = frozenset(pair for key, known in self._known.items() for pair in self._fetching(key, known))
        self._behind = frozenset((key, one) for key, known in self._known.items() for one in self._lacking(key, known))

    def _fetching(self, key: TopicPartitionId, known: PartitionRegistration) -> list[tuple[int, int]]:
        replica = None if known.leader < 0 else self.cluster.replica_of(self.cluster.names[known.leader], key)
        return [] if replica is None else [(one, known.leader) for one, _ in replica.follower_epochs()]

    def _lacking(self, key: TopicPartitionId, known: PartitionRegistration) -> list[int]:
        replica = None if known.leader < 0 else self.cluster.replica_of(self.cluster.names[known.leader], key)
        ends = {} if replica is None else replica.follower_ends()
        return [one for one, end in ends.items() if replica is not None and end < replica.end_offset]

    def quorum_led(self, turn: QuorumTurn) -> None:
        if self._whole_at is not None:
            self._refuse(turn.process.now, f"{turn.process.name} begins to lead the quorum in epoch {turn.now[3]}")

    def images_examined(self, process: SimProcess, node: BaseNode) -> None:
        if self._whole_at is None:
            return
        fenced = self._fenced_brokers()
        if new := sorted(fenced - self._fenced):
            self._refuse(process.now, f"brokers {new} are fenced")
        self._fenced = fenced

    def membership_changed(self, key: TopicPartitionId, watched: Watched) -> None:
        if self._whole_at is None:
            return
        before, now = self._known.get(key), self.cluster.images.newest[key]
        self._known[key] = now
        if before is None:
            return
        left = [one for one in before.isr if one not in now.isr and one in now.replicas]
        if any((one, before.leader) in self._linked and (key, one) not in self._behind for one in left):
            self._refuse(None, f"{left} leave the ISR of {watched.log.name}, {list(before.isr)}")
        was_to_go = before.leader in before.removing
        if now.leader not in (before.leader, now.replicas[0]) and before.leader in now.replicas and not was_to_go:
            self._refuse(None, f"{now.leader} leads {watched.log.name} instead of {before.leader}")

    def _fenced_brokers(self) -> frozenset[int]:
        image = self.cluster.images.newest_image
        return frozenset() if image is None else frozenset(one.id for one in image.brokers.values() if one.fenced)

    def _refuse(self, now: int | None, what: str) -> None:
        assert self._whole_at is not None
        after = "" if now is None else f"{(now - self._whole_at) / MICROSECONDS:.3f} s "
        raise InvariantBroken("CALM", f"{after}after all was whole and without a fault: {what}")
