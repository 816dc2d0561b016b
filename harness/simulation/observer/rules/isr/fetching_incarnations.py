"""IS-08: a leader knows followers that are replicas, and by the epoch of one of their broker's registrations.

A leader adds a follower to the ISR only if that epoch is the one of the broker's current registration (KIP-903). It
lets a fetch through that names none, for brokers from before that rule. So a broker that does not say its epoch is
still replicated, and the leader may count an incarnation that has lost its log. Asserted on each leader that is
examined: the epoch by which it knows a follower is not negative, and not newer than any that the quorum has committed.
Nor is it a broker that is not among the replicas which the leader has applied last: what a former replica had when it
left holds back every DeleteRecords, and is taken for its state when it returns (RA-01).
Legal: the epoch of an earlier registration, until the follower has heard of the new one; clusters without a quorum.

And a leader that serves a fetch knows the follower by it: not by an earlier incarnation, and not as further behind. One
that goes by an earlier incarnation counts what may have been lost with it, until the follower has as much again. Nor
does it serve an earlier incarnation than it has served in the same leader epoch, whose frame has come late (`worlds`
1031160). Asserted when a Fetch of a follower is answered, for what it names and gets without an error. Legal: a fetch
that is served after a newer one has been; a leader that begins a new epoch, in which it knows nothing yet.

And a leader proposes that a follower joins the ISR only if its own metadata say that this incarnation may: its broker
is active, that is unfenced and not stopping, and the leader knows the follower by the epoch of that registration. The
controller refuses others, so nothing but a refusal shows it. Asserted by the metadata as they are at the proposal.

Source: requirement IS-08, KIP-841, KIP-903.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import (
    ReplicaTurn,
    Rule,
    is_of_follower,
    node_of_quorum,
    replica_named,
)
from squall.harness.simulation.observer.state.fetch_positions import place_of
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import TopicPartitionReplica

NO_EPOCH = -1


class FetchingIncarnations(Rule):
    """See the module."""

    events = ("isr_proposed",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._unfit: list[str] = []
        """What was wrong with proposals of a turn that is not examined yet."""
        self._newest: dict[tuple[str, int, bytes, int, int, int], int] = {}
        """By leader, its incarnation, topic-partition, leader epoch and follower, the newest broker epoch it served."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        process = self.cluster.processes[self.cluster.names[int(fields["broker"])]]
        node = node_of_quorum(process.node)
        if node is None or node.broker is None:
            return
        hosted = node.broker.replicas.by_id(bytes(fields["topic_id"]), int(fields["partition"]))
        if hosted is None:
            return
        replica = hosted.replica
        known = dict(replica.follower_epochs())
        for member in sorted(set(fields["isr"]) - {*replica.isr, replica.broker}):
            registered = node.broker.image.brokers.get(member)
            if registered is None or not registered.active or known.get(member) != registered.epoch:
                self._unfit.append(
                    f"{replica.topic}-{replica.partition}: its leader {process.name} proposes that broker {member} "
                    f"joins the ISR, which it knows by epoch {known.get(member)}; its metadata have {registered}"
                )

    def died(self, process: SimProcess) -> None:
        self._unfit.clear()

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        if self._unfit:
            raise InvariantBroken("IS-08", self._unfit[0])
        replica = turn.replica
        if not replica.is_leader or node_of_quorum(turn.process.node) is None:
            return
        replicas = () if replica.state is None else replica.state.replicas
        for broker, epoch in replica.follower_epochs():
            if broker not in replicas:
                raise InvariantBroken(
                    "IS-08",
                    f"{replica.topic}-{replica.partition}: its leader {turn.process.name} knows broker {broker} as a "
                    f"follower, and its replicas are {list(replicas)}",
                )
            registered = self.cluster.metadata.image.brokers.get(broker)
            if registered is not None and not 0 <= epoch <= registered.epoch:
                raise InvariantBroken(
                    "IS-08",
                    f"{replica.topic}-{replica.partition}: to its leader {turn.process.name}, broker {broker} fetches "
                    f"with the broker epoch {epoch}, and is registered with {registered.epoch}",
                )

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        asked, told = request.body, None if request.answer is None else request.answer.response
        if not isinstance(asked, FetchRequest) or not isinstance(told, FetchResponse) or not is_of_follower(asked):
            return
        broker, epoch = asked.replica_state.replica_id, asked.replica_state.replica_epoch
        if epoch < 0 or node.broker is None or node_of_quorum(node) is None:
            return
        for replica, offset in _served(node.broker.replicas, asked, told):
            place = (
                process.name,
                process.incarnation,
                bytes(replica.topic_id),
                replica.partition,
                replica.leader_epoch,
                broker,
            )
            newest = self._newest[place] = max(epoch, self._newest.get(place, epoch))
            if epoch < newest:
                raise InvariantBroken(
                    "IS-08",
                    f"{replica.topic}-{replica.partition}: its leader {process.name} serves broker {broker} of epoch "
                    f"{epoch}, and has served its epoch {newest} before",
                )
            known = dict(replica.follower_epochs()).get(broker)
            if known is None or (known, replica.follower_ends()[broker]) >= (epoch, offset):
                continue
            raise InvariantBroken(
                "IS-08",
                f"{replica.topic}-{replica.partition}: its leader {process.name} has served broker {broker} of epoch "
                f"{epoch} from {offset}, and knows it by epoch {known} to be at {replica.follower_ends()[broker]}",
            )


def _served(
    replicas: Replicas, asked: FetchRequest, told: FetchResponse
) -> Iterator[tuple[TopicPartitionReplica, int]]:
    """Yield the replicas that a request names and the answer serves, each with the offset from which."""
    named = {place_of(topic, one.partition): one.fetch_offset for topic in asked.topics for one in topic.partitions}
    for topic in told.responses:
        for one in topic.partitions:
            offset = named.get(place_of(topic, one.partition_index))
            if offset is None or one.error_code or one.diverging_epoch.epoch != NO_EPOCH:
                continue
            replica = replica_named(replicas, topic.topic, bytes(topic.topic_id), one.partition_index)
            if replica is not None and replica.is_leader:
                yield replica, offset
