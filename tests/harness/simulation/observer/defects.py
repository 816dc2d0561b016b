"""Defects of the nodes that are not among the documented mutants, each put into the nodes' code for one run.

Each is what a careless engineer could have written, and breaks one rule of the observer: `proofs.py` says which, in
which scenario and with which seed. The docstring of a defect is its line in docs/simulation.md.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from squall.nodes.broker.broker import Broker
from squall.nodes.broker.hosting.hosted_partition import Deadlines, HostedPartition, Parked
from squall.nodes.broker.hosting.log_manager import LogManager
from squall.nodes.broker.hosting.read_replicas import LEADER, RackAwareReplicaSelector
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.broker.lifecycle import IMPATIENT_INTERVAL, Lifecycle
from squall.nodes.broker.observer import MetadataObserver
from squall.nodes.broker.requests import fetch
from squall.nodes.broker.requests.fetch import Fetch
from squall.nodes.broker.requests.fetch_sessions import FetchSessions
from squall.nodes.controller import elections
from squall.nodes.controller.balancing import LeaderBalancer
from squall.nodes.controller.brokers import BrokerControl
from squall.nodes.controller.changes import ElectionKind, PartitionChanges
from squall.nodes.controller.controller import QuorumController
from squall.nodes.controller.isr import IsrControl
from squall.nodes.controller.liveness import Sessions
from squall.nodes.controller.outcome import Outcome
from squall.nodes.controller.reassignment import ReassignmentControl
from squall.nodes.metadata.image import BrokerRegistration, MetadataImage
from squall.nodes.metadata.records import PartitionChangeRecord
from squall.nodes.metadata.snapshot_generator import SnapshotGenerator
from squall.nodes.metadata.topic import PartitionRegistration
from squall.nodes.node import identity
from squall.nodes.node.channels import Connection, Connections, Inbound, RequestChannel
from squall.nodes.node.links import Links
from squall.nodes.node.metrics import broker_metrics, metric_names, zookeeper_metrics
from squall.nodes.node.metrics.samples import Collected, Sample
from squall.nodes.node.node import Node
from squall.nodes.node.quorum_watch import STANDING, QuorumWatch
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataResponse,
)
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.fetch import PartitionData
from squall.nodes.protocol.records import BatchHeader, Record, build_batch, patch
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import TopicPartition
from squall.nodes.raft import messages
from squall.nodes.raft.core import Core
from squall.nodes.raft.elections import Elections
from squall.nodes.raft.messages import Answered, Hint
from squall.nodes.raft.metadata_log import CommittedBatch, MetadataLog
from squall.nodes.raft.replica import RaftReplica
from squall.nodes.raft.replication import Fetcher, FetchService
from squall.nodes.raft.roles import Follower, Leader, Peer, Unattached
from squall.nodes.raft.snapshot_fetch import SnapshotDownload
from squall.nodes.raft.snapshots import SnapshotReceiver
from squall.nodes.raft.transitions import Quorum
from squall.nodes.raft.voter_changes import VoterChanges
from squall.nodes.raft.voters import VoterSet
from squall.nodes.replication import replica as replica_module
from squall.nodes.replication.fetch_session import FetchSession
from squall.nodes.replication.fetcher import NEVER, ReplicaFetcher
from squall.nodes.replication.log_start import DeletionAnswer, LogStart
from squall.nodes.replication.ports import AppendAnswer, Applied, EpochEndAnswer, OffsetAnswer, PartitionState
from squall.nodes.replication.remote import RemoteReplica
from squall.nodes.replication.replica import ACKS_ALL, TopicPartitionReplica
from squall.nodes.replication.serving import LATEST_TIMESTAMP, ServingReplica
from squall.nodes.storage import retention
from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.epochs import LeaderEpochCache
from squall.nodes.storage.log import Log
from squall.nodes.storage.producers import ProducerStates
from squall.nodes.storage.segment import Segment, index_name
from squall.nodes.storage.time_index import NO_TIMESTAMP
from squall.nodes.zookeeper.controller.context import ControllerContext


def names_another_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower's responses name another voter as the leader of the epoch, now and then."""
    hint = Core.hint
    count = [0]

    def wrong(self: Core) -> Hint:
        right = hint(self)
        count[0] += 1
        if count[0] % 50 or right.leader_id is None:
            return right
        other = next(voter for voter in self.voters.latest.ids if voter != right.leader_id)
        return Hint(right.epoch, other)

    monkeypatch.setattr(Core, "hint", wrong)


def votes_for_every_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter that has voted in an epoch votes for the next candidate, too."""

    def grants(self: Elections, vote_request: Any) -> bool:
        role, candidate = self._quorum.role, vote_request.candidate
        if not isinstance(role, Unattached) or role.leader_id is not None or not self._covers(vote_request):
            return False
        if role.voted is not None and not role.voted.is_same_as(candidate):
            quorum = self._quorum
            quorum._enter(Unattached(quorum.epoch, candidate, role.election_at))
            quorum._trace.event("vote", node=quorum.local.id, epoch=quorum.epoch, candidate=candidate.id)
        return True

    monkeypatch.setattr(Elections, "_grants", grants)


def gives_up_after_one_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stands for election gives up after one refusal, however many votes it might still get."""
    monkeypatch.setattr(Elections, "_is_lost", lambda self, role: role.rejected() > 0)


