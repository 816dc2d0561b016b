"""AlterPartition: a leader proposes an ISR, the controller decides (IS-04, IS-07, IS-08, rule 22).

Every check compares with what the controller itself has decided; it does not know high watermarks or log ends (EP-07).
The order of the checks is Kafka's, because the error determines what the leader does: give up, wait, or retry.

Mutants, in `IsrControl`: `alter-partition-unfenced` accepts any sender as leader, in any epoch;
`broker-epoch-unchecked` accepts a member that has restarted since its leader saw it in sync.
"""

from __future__ import annotations

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.controller.brokers import BrokerControl
from squall.nodes.controller.changes import PartitionChanges
from squall.nodes.controller.elections import decide
from squall.nodes.controller.outcome import Outcome, Refused
from squall.nodes.controller.partition_records import change, clean
from squall.nodes.controller.reassignment import ReassignmentControl
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration, Topic
from squall.nodes.metadata.records import NO_LEADER_CHANGE, RECOVERED, RECOVERING, PartitionChangeRecord
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataRequest,
    PartitionDataResponse,
    TopicDataResponse,
)
from squall.nodes.protocol.schema import Message


class IsrControl:
    """Judges proposals one by one; accepted ones become change records of one batch."""

    def __init__(
        self,
        brokers: BrokerControl,
        changes: PartitionChanges,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
    ) -> None:
        self._brokers = brokers
        self._changes = changes
        self._reassignments = ReassignmentControl(changes, mutants)
        self._believes_any_epoch = mutants.has("alter-partition-unfenced")
        self._buggify = buggify
        self._ignores_incarnations = mutants.has("broker-epoch-unchecked")

    def alter_partition(self, image: MetadataImage, request: AlterPartitionRequest, version: int) -> Outcome:
        error = self._brokers.epoch_error(image, request.broker_id, request.broker_epoch)
        if error != ErrorCode.NONE:
            return Outcome(AlterPartitionResponse(error_code=error))
        response = AlterPartitionResponse()
        records: list[Message] = []
        judged: dict[tuple[bytes, int], None] = {}
        for asked in request.topics:
            answered = TopicDataResponse(topic_id=asked.topic_id)
            response.topics.append(answered)
            for proposal in asked.partitions:
                try:
                    _check_once(judged, (bytes(asked.topic_id), proposal.partition_index))
                    if self._buggify.happens("isr-change-not-attempted"):
                        raise Refused(ErrorCode.OPERATION_NOT_ATTEMPTED, "not attempted this time")
                    answer, record = self._decide(image, request.broker_id, asked.topic_id, proposal, version)
                except Refused as refused:
                    answer = PartitionDataResponse(partition_index=proposal.partition_index, error_code=refused.error)
                    record = None
                answered.partitions.append(answer)
                if record is not None:
                    records.append(record)
        return Outcome(response, records)

    def _decide(
        self, image: MetadataImage, sender: int, topic_id: bytes, proposal: PartitionDataRequest, version: int
    ) -> tuple[PartitionDataResponse, PartitionChangeRecord | None]:
        topic = image.topics.get(bytes(topic_id))
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        registration = topic.partitions.get(proposal.partition_index)
        if registration is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name} has no such partition")
        members = _members(proposal, version)
        leader = registration.leader
        if self._believes_any_epoch:
            leader = sender
        else:
            _check_epochs(registration, sender, proposal)
        _check_shape(registration, leader, tuple(members), proposal.leader_recovery_state)
        self._check_members(image, members)
        return self._accept(image, topic, proposal, tuple(members))

    def _check_members(self, image: MetadataImage, members: dict[int, int]) -> None:
        """Refuse members that are fenced, stopping or have restarted since (KIP-841, KIP-903)."""
        for member, epoch in members.items():
            broker = image.brokers.get(member)
            if broker is None or not broker.active:
                raise Refused(ErrorCode.INELIGIBLE_REPLICA, f"broker {member} is not active")
            if epoch not in (-1, broker.epoch) and not self._ignores_incarnations:
                raise Refused(ErrorCode.INELIGIBLE_REPLICA, f"broker {member} has epoch {broker.epoch}, not {epoch}")

    def _accept(
        self, image: MetadataImage, topic: Topic, proposal: PartitionDataRequest, isr: tuple[int, ...]
    ) -> tuple[PartitionDataResponse, PartitionChangeRecord | None]:
        number = proposal.partition_index
        old = topic.partitions[number]
        rules = clean(self._changes.rules(image, topic))
        decision = decide(old, isr, lambda replica: PartitionChanges.is_active(image, replica), rules)
        record = self._reassignments.accepted(image, topic, number, decision)
        if record is None:
            record = change(topic, number, decision, recovered=proposal.leader_recovery_state == RECOVERED)
        elif old.recovery_state == RECOVERING and proposal.leader_recovery_state == RECOVERED:
            record.leader_recovery_state = RECOVERED
        answer = PartitionDataResponse(
            partition_index=number,
            leader_id=old.leader,
            leader_epoch=old.leader_epoch,
            isr=list(isr),
            leader_recovery_state=proposal.leader_recovery_state,
            partition_epoch=old.partition_epoch,
        )
        if record is not None:
            answer.partition_epoch += 1
            if record.leader != NO_LEADER_CHANGE:
                answer.error_code = ErrorCode.NEW_LEADER_ELECTED
        return answer, record


