"""ElectLeaders: elections on request (KIP-460; RA-07).

*Preferred* (type 0): the first replica of the assignment leads again, if it is in sync and active. *Unclean* (type 1):
a topic-partition without a leader gets one even if records may be lost; the operator's request replaces the setting
`unclean.leader.election.enable`. `elections` decides an unclean election as always, so if a replica is known to have
everything by now, it becomes the leader and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from squall.nodes.controller.changes import PartitionChanges
from squall.nodes.controller.elections import Decision, decide
from squall.nodes.controller.outcome import Outcome, Refused
from squall.nodes.controller.partition_records import change
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration, Topic
from squall.nodes.metadata.records import NO_LEADER, PartitionChangeRecord
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from squall.nodes.protocol.schema import Message

PREFERRED, UNCLEAN = 0, 1


class LeaderElectionControl:
    """Decides over requested elections. Works on the image it receives and changes nothing itself."""

    def __init__(self, changes: PartitionChanges) -> None:
        self._changes = changes

    def elect(self, image: MetadataImage, request: ElectLeadersRequest) -> Outcome:
        if request.election_type not in (PREFERRED, UNCLEAN):
            return Outcome(ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
        records: list[Message] = []
        response = ElectLeadersResponse()
        for name, partitions in _asked(image, request):
            answered = ReplicaElectionResult(topic=name)
            for number in partitions:
                result = PartitionResult(partition_id=number)
                try:
                    records.append(self._elect_one(image, name, number, request.election_type))
                except Refused as refused:
                    result.error_code, result.error_message = refused.error, refused.message
                if request.topic_partitions is not None or result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    answered.partition_result.append(result)
            if answered.partition_result:
                response.replica_election_results.append(answered)
        return Outcome(response, records)

    def _elect_one(self, image: MetadataImage, name: str, number: int, kind: int) -> PartitionChangeRecord:
        topic = image.topic(name)
        if topic is None or number not in topic.partitions:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {name}-{number}.")
        registration = topic.partitions[number]
        if kind == PREFERRED:
            decision = self._preferred(image, registration)
        else:
            decision = self._unclean(image, topic, registration)
        rules = self._changes.rules(image, topic)
        record = self._changes.record(topic, number, decision, lambda one: self._changes.is_active(image, one), rules)
        assert record is not None, "another leader is a change"
        return record

    def preferred_if_possible(self, image: MetadataImage, topic: Topic, number: int) -> PartitionChangeRecord | None:
        """The election of the preferred replica, None if it must not lead now."""
        try:
            return change(topic, number, self._preferred(image, topic.partitions[number]))
        except Refused:
            return None

    def _preferred(self, image: MetadataImage, registration: PartitionRegistration) -> Decision:
        preferred = registration.replicas[0]
        if registration.leader == preferred:
            raise Refused(ErrorCode.ELECTION_NOT_NEEDED, "The preferred replica leads.")
        if preferred not in registration.isr or not self._changes.is_active(image, preferred):
            raise Refused(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"The preferred replica, {preferred}, is not in sync."
            )
        return Decision(preferred, registration.isr, registration.elr, registration.last_known_elr)

    def _unclean(self, image: MetadataImage, topic: Topic, registration: PartitionRegistration) -> Decision:
        if registration.leader != NO_LEADER:
            raise Refused(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {registration.leader} leads.")
        rules = replace(self._changes.rules(image, topic), unclean=True)
        decision = decide(registration, registration.isr, lambda one: self._changes.is_active(image, one), rules)
        if decision.leader == NO_LEADER:
            raise Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "None of the replicas is alive.")
        return decision


def _asked(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[tuple[str, list[int]]]:
    if request.topic_partitions is None:
        yield from ((topic.name, list(topic.partitions)) for topic in image.topics.values())
        return
    gathered: dict[str, dict[int, None]] = {}
    for one in request.topic_partitions:
        gathered.setdefault(one.topic, {}).update(dict.fromkeys(one.partitions))
    yield from ((name, list(partitions)) for name, partitions in gathered.items())