def leaves_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of the quorum that stops resigns, and sends no EndQuorumEpoch."""

    def close(self: RaftReplica, now: int) -> None:
        if not self._closed:
            self._closed = True
            if self.is_leader:
                self.resign(now)
            self._core.log.flush()
            self._core.log.close()

    monkeypatch.setattr(RaftReplica, "close", close)


def stops_without_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has asked to stop takes any answer for the news that it is not registered any more."""
    hear = Lifecycle._hear_of_shutdown

    def hears(self: Lifecycle, response: BrokerHeartbeatResponse) -> bool:
        if not hear(self, response):
            self._shut_down("its registration is gone")
        return self.may_close

    monkeypatch.setattr(Lifecycle, "_hear_of_shutdown", hears)


def begins_a_reassignment_and_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reassignment that has all it needs when it is asked for is begun, and not completed at once."""
    begin = ReassignmentControl._begin

    def begins(self: ReassignmentControl, *arguments: Any) -> PartitionChangeRecord | None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(self, "completion", lambda *_: None)
            return begin(self, *arguments)

    monkeypatch.setattr(ReassignmentControl, "_begin", begins)


def asks_to_be_unfenced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker asks to be unfenced as soon as it is told its epoch, though it has not read its registration."""
    monkeypatch.setattr(Lifecycle, "is_ready", property(lambda self: self.epoch >= 0))


def waits_for_connections_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node never gives up a connection that is neither accepted nor refused."""
    connect = Links._connect

    def connects(self: Links, now: int, link: Any) -> None:
        connect(self, now, link)
        link.connect_deadline = NEVER

    monkeypatch.setattr(Links, "_connect", connects)


def votes_for_what_it_knows_to_be_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter votes for a candidate whose log ends above its own high watermark, whatever its own log has beyond."""

    def covers(self: Elections, vote_request: Any) -> bool:
        return bool(vote_request.end_offset >= self._core.high_watermark)

    monkeypatch.setattr(Elections, "_covers", covers)


def keeps_metadata_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node keeps old snapshots and the metadata log after them until they are too old, whatever their size."""

    def is_too_old(self: MetadataLog, now_ms: int) -> bool:
        return 0 <= self._config.retention_ms < now_ms - self.snapshots.timestamp_of(self.snapshots.ids[0])

    monkeypatch.setattr(MetadataLog, "_is_too_much", is_too_old)


def counts_bytes_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node counts the bytes that require a snapshot from its start, and not from its last snapshot."""
    right = SnapshotGenerator._begin

    def wrong(self: SnapshotGenerator, now: int) -> None:
        right(self, now)
        self._bytes_then = 0

    monkeypatch.setattr(SnapshotGenerator, "_begin", wrong)


def announces_itself_in_an_earlier_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of the quorum announces itself in the epoch before its own."""
    begin = messages.begin_quorum_epoch

    def earlier(config: Any, epoch: int, *arguments: Any, **named: Any) -> Any:
        return begin(config, epoch - 1, *arguments, **named)

    monkeypatch.setattr(messages, "begin_quorum_epoch", earlier)


def states_too_high_a_log_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of the quorum states a log start that is too high by one."""
    right = messages.fetch_response

    def wrong(config: Any, error: int, hint: Any, *, log_start: int = -1, **others: Any) -> Any:
        return right(config, error, hint, log_start=log_start + 1, **others)

    monkeypatch.setattr(messages, "fetch_response", wrong)


def counts_a_voter_that_has_to_truncate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of the quorum tells a voter to truncate, and still counts all of that voter's log."""
    serve = FetchService._serve

    def counts(self: FetchService, now: int, request: Any, fetch_request: Any) -> None:
        serve(self, now, request, fetch_request)
        role, log = self._core.quorum.role, self._core.log
        known = role.others.get(fetch_request.replica_id) if isinstance(role, Leader) else None
        diverges = log.divergence(fetch_request.offset, fetch_request.last_fetched_epoch) is not None
        if known is not None and diverges:
            known.end_offset = fetch_request.offset

    monkeypatch.setattr(FetchService, "_serve", counts)


def cuts_committed_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica of the quorum truncates its last batch now and then, committed or not, and fetches it again."""
    take = Fetcher._take_records
    count = [0]

    def cuts(self: Fetcher, now: int, role: Any, fetch_response: Any) -> None:
        take(self, now, role, fetch_response)
        log = self._core.log
        if self._core.high_watermark == log.end_offset > log.start_offset + 5:
            count[0] += 1
            if count[0] % 40 == 0:
                log.truncate_diverged(log.last_epoch, log.end_offset - 1, high_watermark=0)

    monkeypatch.setattr(Fetcher, "_take_records", cuts)


def applies_idle_records_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker applies records that are not committed, of those that change nothing."""

    def behind(self: MetadataObserver) -> bool:
        return self._log.end_offset > self.next_offset

    def committed(self: RaftReplica, from_offset: int) -> Any:
        def changes_nothing(batch: CommittedBatch) -> bool:
            return all(len(value) <= 4 for value in batch.values)

        for batch in self._core.log.batches(from_offset, self.end_offset):
            if batch.next_offset > self.high_watermark and (self.config.votes or not changes_nothing(batch)):
                return
            yield batch

    monkeypatch.setattr(MetadataObserver, "behind", property(behind))
    monkeypatch.setattr(RaftReplica, "committed", committed)


