"""Broker registration, heartbeats, fencing and producer ids at the controller (BL-05, FD-01, FD-02, rule 24).

A broker's epoch is the offset of its registration record, so it is unique forever, and every later message of an
earlier incarnation is recognized. States on this side are fenced, unfenced and in controlled shutdown; `shutdown`
decides when a stopping broker may stop.

A new incarnation proves by the previous one's broker epoch that the previous one stopped cleanly: a clean stop leaves
that epoch on the disk (FD-03). Without this proof, the broker's logs may end earlier than what it acknowledged, and the
broker leaves every ISR and ELR in the same batch that registers it (EL-05, rule 28). Kafka receives that epoch and
ignores it (disagreement X33). Without eligible leader replicas the epoch is not checked, as in Kafka before KIP-966.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from squall.nodes.controller.changes import PartitionChanges
from squall.nodes.controller.config import ControllerConfig
from squall.nodes.controller.liveness import Sessions
from squall.nodes.controller.outcome import Outcome, Record
from squall.nodes.controller.shutdown import ShutdownOffsets, leads_anything
from squall.nodes.metadata.image import BrokerRegistration, MetadataImage
from squall.nodes.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from squall.nodes.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


class BrokerControl:
    """Decides over brokers. Works on the image it receives and changes nothing but sessions itself."""

    def __init__(self, config: ControllerConfig, changes: PartitionChanges, mutants: Mutants = HEALTHY) -> None:
        self._config = config
        self._changes = changes
        self._trusts_unclean_restarts = mutants.has("unclean-restart-stays-eligible")
        self._lets_go_at_once = mutants.has("shutdown-granted-early")
        self.sessions = Sessions(config.session_timeout)
        self._offsets = ShutdownOffsets()
        self.timed_out = 0
        """Sessions that timed out while this controller was the active one; a counter for metrics."""

    def restart(self, now: int, image: MetadataImage) -> None:
        """Start all sessions again: this controller has become the active one (FD-04)."""
        self.sessions.restart(now, [broker.id for broker in image.brokers.values() if not broker.fenced])
        self._offsets.restart()

    @property
    def reported_offsets(self) -> Mapping[int, int]:
        """By broker, the last offset of the metadata log that it has applied, as reported in its heartbeats."""
        return self._offsets.reported

    def epoch_error(self, image: MetadataImage, broker: int, epoch: int) -> ErrorCode:
        """STALE_BROKER_EPOCH unless the message is of the broker's current incarnation."""
        found = image.brokers.get(broker)
        return ErrorCode.NONE if found is not None and found.epoch == epoch else ErrorCode.STALE_BROKER_EPOCH

    # -- registration -----------------------------------------------------------------------------------------

    def register(self, now: int, image: MetadataImage, request: BrokerRegistrationRequest, next_offset: int) -> Outcome:
        """Begin an incarnation, fenced. A retry of the same incarnation keeps its epoch and its fencing."""
        if request.cluster_id != self._config.cluster_id:
            return Outcome(BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        if not request.listeners:
            return Outcome(BrokerRegistrationResponse(error_code=ErrorCode.INVALID_REGISTRATION))
        known = image.brokers.get(request.broker_id)
        if known is not None and known.incarnation_id == request.incarnation_id:
            self.sessions.heard(now, known.id)
            return Outcome(BrokerRegistrationResponse(broker_epoch=known.epoch))
        if known is not None and self.sessions.is_live(now, known.id):
            return Outcome(BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION))
        records = [] if known is None else self._end_incarnation(image, known, request.previous_broker_epoch)
        epoch = next_offset + len(records)
        records.append(_registration_record(request, epoch))
        self._offsets.end(request.broker_id)
        self.sessions.heard(now, request.broker_id)
        return Outcome(BrokerRegistrationResponse(broker_epoch=epoch), records)

    def _end_incarnation(self, image: MetadataImage, known: BrokerRegistration, previous_epoch: int) -> list[Record]:
        """Records that end the previous incarnation, now that the new one reports how it stopped."""
        if self._may_have_lost_records(image, known, previous_epoch):
            records: list[Record] = list(self._changes.broker_leaves(image, known.id, lost=True))
            if not known.fenced:
                records.append(FenceBrokerRecord(id=known.id, epoch=known.epoch))
            return records
        return [] if known.fenced else list(self.fence_records(image, known))

    def _may_have_lost_records(self, image: MetadataImage, known: BrokerRegistration, previous_epoch: int) -> bool:
        """Mutant `unclean-restart-stays-eligible`: every returning broker is taken to have all its records."""
        if self._trusts_unclean_restarts:
            return False
        return image.keeps_eligible_leaders and previous_epoch != known.epoch

    # -- heartbeats -------------------------------------------------------------------------------------------

    def heartbeat(self, now: int, image: MetadataImage, request: BrokerHeartbeatRequest) -> Outcome:
        """Renew the session, and fence or unfence as the broker requests and may.

        An incarnation that may stop stays fenced. Kafka unfences it if an earlier heartbeat of it is served late, and
        lets it lead until its session is over (seed 976324 of worlds).
        """
        error = self.epoch_error(image, request.broker_id, request.broker_epoch)
        if error != ErrorCode.NONE:
            return Outcome(BrokerHeartbeatResponse(error_code=error))
        broker = image.brokers[request.broker_id]
        caught_up = request.current_metadata_offset >= broker.epoch
        if request.want_shut_down:
            return self._wants_to_stop(now, image, broker, request)
        self.sessions.heard(now, broker.id)
        self._offsets.heard(broker.id, request.current_metadata_offset)
        fenced = request.want_fence or (broker.fenced and (broker.in_controlled_shutdown or not caught_up))
        records: Iterable[Record] = ()
        if fenced and not broker.fenced:
            records = self.fence_records(image, broker)
        elif broker.fenced and not fenced:
            records = self._unfence_records(image, broker)
        return Outcome(BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=fenced), records)

    def _wants_to_stop(
        self, now: int, image: MetadataImage, broker: BrokerRegistration, request: BrokerHeartbeatRequest
    ) -> Outcome:
        """The next step of a controlled shutdown (see `shutdown`)."""
        caught_up = request.current_metadata_offset >= broker.epoch
        if self._may_stop(image, broker):
            self.sessions.end(broker.id)
            self._offsets.end(broker.id)
            response = BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=True, should_shut_down=True)
            return Outcome(response, self._parting_records(image, broker))
        self.sessions.heard(now, broker.id)
        self._offsets.heard(broker.id, request.current_metadata_offset)
        waiting = BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=False)
        return Outcome(waiting, self._stopping_records(image, broker))

    def _may_stop(self, image: MetadataImage, broker: BrokerRegistration) -> bool:
        if broker.fenced or self._lets_go_at_once:
            return True
        if broker.in_controlled_shutdown:
            return self._offsets.may_go(image, broker.id)
        return not leads_anything(image, broker.id)

    def _stopping_records(self, image: MetadataImage, broker: BrokerRegistration) -> Iterator[Record]:
        """Mark the broker first, so that no ISR accepts it again, then take it out of leaderships and ISRs (CS-02).

        A marked broker that still leads was left half-way by a controller that lost its leadership, several batches
        into this: the rest is moved now.
        """
        if not broker.in_controlled_shutdown:
            yield _mark(broker)
        elif not self._offsets.leads(image, broker.id):
            return
        yield from self._changes.broker_leaves(image, broker.id)

    def _parting_records(self, image: MetadataImage, broker: BrokerRegistration) -> Iterator[Record]:
        """Mark a broker that may stop, so that it stays fenced whatever else of it is served late, and fence it."""
        if not broker.in_controlled_shutdown:
            yield _mark(broker)
        if not broker.fenced:
            yield from self.fence_records(image, broker)

    def fence_silent(self, now: int, image: MetadataImage) -> Iterable[Record]:
        """Records that fence the broker that has been silent for longest, if its session is over."""
        broker_id = self.sessions.first_silent(now)
        if broker_id is None:
            return ()
        self.sessions.end(broker_id)
        self._offsets.end(broker_id)
        self.timed_out += 1
        broker = image.brokers.get(broker_id)
        return () if broker is None or broker.fenced else self.fence_records(image, broker)

    def fence_records(self, image: MetadataImage, broker: BrokerRegistration) -> Iterator[Record]:
        """Leave ISRs and leaderships first, fence last (rule 25); drawn while they are written (see `Outcome`)."""
        yield from self._changes.broker_leaves(image, broker.id)
        yield FenceBrokerRecord(id=broker.id, epoch=broker.epoch)

    def _unfence_records(self, image: MetadataImage, broker: BrokerRegistration) -> Iterator[Record]:
        yield UnfenceBrokerRecord(id=broker.id, epoch=broker.epoch)
        yield from self._changes.broker_joins(image, broker.id)

    def unregister(self, image: MetadataImage, request: UnregisterBrokerRequest) -> Outcome:
        """Remove a broker that an operator declares permanently lost (KIP-631, RA-07).

        It stays in the replicas of its topic-partitions until these are reassigned, but may have lost records: should
        it return, it is no longer possible to determine how its last incarnation ended. So it leaves every ISR and
        every ELR.
        """
        broker = image.brokers.get(request.broker_id)
        if broker is None:
            message = f"Broker {request.broker_id} is not registered."
            return Outcome(UnregisterBrokerResponse(0, int(ErrorCode.BROKER_ID_NOT_REGISTERED), message))
        self.sessions.end(broker.id)
        self._offsets.end(broker.id)
        return Outcome(UnregisterBrokerResponse(), self._unregistering_records(image, broker))

    def _unregistering_records(self, image: MetadataImage, broker: BrokerRegistration) -> Iterator[Record]:
        yield from self._changes.broker_leaves(image, broker.id, lost=True)
        yield UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)

    # -- producer ids -----------------------------------------------------------------------------------------

    def allocate_producer_ids(self, image: MetadataImage, request: AllocateProducerIdsRequest) -> Outcome:
        """Allocate a block of globally unique ids (rule 8): committed before the response."""
        error = self.epoch_error(image, request.broker_id, request.broker_epoch)
        if error != ErrorCode.NONE:
            return Outcome(AllocateProducerIdsResponse(error_code=error))
        first, size = image.next_producer_id, self._config.producer_id_block
        record = ProducerIdsRecord(
            broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + size
        )
        return Outcome(AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=size), [record])


def _registration_record(request: BrokerRegistrationRequest, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=bytes(request.incarnation_id),
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
            for one in request.listeners
        ],
        features=[
            BrokerFeature(
                name=one.name,
                min_supported_version=one.min_supported_version,
                max_supported_version=one.max_supported_version,
            )
            for one in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=[bytes(directory) for directory in request.log_dirs],
    )


def _mark(broker: BrokerRegistration) -> BrokerRegistrationChangeRecord:
    """The record that a broker is stopping."""
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1)
