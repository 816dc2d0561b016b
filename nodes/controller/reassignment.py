"""Reassignment: topic-partitions move to other replicas (RA-01 to RA-08, rule 29, KIP-455).

    begin     replicas := target ++ removing replicas; the record lists adding and removing replicas (RA-01)
    catch up  the new replicas fetch; their leader proposes them for the ISR, as any follower (RA-02, RA-06)
    complete  with the record that brings the last of the target into the ISR, the removing replicas leave replicas and
              ISR (RA-03). All of the target, never a part: so no record makes the ISR smaller than necessary (RA-05)
    cancel    the adding replicas leave, and the replicas are the original ones; refused if no other replica could lead
              without losing records, or if that shrinks the ISR below min ISR (RA-05, RA-08)

Adding, removing and replacing are one logic (RA-04). Everything is in the log, so another controller continues it. A
record that removes replicas names the leader even if it stays, which raises the leader epoch (rule 23).

Reassigning a topic-partition that is being reassigned changes the target and keeps the original replicas. An adding
replica that is not in the new target stays until the end, as both adding and removing: it may be in the ISR, which must
not shrink before the target is in sync. So cancelling restores the original replicas, however often the target was
changed. (Kafka forgets the original replicas, and keeps the adding ones when it cancels.)

Two mutants, in `completion`. With `reassignment-shrinks-early` the target counts as in sync as soon as it lives. With
`removed-replica-stays-eligible` a move ends when the replicas that it adds are in sync, whatever the ISR is then, and a
removed replica that was in the ISR stays eligible, as in Apache Kafka 4.4.0 (docs/findings.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from squall.nodes.controller.changes import PartitionChanges
from squall.nodes.controller.elections import Active, Decision, Replicas, Rules, decide
from squall.nodes.controller.outcome import Outcome, Refused
from squall.nodes.controller.partition_records import clean, completion, move, without
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration, Topic
from squall.nodes.metadata.records import NO_LEADER, PartitionChangeRecord
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from squall.nodes.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from squall.nodes.protocol.schema import Message


class ReassignmentControl:
    """Decides over reassignments. Works on the image it receives and changes nothing itself."""

    def __init__(self, changes: PartitionChanges, mutants: Mutants = HEALTHY) -> None:
        self._changes = changes
        self._shrinks_early = mutants.has("reassignment-shrinks-early")
        self._keeps_removed = mutants.has("removed-replica-stays-eligible")

    # -- requested --------------------------------------------------------------------------------------------

    def alter(self, image: MetadataImage, request: AlterPartitionReassignmentsRequest) -> Outcome:
        response = AlterPartitionReassignmentsResponse()
        records: list[Message] = []
        judged: dict[tuple[str, int], None] = {}
        for asked in request.topics:
            answered = ReassignableTopicResponse(name=asked.name)
            response.responses.append(answered)
            for one in asked.partitions:
                result = ReassignablePartitionResponse(partition_index=one.partition_index)
                answered.partitions.append(result)
                try:
                    _check_once(judged, (asked.name, one.partition_index))
                    record = self._alter_one(image, asked.name, one, request.allow_replication_factor_change)
                except Refused as refused:
                    result.error_code, result.error_message = refused.error, refused.message
                    continue
                if record is not None:
                    records.append(record)
        return Outcome(response, records)

    def _alter_one(
        self, image: MetadataImage, name: str, asked: ReassignablePartition, other_factor: bool
    ) -> PartitionChangeRecord | None:
        topic = image.topic(name)
        if topic is None or asked.partition_index not in topic.partitions:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {name}-{asked.partition_index}.")
        if asked.replicas is None:
            return self._cancel(image, topic, asked.partition_index)
        target = tuple(asked.replicas)
        _check_target(image, target)
        old = topic.partitions[asked.partition_index]
        if not other_factor and len(target) != len(old.replicas) - len(old.adding):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{name}-{asked.partition_index}: {list(target)} is another replication factor, which the request "
                "does not allow; name as many replicas as there are.",
            )
        return self._begin(image, topic, asked.partition_index, target)

    def _begin(self, image: MetadataImage, topic: Topic, number: int, target: Replicas) -> PartitionChangeRecord | None:
        old = topic.partitions[number]
        removing = tuple(one for one in old.replicas if one not in target)
        beginning = tuple(one for one in old.replicas if one not in old.adding)
        adding = tuple(one for one in target + removing if one not in beginning)
        if (target + removing, adding, removing) == (old.replicas, old.adding, old.removing):
            return None
        begun = replace(old, replicas=target + removing, rare=old.rare._replace(adding=adding, removing=removing))
        decision = Decision(old.leader, old.isr, old.elr, old.last_known_elr)
        completed = self.completion(image, topic, begun, decision)
        if completed is not None:
            return move(topic, number, *completed)
        return move(topic, number, begun, decision)

    def _cancel(self, image: MetadataImage, topic: Topic, number: int) -> PartitionChangeRecord:
        old = topic.partitions[number]
        if not old.adding and not old.removing:
            raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic.name}-{number} is not being reassigned.")
        left, rules = without(old, old.adding), clean(self._changes.rules(image, topic))
        isr = tuple(one for one in old.isr if one in left.replicas)
        decision = decide(left, isr, lambda one: self._changes.is_active(image, one), rules)
        problem = _why_not_back(old, left, decision, rules)
        if problem is not None:
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{topic.name}-{number}: {problem}")
        return move(topic, number, left, decision)

    # -- completed --------------------------------------------------------------------------------------------

    def completion(
        self, image: MetadataImage, topic: Topic, registration: PartitionRegistration, decision: Decision
    ) -> tuple[PartitionRegistration, Decision] | None:
        """The new state of a topic-partition if this decision completes its reassignment, else None."""

        def active(broker: int) -> bool:
            return self._changes.is_active(image, broker)

        if self._shrinks_early and (registration.adding or registration.removing):
            alive = tuple(one for one in registration.replicas if one not in registration.removing and active(one))
            decision = replace(decision, isr=tuple(dict.fromkeys(decision.isr + alive)))
        rules = self._changes.rules(image, topic)
        if self._keeps_removed and registration.adding:
            return _with_removed_eligible(registration, decision, active, rules)
        return completion(registration, decision, active, rules)

    def accepted(
        self, image: MetadataImage, topic: Topic, number: int, decision: Decision
    ) -> PartitionChangeRecord | None:
        """The record of an accepted ISR if it completes a reassignment."""
        completed = self.completion(image, topic, topic.partitions[number], decision)
        return None if completed is None else move(topic, number, *completed)

    # -- listed -----------------------------------------------------------------------------------------------

    def ongoing(self, image: MetadataImage, request: ListPartitionReassignmentsRequest) -> Outcome:
        response = ListPartitionReassignmentsResponse()
        for topic, numbers in _asked(image, request):
            found = [
                OngoingPartitionReassignment(number, list(one.replicas), list(one.adding), list(one.removing))
                for number in numbers
                if (one := topic.partitions.get(number)) is not None and (one.adding or one.removing)
            ]
            if found:
                response.topics.append(OngoingTopicReassignment(topic.name, found))
        return Outcome(response)


def _with_removed_eligible(
    registration: PartitionRegistration, decision: Decision, active: Active, rules: Rules
) -> tuple[PartitionRegistration, Decision] | None:
    """`completion` of the mutant `removed-replica-stays-eligible`."""
    if any(one not in decision.isr for one in registration.adding):
        return None
    moved = without(registration, registration.removing)
    isr = tuple(one for one in decision.isr if one in moved.replicas)
    last = decide(replace(moved, leader=decision.leader), isr, active, clean(rules))
    if len(last.isr) < min(rules.min_isr, len(moved.replicas)):
        had_all = dict.fromkeys((*registration.isr, *registration.elr))
        last = replace(last, elr=tuple(one for one in had_all if one not in last.isr))
    return None if last.leader == NO_LEADER else (moved, last)


def _asked(image: MetadataImage, request: ListPartitionReassignmentsRequest) -> Iterator[tuple[Topic, list[int]]]:
    if request.topics is None:
        yield from ((topic, list(topic.partitions)) for topic in image.topics.values())
        return
    for one in request.topics:
        topic = image.topic(one.name)
        if topic is not None:
            yield topic, one.partition_indexes


def _why_not_back(
    old: PartitionRegistration, left: PartitionRegistration, decision: Decision, rules: Rules
) -> str | None:
    """Why a reassignment may not be cancelled, None if it may."""
    complete = old.isr or old.elr or old.last_known_elr[:1]
    has_some = any(one in left.replicas for one in (*complete, *old.elr))
    if not has_some or (decision.leader == NO_LEADER and old.leader != NO_LEADER):
        return f"none of {list(left.replicas)} could lead without losing records; wait until one is in sync and active."
    if len(decision.isr) < min(len(old.isr), rules.min_isr, len(left.replicas)):
        return (
            f"of {list(left.replicas)} only {list(decision.isr)} are in sync, fewer than min.insync.replicas="
            f"{rules.min_isr}; wait until more are."
        )
    return None


def _check_once(judged: dict[tuple[str, int], None], place: tuple[str, int]) -> None:
    if place in judged:
        raise Refused(ErrorCode.INVALID_REQUEST, "A topic-partition may be named once in a request.")
    judged[place] = None


def _check_target(image: MetadataImage, target: Replicas) -> None:
    problem = None
    if not target:
        problem = "it is empty"
    elif len(frozenset(target)) != len(target):
        problem = "it names a broker twice"
    elif any(one not in image.brokers for one in target):
        problem = "it names a broker that is not registered"
    if problem is not None:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Assignment {[*target]}: {problem}.")