def a_cache_loses_its_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncation takes one epoch too many out of the leader epoch cache."""
    truncate = LeaderEpochCache.truncate_from_end

    def one_too_many(self: LeaderEpochCache, end_offset: int) -> None:
        truncate(self, end_offset)
        if len(self.entries) > 1:
            truncate(self, self.entries[-1][1])

    monkeypatch.setattr(LeaderEpochCache, "truncate_from_end", one_too_many)


def lists_the_log_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest offset that ListOffsets reports is the log end."""

    listed = TopicPartitionReplica.list_offset

    def list_offset(self: TopicPartitionReplica, timestamp: int, epoch: int, replica_id: int = -1) -> OffsetAnswer:
        if timestamp != LATEST_TIMESTAMP:
            return listed(self, timestamp, epoch, replica_id)
        return OffsetAnswer(0, -1, self.end_offset, self.leader_epoch)

    monkeypatch.setattr(TopicPartitionReplica, "list_offset", list_offset)


def recovery_keeps_what_is_known_to_be_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery cuts a topic's log at its recovery point, also where only the process has died."""
    recover = Log._recover

    def cuts(self: Log, recovery_point: int) -> None:
        recover(self, recovery_point)
        if "__cluster_metadata" not in self.directory and recovery_point < self.end_offset:
            self.truncate_to(max(recovery_point, self.start_offset))

    monkeypatch.setattr(Log, "_recover", cuts)


def notes_log_ends_as_recovery_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker notes the end of each log as its recovery point, whether or not that is durable."""

    def notes(self: LogManager) -> None:
        self._recovery_points.replace({name: log.end_offset for name, log in self._logs.items()})

    monkeypatch.setattr(LogManager, "_checkpoint_recovery_points", notes)


def hears_every_incarnation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller takes the heartbeat of any incarnation of a broker for that of the registered one."""
    heartbeat = BrokerControl.heartbeat

    def hears(self: BrokerControl, now: int, image: MetadataImage, request: BrokerHeartbeatRequest) -> Any:
        broker = image.brokers.get(request.broker_id)
        if broker is not None:
            request = replace(request, broker_epoch=broker.epoch)
        return heartbeat(self, now, image, request)

    monkeypatch.setattr(BrokerControl, "heartbeat", hears)


def refuses_some_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller refuses a proposed ISR now and then, as if a member were not active; its leader proposes again."""
    alter, calls = IsrControl.alter_partition, iter(range(1_000_000))

    def altered(self: IsrControl, image: MetadataImage, request: AlterPartitionRequest, version: int) -> Outcome:
        outcome = alter(self, image, request, version)
        response = cast(AlterPartitionResponse, outcome.response)
        if next(calls) % 3 or response.error_code:
            return outcome
        for topic in response.topics:
            topic.partitions = [
                PartitionDataResponse(one.partition_index, ErrorCode.INELIGIBLE_REPLICA) for one in topic.partitions
            ]
        return Outcome(response)

    monkeypatch.setattr(IsrControl, "alter_partition", altered)


def takes_an_outdated_proposal_for_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader takes INVALID_UPDATE_VERSION to say that its change of the ISR was not accepted."""
    monkeypatch.setattr(replica_module, "_REVERT", (*replica_module._REVERT, ErrorCode.INVALID_UPDATE_VERSION))


def appends_below_min_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader looks at min ISR only when it answers a Produce with acks=all, not before it appends."""
    append = TopicPartitionReplica.append

    def appends(
        self: TopicPartitionReplica, now: int, batch: Any, required_acks: int, produce_version: int = 12
    ) -> AppendAnswer:
        return append(self, now, batch, 1 if required_acks == ACKS_ALL else required_acks, produce_version)

    monkeypatch.setattr(TopicPartitionReplica, "append", appends)


def segments_of_any_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log never begins another segment because of the age of the last one."""
    is_full = Log._is_full

    def ageless(self: Log, segment: Segment, more: int, header: BatchHeader) -> bool:
        return is_full(self, segment, more, replace(header, max_timestamp=segment.first_timestamp))

    monkeypatch.setattr(Log, "_is_full", ageless)


def goes_on_in_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower forgets the fetch session that it is given: each fetch names all of its topic-partitions."""

    def answered(session: FetchSession, session_id: int) -> None:
        session.id = session.epoch = 0

    monkeypatch.setattr(FetchSession, "answered", answered)


def sends_nobody_to_a_nearby_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader sends no consumer to a replica in the consumer's rack."""
    monkeypatch.setattr(RackAwareReplicaSelector, "select", lambda self, replica, offset, rack: LEADER)


