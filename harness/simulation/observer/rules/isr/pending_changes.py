"""IS-04, IS-05: a leader's change of the ISR is under way until the leader knows how it ended.

While a proposal may still be accepted, the high watermark waits for everybody who is in the ISR before or after it. A
leader that forgets its proposal too early counts without a member that the controller then admits, and records that
this member lacks are acknowledged. So a change of the ISR ends only by

* a newer leader epoch or partition epoch, from metadata or from the controller's answer;
* a controller's answer that nothing changes: the ISR is as proposed, or the proposal is refused for good
  (OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA).

Every other error leaves it open whether an earlier attempt was accepted, whose answer was lost. Asserted when a
leader's replica is examined: of a change that is over, or was followed by another one, the epochs have moved, or a
controller has given such an answer. And a leader leaves it to metadata how its change ends only after an answer that is
not final, or that is of another leader epoch: one that says what the ISR is by now it takes.

Legal: a broker that died; a replica that leads no more. Clusters without a quorum are not judged.

And a change gets to the controllers: in every turn after that of the proposal, the broker's sender has it in flight or
among those that it will send.

Source: IS-04, IS-05; rules 20 and 21; `Partition` of Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import TopicPartitionReplica

FINAL: Final = (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
Epochs = tuple[int, int]
"""Leader epoch and partition epoch."""
Place = tuple[int, bytes, int]
"""Broker, topic id and partition."""


class PendingChanges(Rule):
    """See the module."""

    events = ("isr_proposed", "leader", "follower")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._proposed: dict[Place, list[Epochs]] = {}
        """What leaders have proposed since they were examined."""
        self._open: dict[Place, Epochs] = {}
        self._ended: set[tuple[Place, Epochs]] = set()
        """The proposals that a controller has answered for good."""
        self._doubtful: set[tuple[Place, Epochs]] = set()
        """The proposals that a controller has answered otherwise, or for another leader epoch."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        place = fields["broker"], bytes(fields["topic_id"]), fields["partition"]
        if name != "isr_proposed":  # a newer leader epoch
            self._proposed.pop(place, None)
            return
        self._proposed.setdefault(place, []).append((fields["leader_epoch"], fields["partition_epoch"]))

    def died(self, process: SimProcess) -> None:
        for proposed in [one for one in self._proposed if self.cluster.names[one[0]] == process.name]:
            del self._proposed[proposed]
        for place in [one for one in self._open if self.cluster.names[one[0]] == process.name]:
            del self._open[place]

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.ALTER_PARTITION or request.answer is None:
            return
        asked, told = request.body, request.answer.response
        if not isinstance(asked, AlterPartitionRequest) or not isinstance(told, AlterPartitionResponse):
            return
        answers = {
            (bytes(topic.topic_id), one.partition_index): one for topic in told.topics for one in topic.partitions
        }
        for topic in asked.topics:
            for one in topic.partitions:
                place = asked.broker_id, bytes(topic.topic_id), one.partition_index
                change = place, (one.leader_epoch, one.partition_epoch)
                answer = answers.get(place[1:])
                if answer is not None and answer.error_code in FINAL:
                    self._ended.add(change)
                if answer is None or answer.error_code or answer.leader_epoch != one.leader_epoch:
                    self._doubtful.add(change)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        broker = node.broker
        if broker is None:
            return
        for proposer, topic_id, partition in self._open:
            hosted = (
                broker.replicas.by_id(topic_id, partition) if self.cluster.names[proposer] == process.name else None
            )
            if hosted is None or hosted.replica.proposal is None or broker.isr_sender.carries(hosted):
                continue
            raise InvariantBroken(
                "IS-04",
                f"{hosted.topic}-{hosted.partition}: leader {process.name} of epoch {hosted.replica.leader_epoch} has "
                f"proposed the ISR {[one for one, _ in hosted.replica.proposal.isr]}, and neither sends it nor will",
            )

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        replica = turn.replica
        if node_of_quorum(turn.process.node) is None:
            return
        place = replica.broker, bytes(replica.topic_id), replica.partition
        begun = self._open.pop(place, None)
        changes = [] if begun is None else [begun]
        changes += self._proposed.pop(place, ())
        if not replica.is_leader or not changes:
            return
        epochs = replica.leader_epoch, replica.partition_epoch
        for change, following in pairwise(changes):
            if following == change:
                self._check_ended(turn.process.name, replica, place, change)
        if replica.is_changing_isr:
            self._open[place] = changes[-1]
            self._check_left_open(turn.process.name, replica, (place, changes[-1]))
        elif changes[-1] == epochs:
            self._check_ended(turn.process.name, replica, place, epochs)

    def _check_left_open(self, name: str, replica: TopicPartitionReplica, change: tuple[Place, Epochs]) -> None:
        if replica.proposal is not None or change in self._doubtful:
            return
        raise InvariantBroken(
            "IS-04",
            f"{replica.topic}-{replica.partition}: leader {name} of epoch {replica.leader_epoch} leaves it to metadata "
            "how its change of the ISR ends, and no controller has answered so",
        )

    def _check_ended(self, name: str, replica: TopicPartitionReplica, place: Place, change: Epochs) -> None:
        if (place, change) in self._ended:
            self._ended.discard((place, change))
            return
        raise InvariantBroken(
            "IS-04",
            f"{replica.topic}-{replica.partition}: leader {name} has forgotten the ISR that it proposed for leader "
            f"epoch {change[0]} and partition epoch {change[1]}, and no controller has answered it for good",
        )
