"""Build the record that applies a decision to a topic-partition (rules 23, 29).

`change` records an election or an ISR; `move` also records new replicas. `completion` determines whether a decision
ends a reassignment: a leader's proposal or an election that brings the last replica of the target into the ISR ends it
in the same record. All of the target, never a part, so that no record makes an ISR smaller than necessary (RA-05).
"""

from __future__ import annotations

from dataclasses import replace

from squall.nodes.controller.elections import Active, Decision, Replicas, Rules, decide
from squall.nodes.metadata.records import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionChangeRecord,
)
from squall.nodes.metadata.topic import PartitionRegistration, Topic
from squall.nodes.protocol.topic_partition import ZERO_ID


def change(topic: Topic, number: int, decision: Decision, *, recovered: bool = False) -> PartitionChangeRecord | None:
    """The record of a decision; None if the topic-partition already has that state.

    It names a leader only if the leader changes: naming one raises the leader epoch (rule 23).
    """
    old = topic.partitions[number]
    record = PartitionChangeRecord(partition_id=number, topic_id=topic.id)
    if decision.isr != old.isr:
        record.isr = list(decision.isr)
    if decision.elr != old.elr:
        record.eligible_leader_replicas = list(decision.elr)
    if decision.last_known_elr != old.last_known_elr:
        record.last_known_elr = list(decision.last_known_elr)
    if decision.leader != old.leader:
        record.leader = decision.leader
    if decision.unclean and old.recovery_state != RECOVERING:
        record.leader_recovery_state = RECOVERING
    elif recovered and old.recovery_state != RECOVERED:
        record.leader_recovery_state = RECOVERED
    return None if _is_empty(record) else record


def _is_empty(record: PartitionChangeRecord) -> bool:
    lists = (record.isr, record.eligible_leader_replicas, record.last_known_elr)
    return (
        all(one is None for one in lists)
        and record.leader == NO_LEADER_CHANGE
        and record.leader_recovery_state not in (RECOVERED, RECOVERING)
    )


def move(topic: Topic, number: int, wanted: PartitionRegistration, decision: Decision) -> PartitionChangeRecord:
    """The record of a decision and of the replicas, adding and removing, of `wanted`.

    A record that removes replicas names the leader even if it stays, which raises the leader epoch (rule 23).
    """
    old = topic.partitions[number]
    record = change(topic, number, decision) or PartitionChangeRecord(partition_id=number, topic_id=topic.id)
    if wanted.replicas != old.replicas:
        record.replicas = [*wanted.replicas]
        known = dict(zip(old.replicas, old.directories, strict=False))
        record.directories = [known.get(one, ZERO_ID) for one in wanted.replicas]
    if wanted.adding != old.adding:
        record.adding_replicas = [*wanted.adding]
    if wanted.removing != old.removing:
        record.removing_replicas = [*wanted.removing]
    gone = any(one not in wanted.replicas for one in old.replicas)
    if gone and record.leader == NO_LEADER_CHANGE:
        record.leader = decision.leader
    return record


def completion(
    registration: PartitionRegistration, decision: Decision, active: Active, rules: Rules
) -> tuple[PartitionRegistration, Decision] | None:
    """The new state of a topic-partition if this decision completes its reassignment, else None."""
    target = tuple(one for one in registration.replicas if one not in registration.removing)
    if not (registration.adding or registration.removing) or any(one not in decision.isr for one in target):
        return None
    moved = without(registration, registration.removing)
    isr = tuple(one for one in decision.isr if one in target)
    last = decide(replace(moved, leader=decision.leader), isr, active, clean(rules))
    return None if last.leader == NO_LEADER else (moved, replace(last, unclean=decision.unclean))


def clean(rules: Rules) -> Rules:
    """The same rules without elections that may lose records, for decisions that do not request one."""
    return replace(rules, unclean=False, last_known_leader=False)


def without(registration: PartitionRegistration, leaving: Replicas) -> PartitionRegistration:
    """A topic-partition without these replicas and no longer being reassigned."""
    return replace(
        registration,
        replicas=tuple(one for one in registration.replicas if one not in leaving),
        rare=registration.rare._replace(
            last_known_elr=tuple(one for one in registration.last_known_elr if one not in leaving),
            adding=(),
            removing=(),
        ),
    )