def begins_no_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker begins no fetch sessions: each fetch names all of its topic-partitions."""
    monkeypatch.setattr(FetchSessions, "_begin", lambda self, now, context: None)


def compares_with_the_end_at_this_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader forgets where its log ended at a follower's fetch before: only who has everything now is caught up."""
    fetched = RemoteReplica.fetched

    def forgets(self: RemoteReplica, now: int, offset: int, leader_end: int, broker_epoch: int) -> None:
        self.leader_end_at_fetch = max(leader_end, self.leader_end_at_fetch)
        fetched(self, now, offset, leader_end, broker_epoch)

    monkeypatch.setattr(RemoteReplica, "fetched", forgets)


def wakes_nobody_where_a_replica_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that deletes a replica leaves the requests parked there to their time-out."""
    forget = Replicas._forget

    def forgets(self: Replicas, topic_id: bytes, number: int) -> HostedPartition | None:
        changed, self._progress._changed = self._progress._changed, {}
        hosted = forget(self, topic_id, number)
        self._progress._changed = changed
        return hosted

    monkeypatch.setattr(Replicas, "_forget", forgets)


def states_too_high_a_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer's Fetch that gets records is answered with a high watermark that is too high by one."""
    part = Fetch._part

    def states(self: Fetch, number: int, bounds: Any, records: Any) -> PartitionData:
        stated = part(self, number, bounds, records)
        if not self._context.is_follower and not stated.error_code and len(records):
            stated.high_watermark += 1
        return stated

    monkeypatch.setattr(Fetch, "_part", states)


def waits_for_the_newest_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker waits for the deadline of the request that was parked last, whichever is nearest."""
    add = Deadlines.add

    def overwrites(self: Deadlines, when: int, parked: Parked) -> None:
        add(self, when, parked)
        self.nearest = parked.step * self.GRAIN

    monkeypatch.setattr(Deadlines, "add", overwrites)


def leaves_heartbeats_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some heartbeats are not answered; brokers send the next one after a time-out."""
    settle = ServerRequest._settle

    def forgets(self: ServerRequest, answer: Answer) -> None:
        if self.api_key != ApiKey.BROKER_HEARTBEAT or self.received_at < 6_000_000 or self.correlation_id % 101:
            settle(self, answer)

    monkeypatch.setattr(ServerRequest, "_settle", forgets)


def begins_an_epoch_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader begins its epoch again whenever its topic-partition's registration changes within it."""
    apply = TopicPartitionReplica.apply

    def applies(self: TopicPartitionReplica, now: int, state: PartitionState) -> Applied:
        applied = apply(self, now, state)
        if self.is_leader and not applied.stale and not applied.new_leader_epoch:
            self._begin_epoch(now, state, was_leader=True)
        return applied

    monkeypatch.setattr(TopicPartitionReplica, "apply", applies)


def fetches_without_broker_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's fetches name no broker epoch, as those of brokers before KIP-903."""
    begin = ReplicaFetcher.__init__

    def wrong(self: ReplicaFetcher, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **{**options, "broker_epoch": lambda: -1})

    monkeypatch.setattr(ReplicaFetcher, "__init__", wrong)


def trusts_the_time_index_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest time of a segment is what its time index says, without the batches after the last entry."""

    def measures(self: Segment) -> None:
        largest, offset = self._times.last or (NO_TIMESTAMP, self.base_offset)
        self._max_timestamp, self._offset_of_max = largest, offset

    monkeypatch.setattr(Segment, "_measure_times", measures)


def expects_no_heartbeats_after_its_election(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that becomes active gives a broker no session before it hears of it."""
    monkeypatch.setattr(Sessions, "restart", lambda self, now, brokers: self._heard.clear())