def _check_once(judged: dict[tuple[bytes, int], None], place: tuple[bytes, int]) -> None:
    """Refuse a second proposal for one topic-partition.

    All of a request is judged by one image, so the second would be judged by a state that the first has made outdated.
    """
    if place in judged:
        raise Refused(ErrorCode.INVALID_REQUEST, "a topic-partition may be named once in a request")
    judged[place] = None


def _members(proposal: PartitionDataRequest, version: int) -> dict[int, int]:
    """Proposed members and their broker epochs as the leader knows them; -1 where the version has none."""
    if version >= 3:
        return {state.broker_id: state.broker_epoch for state in proposal.new_isr_with_epochs}
    return dict.fromkeys(proposal.new_isr, -1)


def _check_epochs(registration: PartitionRegistration, sender: int, proposal: PartitionDataRequest) -> None:
    """Refuse a proposal for another configuration than the controller's current one (EP-03)."""
    if proposal.leader_epoch > registration.leader_epoch or proposal.partition_epoch > registration.partition_epoch:
        raise Refused(ErrorCode.NOT_CONTROLLER, "the leader knows a newer configuration than this controller")
    if proposal.leader_epoch < registration.leader_epoch:
        raise Refused(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {registration.leader_epoch}")
    if sender != registration.leader:
        raise Refused(ErrorCode.INVALID_REQUEST, f"broker {sender} is not the leader, {registration.leader} is")
    if proposal.partition_epoch < registration.partition_epoch:
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION, f"the partition epoch is {registration.partition_epoch}")


def _check_shape(registration: PartitionRegistration, leader: int, isr: tuple[int, ...], recovery_state: int) -> None:
    if not isr or any(member not in registration.replicas for member in isr):
        raise Refused(ErrorCode.INVALID_REQUEST, f"ISR {isr} is not among the replicas {registration.replicas}")
    if leader not in isr:
        raise Refused(ErrorCode.INVALID_REQUEST, f"ISR {isr} lacks the leader, {leader}")
    if recovery_state not in (RECOVERED, RECOVERING):
        raise Refused(ErrorCode.INVALID_REQUEST, f"leader recovery state {recovery_state} is not known")
    if recovery_state == RECOVERING and len(isr) > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "a recovering leader is alone in its ISR")
    if recovery_state == RECOVERING and registration.recovery_state == RECOVERED:
        raise Refused(ErrorCode.INVALID_REQUEST, "a recovered leader cannot be recovering again")
