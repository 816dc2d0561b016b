"""TOLD: what the active controller answers to a broker is so.

Brokers act on these answers before they see any record: a leader counts its new ISR, a broker serves or waits, a block
of producer ids is handed out. A controller that refuses what it should accept costs time only, and brokers ask again.
The observer compares each answer with the request and with the image by which the controller decides:

* STALE_BROKER_EPOCH: the request names no registration that holds
* a registration: the epoch is that of the incarnation's registration. INCONSISTENT_CLUSTER_ID: the cluster is another;
  DUPLICATE_BROKER_REGISTRATION: another incarnation is registered
* a heartbeat: the broker has caught up if it has applied its registration. It stays fenced if it asks to, if it has not
  caught up, or if it stops, and else is unfenced
* AlterPartition: each topic-partition is answered once. An accepted ISR is the proposed one, and the topic-partition
  has it if it still is at that partition epoch; that its epochs are the proposed ones is IS-07 of `fenced_requests`. A
  refusal has its reason: an older
  leader epoch or partition epoch (FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION), a newer one than the controller knows
  (NOT_CONTROLLER), a member that is not active or has restarted (INELIGIBLE_REPLICA), a sender that does not lead or an
  ISR that cannot be (INVALID_REQUEST), no such topic-partition, a leader that has changed with it (NEW_LEADER_ELECTED)
* producer ids: the block ends where the next one begins, at the latest

Asserted when an active controller answers. Legal: what was so at the decision, of an answer that waited for records to
be committed, and is not any more, perhaps by another request of the same turn (seed 155 of worlds), or by the same
registration, which the broker has repeated meanwhile and which was accepted (seed 999656); OPERATION_NOT_ATTEMPTED of a
rarity of buggify.

Source: rules 22 and 24, IS-07, EP-03, BL-05; the checks of Kafka's `ReplicationControlManager` and
`ClusterControlManager`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from squall.harness.simulation.observer.rules.brokers.deciding_images import DecidingImages
from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration
from squall.nodes.metadata.records import RECOVERED, RECOVERING
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from squall.nodes.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataRequest,
    PartitionDataResponse,
)
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message

MEMBERS_WITH_EPOCHS_SINCE: Final = 3
"""The version of AlterPartition that names the broker epochs of members."""
ANY_EPOCH: Final = -1


class ToldBrokers(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._images = DecidingImages()

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        self._images.turned(process, node)

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        answer, decider = request.answer, node_of_quorum(node)
        if answer is None or answer.response is None or decider is None or decider.controller is None:
            return
        image = decider.controller.image
        if image is None or request.listener not in {one.listener for one in node.config.control_listeners}:
            return
        waited = request.received_at < process.now or not self._images.is_as_before(process, image)
        why = _untrue(image, request, answer.response, node.config.cluster_id, waited=waited)
        if why:
            raise InvariantBroken("TOLD", f"{process.name} answers {request.client_id}: {why}")


def _untrue(image: MetadataImage, request: ServerRequest, told: Message, cluster: str, *, waited: bool) -> str:
    """Return what an answer says that is not so; empty if there is nothing."""
    asked = request.body
    if isinstance(asked, BrokerRegistrationRequest) and isinstance(told, BrokerRegistrationResponse):
        return _of_registration(image, asked, told, cluster, waited=waited)
    if isinstance(asked, BrokerHeartbeatRequest) and isinstance(told, BrokerHeartbeatResponse):
        return _of_epoch(image, asked, told.error_code) or _of_heartbeat(image, asked, told)
    if isinstance(asked, AllocateProducerIdsRequest) and isinstance(told, AllocateProducerIdsResponse):
        return _of_epoch(image, asked, told.error_code) or _of_producer_ids(image, told)
    if isinstance(asked, AlterPartitionRequest) and isinstance(told, AlterPartitionResponse):
        return _of_epoch(image, asked, told.error_code) or next(
            _of_partitions(image, asked, told, request.api_version, waited=waited), ""
        )
    return ""


def _of_epoch(
    image: MetadataImage,
    asked: BrokerHeartbeatRequest | AllocateProducerIdsRequest | AlterPartitionRequest,
    error: int,
) -> str:
    if error == ErrorCode.NONE:
        return ""
    named = f"{ErrorCode(error).name} to broker {asked.broker_id} of epoch {asked.broker_epoch}"
    if error != ErrorCode.STALE_BROKER_EPOCH:
        return f"{named}, which an active controller has no reason for"
    registered = image.brokers.get(asked.broker_id)
    holds = registered is not None and registered.epoch == asked.broker_epoch
    return f"{named}, which is registered with it" if holds else ""


def _of_registration(
    image: MetadataImage,
    asked: BrokerRegistrationRequest,
    told: BrokerRegistrationResponse,
    cluster: str,
    *,
    waited: bool,
) -> str:
    registered = image.brokers.get(asked.broker_id)
    holds = registered is not None and registered.incarnation_id == asked.incarnation_id
    named = f"broker {asked.broker_id} registers, and is told {ErrorCode(told.error_code).name}"
    if told.error_code == ErrorCode.NONE:
        wrong = holds and registered is not None and registered.epoch != told.broker_epoch
        return f"{named} and epoch {told.broker_epoch}, it is another" if wrong else ""
    if told.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
        return f"{named}, it names the cluster {cluster}" if asked.cluster_id == cluster else ""
    if told.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
        alone = not waited and (registered is None or holds)
        return f"{named}, no other incarnation is registered" if alone else ""
    refused = told.error_code != ErrorCode.INVALID_REGISTRATION or bool(asked.listeners)
    return f"{named}, for no reason that is known" if refused else ""


def _of_heartbeat(image: MetadataImage, asked: BrokerHeartbeatRequest, told: BrokerHeartbeatResponse) -> str:
    registered = image.brokers.get(asked.broker_id)
    if told.error_code or registered is None or registered.epoch != asked.broker_epoch:
        return ""
    named = f"to a heartbeat of broker {asked.broker_id}, which has applied {asked.current_metadata_offset}"
    caught_up = asked.current_metadata_offset >= registered.epoch
    if told.is_caught_up != caught_up:
        return f"{named}, that it has caught up: {told.is_caught_up}; its epoch is {registered.epoch}"
    if asked.want_shut_down:
        named += " and wants to stop"
        as_due = told.is_fenced == told.should_shut_down
    else:
        as_due = not told.should_shut_down and (told.is_fenced or not asked.want_fence)
    if not as_due:
        return f"{named}, that it may stop: {told.should_shut_down}, and is fenced: {told.is_fenced}"
    if asked.want_shut_down:
        return ""
    reason = asked.want_fence or not caught_up or registered.in_controlled_shutdown
    return f"{named}, that it is fenced, which it has no reason to be" if told.is_fenced and not reason else ""


def _of_producer_ids(image: MetadataImage, told: AllocateProducerIdsResponse) -> str:
    end = told.producer_id_start + told.producer_id_len
    if told.error_code or (told.producer_id_len > 0 and end <= image.next_producer_id):
        return ""
    return f"the block of producer ids from {told.producer_id_start} to {end}; the next one is {image.next_producer_id}"


# -- AlterPartition -------------------------------------------------------------------------------------------------


def _of_partitions(
    image: MetadataImage, asked: AlterPartitionRequest, told: AlterPartitionResponse, version: int, *, waited: bool
) -> Iterator[str]:
    if told.error_code:
        return
    proposed = [(bytes(topic.topic_id), one) for topic in asked.topics for one in topic.partitions]
    answered = [(bytes(topic.topic_id), one) for topic in told.topics for one in topic.partitions]
    places = Counter((topic_id, one.partition_index) for topic_id, one in proposed)
    if places != Counter((topic_id, one.partition_index) for topic_id, one in answered):
        yield f"{len(proposed)} proposals of ISRs with {len(answered)} results, or with those of others"
    by_place = {(topic_id, one.partition_index): one for topic_id, one in proposed}
    for topic_id, result in answered:
        place = (topic_id, result.partition_index)
        if places[place] != 1:
            continue
        topic = image.topics.get(topic_id)
        registration = None if topic is None else topic.partitions.get(result.partition_index)
        members = _members(by_place[place], version)
        if result.error_code == ErrorCode.NONE:
            why = _of_accepted(registration, by_place[place], list(members), result)
        else:
            why = _of_refused(image, registration, asked.broker_id, by_place[place], members, result, waited=waited)
        if why:
            name = topic_id.hex() if topic is None else topic.name
            yield f"{ErrorCode(result.error_code).name} to the ISR {list(members)} of {name}-{place[1]}; {why}"


def _members(proposal: PartitionDataRequest, version: int) -> dict[int, int]:
    """Return the proposed members and the broker epochs that the leader has seen; -1 where none is named."""
    if version >= MEMBERS_WITH_EPOCHS_SINCE:
        return {one.broker_id: one.broker_epoch for one in proposal.new_isr_with_epochs}
    return dict.fromkeys(proposal.new_isr, ANY_EPOCH)


def _of_accepted(
    registration: PartitionRegistration | None,
    proposal: PartitionDataRequest,
    members: list[int],
    told: PartitionDataResponse,
) -> str:
    says = (sorted(told.isr), told.leader_recovery_state)
    if says != (sorted(members), proposal.leader_recovery_state):
        return f"it answers with ISR {list(told.isr)} and leader recovery state {told.leader_recovery_state}"
    if registration is None or registration.partition_epoch > told.partition_epoch:
        return ""
    has = (registration.partition_epoch, registration.leader, registration.leader_epoch, sorted(registration.isr))
    if has == (told.partition_epoch, told.leader_id, told.leader_epoch, sorted(told.isr)):
        return ""
    return f"it has leader {has[1]} of epoch {has[2]}, ISR {has[3]} and partition epoch {has[0]}"


def _of_refused(
    image: MetadataImage,
    registration: PartitionRegistration | None,
    sender: int,
    proposal: PartitionDataRequest,
    members: dict[int, int],
    told: PartitionDataResponse,
    *,
    waited: bool,
) -> str:
    error = ErrorCode(told.error_code)
    if error == ErrorCode.OPERATION_NOT_ATTEMPTED:
        return ""
    if registration is None:
        return "" if error in _MISSING or waited else "there is no such topic-partition"
    if error in _MISSING:
        return "it exists"
    has = f"it has leader {registration.leader}, leader epoch {registration.leader_epoch}, partition epoch "
    has += f"{registration.partition_epoch}, replicas {list(registration.replicas)} and ISR {list(registration.isr)}"
    if error == ErrorCode.FENCED_LEADER_EPOCH or error == ErrorCode.NEW_LEADER_ELECTED:
        due = proposal.leader_epoch < registration.leader_epoch
    elif error == ErrorCode.INVALID_UPDATE_VERSION:
        due = proposal.partition_epoch < registration.partition_epoch
    elif error == ErrorCode.INELIGIBLE_REPLICA:
        due = waited or any(not _is_eligible(image, one, epoch) for one, epoch in members.items())
    elif error == ErrorCode.INVALID_REQUEST:
        due = waited or _cannot_be(registration, sender, members, proposal.leader_recovery_state)
    elif error == ErrorCode.NOT_CONTROLLER:
        newer = proposal.partition_epoch > registration.partition_epoch
        due = waited or newer or proposal.leader_epoch > registration.leader_epoch
    else:
        due = False
    return "" if due else has


_MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _is_eligible(image: MetadataImage, member: int, epoch: int) -> bool:
    broker = image.brokers.get(member)
    return broker is not None and broker.active and epoch in (ANY_EPOCH, broker.epoch)


def _cannot_be(registration: PartitionRegistration, sender: int, members: dict[int, int], recovery_state: int) -> bool:
    """Return whether no leader may propose this ISR, or not this one."""
    if sender != registration.leader or sender not in members or not set(members) <= set(registration.replicas):
        return True
    if recovery_state != RECOVERING:
        return recovery_state != RECOVERED
    return len(members) > 1 or registration.recovery_state == RECOVERED