def never_returns_leaderships(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller never looks for leaderships to return."""
    monkeypatch.setattr(LeaderBalancer, "restart", lambda self, now: None)


def sends_heartbeats_without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unfenced broker sends heartbeats at the short interval of a fenced one."""
    monkeypatch.setattr(Lifecycle, "_pause", lambda self: min(IMPATIENT_INTERVAL, self._config.heartbeat_interval))


def serves_held_requests_in_reverse(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a connection has sent while its fetches waited is handled in reverse."""

    def put_back(self: RequestChannel, connection: Connection) -> None:
        while connection.held:
            inbound = connection.held.popleft()
            self.bytes += inbound.size
            self._queue.appendleft(inbound)

    monkeypatch.setattr(RequestChannel, "put_back", put_back)


def knows_no_ends_of_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader refuses to say where epochs end, as if it did not lead."""

    def refused(self: ServingReplica, current_leader_epoch: int, epoch: int) -> EpochEndAnswer:
        return EpochEndAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    monkeypatch.setattr(ServingReplica, "offset_for_leader_epoch", refused)


def sends_of_one_topic_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response to a Fetch brings records of one topic-partition only."""
    find = Fetch._find

    def of_the_first(self: Fetch, now: int, watch: Any, bounds: Any, limit: int, *, first: bool) -> Any:
        return find(self, now, watch, bounds, limit if first else 0, first=first)

    monkeypatch.setattr(Fetch, "_find", of_the_first)


def sends_more_than_a_fetch_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker sends of each topic-partition as much as that allows, whatever a fetch allows of all of them."""
    find = Fetch._find

    def without_limit(self: Fetch, now: int, watch: Any, bounds: Any, limit: int, *, first: bool) -> Any:
        return find(self, now, watch, bounds, 1 << 30, first=first)

    monkeypatch.setattr(Fetch, "_find", without_limit)


def keeps_snapshots_of_removed_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log keeps the snapshots of producers that belong to segments which are removed."""
    monkeypatch.setattr(ProducerStates, "prune", lambda self, needed: None)


def asks_for_no_fetch_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower without a fetch session asks for none."""
    following = FetchSession.next

    def without(self: FetchSession) -> tuple[int, int]:
        return following(self) if self.established else (0, -1)

    monkeypatch.setattr(FetchSession, "next", without)


def rests_after_each_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that was sent records waits for `replica.fetch.backoff.ms` before it asks for the next ones."""
    append = ReplicaFetcher._append

    def rests(self: ReplicaFetcher, now: int, key: Any, one: Any, data: PartitionData) -> None:
        before = one.followed.replica.end_offset
        append(self, now, key, one, data)
        if one.followed.replica.end_offset > before and key in self._followed:
            self._failed(now, key)

    monkeypatch.setattr(ReplicaFetcher, "_append", rests)


def wants_one_record_more_of_a_new_voter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader adds a voter only when that has fetched a record more than the log held when it was asked to."""
    catch_up = VoterChanges._let_catch_up

    def late(self: VoterChanges, now: int, change: Any) -> None:
        change.needed += 1
        catch_up(self, now, change)
        change.needed -= 1

    monkeypatch.setattr(VoterChanges, "_let_catch_up", late)


def ignores_the_epoch_after_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that has resigned ignores the later epoch that a response to EndQuorumEpoch states."""

    def answered(self: Elections, peer: Peer) -> Answered:
        def marks(now: int, response: Message) -> None:
            if messages.read_end_response(response).error == ErrorCode.NONE:
                peer.answered(now, self._config.election_timeout * 4)
            else:
                self._core.retry_later(now, peer)

        return marks

    monkeypatch.setattr(Elections, "_end_answered", answered)


def ignores_pieces_of_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a snapshot do not restart a follower's fetch timeout."""
    answered = SnapshotDownload._answered

    def unheard(self: SnapshotDownload, role: Follower, part: SnapshotReceiver) -> Answered:
        hears = answered(self, role, part)

        def without(now: int, response: Message) -> None:
            before = role.give_up_at
            hears(now, response)
            role.give_up_at = before

        return without

    monkeypatch.setattr(SnapshotDownload, "_answered", unheard)


def repeats_the_log_start_in_each_response(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each response of a fetch session repeats the log start, whether it has changed or not."""
    monkeypatch.setattr(fetch, "_has_changed", lambda watch, bounds: True)


def keeps_the_sessions_of_stopped_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller lets a broker stop, and keeps its session until it would have timed out."""
    wants = BrokerControl._wants_to_stop

    def keeps(
        self: BrokerControl,
        now: int,
        image: MetadataImage,
        broker: BrokerRegistration,
        request: BrokerHeartbeatRequest,
    ) -> Outcome:
        outcome = wants(self, now, image, broker, request)
        self.sessions.heard(now, broker.id)
        return outcome

    monkeypatch.setattr(BrokerControl, "_wants_to_stop", keeps)


def counts_no_eligible_elections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller counts no election of an eligible leader replica."""
    count = PartitionChanges.count

    def counted(self: PartitionChanges, kind: ElectionKind) -> None:
        if kind is not ElectionKind.ELIGIBLE:
            count(self, kind)

    monkeypatch.setattr(PartitionChanges, "count", counted)


def says_that_added_replicas_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's metrics count replicas that a reassignment is still adding as missing from the ISR."""
    assignment = broker_metrics._assignment

    def without_added(broker: Broker, hosted: HostedPartition) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
        replicas, _, is_reassigned = assignment(broker, hosted)
        return replicas, (), is_reassigned

    monkeypatch.setattr(broker_metrics, "_assignment", without_added)


def counts_no_refused_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker does not count what it refuses to its consumers."""
    count = Fetch._count

    def counted(self: Fetch, findings: list[Any], size: int) -> None:
        count(self, findings, size)
        for topic in (*self._traffic.topics.values(), self._traffic.elsewhere):
            topic.fetch_failures = 0

    monkeypatch.setattr(Fetch, "_count", counted)


def resumes_none_that_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was paused because the channel was full is not resumed when others have made room."""
    monkeypatch.setattr(RequestChannel, "relieved", lambda self: [])


def counts_no_waiting_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response that waits for an earlier one counts with the size of its request."""
    charge = Connections._charge

    def unchanged(inbound: Inbound, size: int) -> None:
        if not (inbound.answered and size):
            charge(inbound, size)

    monkeypatch.setattr(Connections, "_charge", staticmethod(unchanged))


def gives_no_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that ends with answers that have not left goes on counting."""
    closed = Connections.closed

    def kept(self: Connections, identity: int) -> Connection | None:
        connection = closed(self, identity)
        if connection is not None:
            connection.channel.budget.used += connection.unsent
        return connection

    monkeypatch.setattr(Connections, "closed", kept)


def names_no_time_while_it_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetcher names no time while a fetch is under way, though another may follow it (a defect of ours, mended)."""
    deadline = ReplicaFetcher.deadline
    monkeypatch.setattr(ReplicaFetcher, "deadline", lambda self: NEVER if self._under_way else deadline(self))


def damages_what_followers_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then a follower is sent records with a wrong byte; its next fetch brings the right ones."""
    part = Fetch._part
    count = [0]

    def damaged(self: Fetch, number: int, bounds: Any, records: Any) -> PartitionData:
        count[0] += bool(self._context.is_follower and len(records))
        if self._context.is_follower and len(records) and count[0] % 20 == 0:
            changed = bytearray(records)
            changed[-1] ^= 1
            records = memoryview(changed)
        return part(self, number, bounds, records)

    monkeypatch.setattr(Fetch, "_part", damaged)


def finds_old_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that creates the log of a topic created again finds a record of the former topic in it."""
    claim = LogManager.claim

    def found(self: LogManager, topic: Any, number: int, config: Any) -> Any:
        log, high_watermark = claim(self, topic, number, config)
        leads = topic.partitions[number].leader == self._config.node_id
        if topic.name.startswith("side") and not leads and log.end_offset == 0:
            old = bytearray(build_batch([Record(value=b"old")], timestamp=1_000))
            patch(old, 0, 0)
            log.append_as_follower(old)
        return log, high_watermark

    monkeypatch.setattr(LogManager, "claim", found)


def deletes_no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A DeleteRecords request is acknowledged, and the log begins where it did."""

    def delete_before(self: LogStart, offset: int, high_watermark: int) -> DeletionAnswer:
        wanted = high_watermark if offset == -1 else offset
        self.acknowledged = wanted  # type: ignore[attr-defined]
        return DeletionAnswer(0, wanted)

    def low_watermark(self: LogStart, followers: Any, view: Any) -> int:
        return int(getattr(self, "acknowledged", 0))

    monkeypatch.setattr(LogStart, "delete_before", delete_before)
    monkeypatch.setattr(LogStart, "low_watermark", low_watermark)


def trusts_brokers_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller takes every broker that registers again to have stopped cleanly."""
    monkeypatch.setattr(BrokerControl, "_may_have_lost_records", lambda self, image, known, previous_epoch: False)


def ignores_altered_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker whose topics' settings are altered replays the records, and its replicas go on as before."""
    monkeypatch.setattr(MetadataImage, "topics_set_by", lambda self, resources: iter(()))


def keeps_every_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader never proposes that a follower leaves the ISR."""
    monkeypatch.setattr(TopicPartitionReplica, "_is_lagging", lambda self, now, member: False)


def stands_although_it_hears_its_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every eight seconds, voters do not heed answers without records, and stand without asking for pre-votes."""
    take = Fetcher._take

    def heeds(self: Fetcher, now: int, role: Follower, response: messages.FetchResponse) -> None:
        before = role.give_up_at
        take(self, now, role, response)
        if not len(response.records) and now % 8_000_000 <= 1.2 * self._core.config.fetch_timeout:
            role.give_up_at = before

    monkeypatch.setattr(Fetcher, "_take", heeds)
    monkeypatch.setattr(Quorum, "become_prospective", Quorum.become_candidate)


def retention_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention by size deletes all segments whose records are committed, however little is left."""

    def covers(self: object, segment: object) -> bool:
        return True

    monkeypatch.setattr(retention._Excess, "covers", covers)


def a_segment_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower loses a segment in the middle of its log, while it runs."""
    append = Log.append_as_follower
    lost: list[str] = []

    def loses(self: Log, batches: Any) -> Any:
        appended = append(self, batches)
        if not lost and "events" in self.directory and len(self._segments) > 5:
            lost.append(self.directory)
            self.flush()
            del self._segments._all[3]
        return appended

    monkeypatch.setattr(Log, "append_as_follower", loses)


def believes_the_leaders_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower takes the leader's high watermark as it is, beyond the end of its log."""

    def follow(self: TopicPartitionReplica, leader_high_watermark: int) -> None:
        if leader_high_watermark != self.high_watermark:
            self._set_high_watermark(max(leader_high_watermark, self.log.start_offset))

    monkeypatch.setattr(TopicPartitionReplica, "_follow_high_watermark", follow)


def a_leader_begins_with_the_former_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader stamps its first batch with the leader epoch before, and begins its own with the second."""
    append = Log.append_as_leader

    def stamps(self: Log, batch: Any, leader_epoch: int, now_ms: int, **how: Any) -> Any:
        entries = self.epochs.entries
        if "events" in self.directory and len(entries) > 1 and entries[-1] == (leader_epoch, self.end_offset):
            self.epochs.truncate_from_end(self.end_offset)
            leader_epoch = entries[-2][0]
        return append(self, batch, leader_epoch, now_ms, **how)

    monkeypatch.setattr(Log, "append_as_leader", stamps)


def leads_when_nobody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A running replica that learns that its topic-partition has no leader any more leads it."""
    apply = TopicPartitionReplica.apply

    def leads(self: TopicPartitionReplica, now: int, state: Any) -> Any:
        begins = self.state is not None and state.leader_epoch > self.leader_epoch
        goes_on = self.is_leader and state.leader_epoch == self.leader_epoch
        wrong = state.leader == -1 and (begins or goes_on)
        return apply(self, now, replace(state, leader=self.broker) if wrong else state)

    monkeypatch.setattr(TopicPartitionReplica, "apply", leads)


def a_roll_forgets_earlier_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot that a roll writes holds the last batch of each producer only."""
    roll = Log._roll

    def last_only(self: Log) -> None:
        whole = {one: list(state.batches) for one, state in self.producers._states.items()}
        for state in self.producers._states.values():
            del state.batches[:-1]
        roll(self)
        for one, batches in whole.items():
            self.producers._states[one].batches[:] = batches

    monkeypatch.setattr(Log, "_roll", last_only)


def lets_nobody_rejoin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader never proposes to add a follower to the ISR."""
    monkeypatch.setattr(TopicPartitionReplica, "_maybe_expand", lambda self, remote: None)


def counts_by_voters_once_they_are_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower counts by the voters of its log only when it knows that they are committed."""
    follow, advance = Core.follow_voters, Core.raise_high_watermark
    waiting: dict[int, list[tuple[int, VoterSet]]] = {}

    def waits(self: Core, now: int, changes: Sequence[tuple[int, VoterSet]]) -> None:
        for offset, voters in changes:
            self.trace.event("voters", node=self.config.node_id, offset=offset, voters=list(voters.ids))
            waiting.setdefault(id(self), []).append((offset, voters))

    def advances(self: Core, offset: int) -> None:
        advance(self, offset)
        due = [one for one in waiting.get(id(self), []) if one[0] < offset]
        waiting[id(self)] = [one for one in waiting.get(id(self), []) if one[0] >= offset]
        follow(self, 0, due)

    monkeypatch.setattr(Core, "follow_voters", waits)
    monkeypatch.setattr(Core, "raise_high_watermark", advances)


def answers_what_it_has_not_written_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The active controller answers at once where it writes no records, whatever else is not committed."""
    park = QuorumController._park

    def wrong(self: QuorumController, request: Any, response: Any, *, wrote: bool) -> None:
        if wrote:
            park(self, request, response, wrote=wrote)
        else:
            request.respond(response)

    monkeypatch.setattr(QuorumController, "_park", wrong)


def leads_by_the_voter_that_is_silent_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of the quorum resigns when any one voter has not fetched for as long as a majority may."""
    heard_at = Leader.majority_heard_at

    def oldest(self: Leader) -> int:
        healthy = heard_at(self)
        others = [max(self.since, progress.fetched_at) for progress in self.others.values()]
        return min([healthy, *others])

    monkeypatch.setattr(Leader, "majority_heard_at", oldest)


def finds_times_above_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer's look-up by time sees the whole log, also what is not committed."""
    found = Log.offset_for_timestamp

    def wrong(self: Log, timestamp: int, upper: int) -> tuple[int, int] | None:
        return found(self, timestamp, self.end_offset)

    monkeypatch.setattr(Log, "offset_for_timestamp", wrong)


def recovers_without_syncing_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery flushes what it has read, and leaves the directory as the dead process left it."""
    recover, flush = Log._recover, Log.flush

    def wrong(self: Log, recovery_point: int) -> None:
        def without_names(log: Log) -> None:
            log._segments.names_dirty = False
            flush(log)

        with monkeypatch.context() as within:
            within.setattr(Log, "flush", without_names)
            recover(self, recovery_point)

    monkeypatch.setattr(Log, "_recover", wrong)


def measures_elections_to_their_end_and_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter that knows the next leader still counts as standing, and each turn ends another election."""

    def wrong(self: QuorumWatch, now: int) -> None:
        if self._raft.role.name in STANDING:
            self._standing_since = self._standing_since if self._standing_since >= 0 else now
        elif self._standing_since >= 0 and self._raft.leader_and_epoch[0] is not None:
            self.elections.add(now - self._standing_since)

    monkeypatch.setattr(QuorumWatch, "_watch_election", wrong)


def takes_all_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker takes all requests that wait in one turn, whatever `turn.requests.max` is."""
    serve = Node._serve_data

    def wrong(self: Node, now: int) -> None:
        with monkeypatch.context() as within:
            within.setattr(self, "config", replace(self.config, turn_requests_max=1_000))
            serve(self, now)

    monkeypatch.setattr(Node, "_serve_data", wrong)


def adds_itself_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of the quorum that was removed takes this for a change of its address, and adds itself again."""
    write = VoterChanges._write_own_place

    def wrong(self: VoterChanges, now: int) -> None:
        local = self._core.local_voter()
        if self._core.quorum.counts or local is None:
            write(self, now)
        elif self._refusal(None) is None:
            self._begin(now, lambda error, why: None, self._voters.with_voter(local))

    monkeypatch.setattr(VoterChanges, "_write_own_place", wrong)


def announces_itself_to_voters_that_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of the quorum repeats BeginQuorumEpoch, whether or not a voter has fetched lately."""
    announce = Elections.announce

    def wrong(self: Elections, now: int, role: Leader) -> None:
        fetched = {voter: progress.fetched_at for voter, progress in role.others.items()}
        for progress in role.others.values():
            progress.fetched_at = -1
        announce(self, now, role)
        for voter, progress in role.others.items():
            progress.fetched_at = fetched[voter]

    monkeypatch.setattr(Elections, "announce", wrong)


def never_notes_that_a_voter_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of the quorum does not note a voter's answer to BeginQuorumEpoch, and never tells it again."""

    def wrong(self: Elections, role: Leader, peer: object) -> Answered:
        return lambda now, response: None

    monkeypatch.setattr(Elections, "_begin_answered", wrong)


def indexes_an_offset_within_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of an offset index, unless it is the last, names the offset before the last one of its batch."""
    write = Segment._write_beside

    def wrong(self: Segment, name: str, content: bytes) -> None:
        if name == index_name(self.base_offset):
            entries = list(struct.iter_unpack(">II", content))
            for at in range(1, len(entries) - 1):
                offset, position = entries[at]
                if offset - 1 > entries[at - 1][0]:
                    entries[at] = offset - 1, position
            content = b"".join(struct.pack(">II", *one) for one in entries)
        write(self, name, content)

    monkeypatch.setattr(Segment, "_write_beside", wrong)


def starts_without_its_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that starts reads all headers of its logs, and no offset index."""
    monkeypatch.setattr(Segment, "_load_index", lambda self: 0)


def flushes_nothing_by_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker flushes no log because of the age of its records."""
    right = LogManager.configure

    def wrong(self: LogManager, name: TopicPartition, config: LogConfig) -> None:
        right(self, name, config)
        self._flushed_by_time.clear()

    monkeypatch.setattr(LogManager, "configure", wrong)


def puts_no_strays_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has caught up keeps the logs that no topic-partition has claimed."""
    monkeypatch.setattr(LogManager, "retire_strays", lambda self: None)


def does_not_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate whose time is over neither backs off nor stands again."""

    def waits(self: Quorum, now: int) -> None:
        cast("Any", self.role).election_at = NEVER

    monkeypatch.setattr(Quorum, "back_off", waits)


def never_stands_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that has lost grants itself more time, and does not stand again."""
    back_off = Quorum.back_off

    def waits(self: Quorum, now: int) -> None:
        back_off(self, now)
        cast("Any", self.role).backing_off = False

    monkeypatch.setattr(Quorum, "back_off", waits)


def elects_nobody_uncleanly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller holds no unclean election, whether or not one is allowed."""

    def clean(
        registration: PartitionRegistration, decision: elections.Decision, active: Any, rules: elections.Rules
    ) -> elections.Decision:
        return decision

    monkeypatch.setattr(elections, "_unclean", clean)


def syncs_what_has_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush syncs all segments of a log, whether or not they have changed."""
    monkeypatch.setattr(Segment, "sync", lambda self: self.file.sync())


def asks_late_to_be_unfenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fenced broker that has become ready waits for its regular heartbeat."""
    monkeypatch.setattr(Lifecycle, "metadata_applied", lambda self, now: None)


def leaves_its_indexes_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that writes the indexes of a segment leaves their files open."""

    def wrong(self: Segment, name: str, content: bytes) -> None:
        file = self._disk.open(f"{self._directory}/{name}", create=True)
        file.truncate(0)
        file.append(content)

    monkeypatch.setattr(Segment, "_write_beside", wrong)


def keeps_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node makes an id for its directory, and does not write it down."""
    monkeypatch.setattr(identity, "write_identity", lambda config, disk, directory_id: None)


def says_that_every_leader_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ZooKeeper-era controller's metrics count no topic-partition that another replica than the first leads."""
    right = zookeeper_metrics._census

    def wrong(context: ControllerContext) -> Collected:
        for one in right(context):
            told = one is not None and one.metric is metric_names.IMBALANCED_PARTITIONS
            yield Sample(metric_names.IMBALANCED_PARTITIONS, 0) if told else one

    monkeypatch.setattr(zookeeper_metrics, "_census", wrong)


def leaves_its_zookeeper_session_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ZooKeeper-era broker that stops closes its controller and its logs, and leaves its session open."""

    def close(self: ZooKeeperNode, now: int) -> None:
        self.controller.close(now)
        self.broker.close(now)
        self._closed = True

    monkeypatch.setattr(ZooKeeperNode, "close", close)
