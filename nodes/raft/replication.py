"""Pull replication of the metadata log: the leader's and the fetchers' side (QC-13..18, rules 13, 35, 36).

A fetch at offset o from a voter states that everything below o is durable there, because its host releases the fetch
only after `flush`; there is no other acknowledgement. The leader counts itself up to what its own `flush` has made
durable (X14). Followers and observers keep one fetch under way; a replica that does not know the leader asks any voter
and follows the hint in the response.
"""

from __future__ import annotations

from squall.nodes.ports import Rng
from squall.nodes.protocol.errors import NO_ERROR, ErrorCode
from squall.nodes.protocol.messages import describe_quorum as schema
from squall.nodes.protocol.messages.update_raft_voter import KRaftVersionFeature, Listener, UpdateRaftVoterRequest
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft import messages
from squall.nodes.raft.config import NEVER, PARTITION, TOPIC
from squall.nodes.raft.core import FIRST_BOOTSTRAP, Core
from squall.nodes.raft.purgatory import ParkedFetch
from squall.nodes.raft.quorum_state import NO_DIRECTORY, ReplicaKey
from squall.nodes.raft.roles import Follower, Leader, ReplicaProgress, Unattached
from squall.nodes.raft.snapshot_fetch import SnapshotDownload
from squall.nodes.raft.snapshots import SnapshotId
from squall.nodes.raft.voters import DYNAMIC

OBSERVER_FORGOTTEN_AFTER = 300_000_000
"""An observer that has not fetched for five minutes is no longer described."""
OBSERVERS_MAX = 8192
"""Observers whose progress is kept."""


class FetchService:
    """The leader's side: serves fetches, derives progress from them, advances the high watermark."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._config = core.config
        self._counts_observers = core.mutants.has("observer-counted")
        self._counts_removed = core.mutants.has("removed-voter-counted")
        self._counts_old_epoch = core.mutants.has("hw-counts-old-epoch")
        self._told: dict[int, tuple[int, int]] = {}
        """By replica: its connection, and the high watermark last sent there."""

    def handle_fetch(self, now: int, request: ServerRequest) -> None:
        fetch_request = messages.read_fetch(request.body, request.api_version)
        if fetch_request.cluster_id is not None and fetch_request.cluster_id != self._config.cluster_id:
            request.respond(messages.fetch_refusal(ErrorCode.INCONSISTENT_CLUSTER_ID))
        elif not fetch_request.valid_partition or fetch_request.offset < 0:
            request.respond(messages.fetch_refusal(ErrorCode.INVALID_REQUEST))
        else:
            self._serve(now, request, fetch_request)

    def _serve(self, now: int, request: ServerRequest, fetch_request: messages.FetchRequest) -> None:
        core = self._core
        error = core.epoch_error(fetch_request.epoch)
        if error != NO_ERROR:
            core.refuse_fetch(request, error)
            return
        snapshot = core.log.snapshot_for(fetch_request.offset, fetch_request.last_fetched_epoch)
        if snapshot is not None:
            core.heard_from_fetcher(now, fetch_request.replica_id)
            place = (snapshot.end_offset, snapshot.epoch)
            request.respond(messages.fetch_response(self._config, NO_ERROR, core.hint(), snapshot=place))
            return
        diverging = core.log.divergence(fetch_request.offset, fetch_request.last_fetched_epoch)
        if diverging is not None:
            # Does not show what the fetcher has in common with this log, so it counts for nothing (rule 13).
            request.respond(messages.fetch_response(self._config, NO_ERROR, core.hint(), diverging=diverging))
            return
        role = core.quorum.role
        assert isinstance(role, Leader)
        self._note_progress(now, role, fetch_request)
        fetch = ParkedFetch(
            request=request,
            replica_id=fetch_request.replica_id,
            offset=fetch_request.offset,
            max_bytes=min(fetch_request.max_bytes, self._config.fetch_max_bytes),
            told_high_watermark=self._last_told(request, fetch_request.replica_id),
            expires_at=now + min(fetch_request.max_wait, self._config.fetch_max_wait),
        )
        if fetch_request.max_wait <= 0 or self._has_news(fetch):
            self._answer(fetch)
        else:
            core.purgatory.park(fetch)

    def _note_progress(self, now: int, role: Leader, fetch_request: messages.FetchRequest) -> None:
        replica_id = fetch_request.replica_id
        if replica_id in (-1, self._config.node_id):
            return
        is_voter = replica_id in role.others
        if is_voter:
            voter = self._core.voters.latest.find(replica_id)
            known_as = NO_DIRECTORY if voter is None else voter.directory_id
            asking = ReplicaKey(replica_id, fetch_request.directory_id)
            is_voter = ReplicaKey(replica_id, known_as).is_same_as(asking)
        known = role.others if is_voter else role.observers
        if not is_voter and replica_id not in known and len(known) >= OBSERVERS_MAX:
            self._forget_observers(role)
        progress = known.setdefault(replica_id, ReplicaProgress())
        wall = self._core.clock.now_ms()
        progress.end_offset = fetch_request.offset
        progress.directory_id = fetch_request.directory_id
        progress.fetched_at = now
        progress.fetched_at_ms = wall
        if fetch_request.offset >= self._core.log.end_offset:
            progress.caught_up_at_ms = wall
        if is_voter:
            self.advance(now)

    def _forget_observers(self, role: Leader) -> None:
        """Keep the half that has fetched last: any node can fetch under any number of ids."""
        by_age = sorted(role.observers, key=lambda one: role.observers[one].fetched_at)
        for one in by_age[: OBSERVERS_MAX // 2]:
            del role.observers[one]
            self._told.pop(one, None)

    def _last_told(self, request: ServerRequest, replica_id: int) -> int:
        connection, told = self._told.get(replica_id, (0, -1))
        return told if connection == request.connection else -1

    def _has_news(self, fetch: ParkedFetch) -> bool:
        if fetch.offset < self._core.log.end_offset:
            return True
        return self._config.variant.announces_commits and self._exposed() > fetch.told_high_watermark

    def _exposed(self) -> int:
        """The high watermark as other nodes may see it: -1 until one of this epoch is known (QC-16)."""
        role = self._core.quorum.role
        return role.high_watermark if isinstance(role, Leader) and role.high_watermark is not None else -1

    def _answer(self, fetch: ParkedFetch) -> None:
        core = self._core
        exposed = self._exposed()
        if len(self._told) >= 2 * OBSERVERS_MAX:
            self._told.clear()  # costs each of them one response without news
        self._told[fetch.replica_id] = (fetch.request.connection, exposed)
        one = core.buggify.happens("metadata-fetch-one-batch")
        records = core.log.read(fetch.offset, 1 if one else fetch.max_bytes)
        fetch.request.respond(
            messages.fetch_response(
                self._config,
                NO_ERROR,
                core.hint(),
                high_watermark=exposed,
                log_start=core.log.start_offset,
                records=records,
            )
        )

    # -- progress ---------------------------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Advance the high watermark to what a majority has, and complete waiting fetches.

        Mutants `observer-counted` and `removed-voter-counted`: replicas without a vote may complete the majority.
        """
        role = self._core.quorum.role
        if not isinstance(role, Leader):
            return
        role.own_durable_offset = self._core.log.durable_offset
        end = role.majority_end_offset(self._wrongly_counted(role))
        known = role.high_watermark
        of_this_epoch = end > role.epoch_start_offset
        if self._counts_old_epoch:
            of_this_epoch = end > self._core.high_watermark
        if of_this_epoch and (known is None or end > known):
            role.high_watermark = end
            self._core.raise_high_watermark(end)
        self.wake(now)

    def _wrongly_counted(self, role: Leader) -> list[ReplicaProgress]:
        """Replicas that only two mutants count; empty otherwise."""
        if self._counts_observers:
            return list(role.observers.values())
        if self._counts_removed:
            return [role.observers[one] for one in self._core.voters.former_ids if one in role.observers]
        return []

    def wake(self, now: int) -> None:
        """Complete parked fetches that have news or have waited long enough."""
        core = self._core
        if not len(core.purgatory):
            return
        exposed = self._exposed() if self._config.variant.announces_commits else -1
        for fetch in core.purgatory.take_ready(now, core.log.end_offset, exposed):
            self._answer(fetch)

    # -- DescribeQuorum ---------------------------------------------------------------------------------------

    def handle_describe_quorum(self, now: int, request: ServerRequest) -> None:
        core = self._core
        role = core.quorum.role
        hint = core.hint()
        data = schema.PartitionDataResponse(
            partition_index=PARTITION,
            leader_id=-1 if hint.leader_id is None else hint.leader_id,
            leader_epoch=hint.epoch,
        )
        if isinstance(role, Leader):
            self._describe(now, role, data)
        else:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        topic = schema.TopicDataResponse(topic_name=TOPIC, partitions=[data])
        nodes = [
            schema.Node(
                node_id=voter.id,
                listeners=[schema.Listener(name=messages.LISTENER, host=voter.host, port=voter.port)],
            )
            for voter in core.voters.latest.voters
        ]
        request.respond(schema.DescribeQuorumResponse(topics=[topic], nodes=nodes))

    def _describe(self, now: int, role: Leader, data: schema.PartitionDataResponse) -> None:
        data.high_watermark = self._exposed()
        wall = self._core.clock.now_ms()
        own = ReplicaProgress(self._core.log.end_offset, self._config.directory_id, now, wall, wall)
        voters = {**role.others, role.leader_id: own} if role.votes else role.others
        data.current_voters = [self._described(voter, voters[voter]) for voter in sorted(voters)]
        recent = sorted(
            observer
            for observer, progress in role.observers.items()
            if progress.fetched_at > now - OBSERVER_FORGOTTEN_AFTER
        )
        data.observers = [self._described(observer, role.observers[observer]) for observer in recent]

    def _described(self, replica_id: int, progress: ReplicaProgress) -> schema.ReplicaState:
        return schema.ReplicaState(
            replica_id=replica_id,
            replica_directory_id=progress.directory_id,
            log_end_offset=progress.end_offset,
            last_fetch_timestamp=progress.fetched_at_ms,
            last_caught_up_timestamp=progress.caught_up_at_ms,
        )


class Fetcher:
    """The follower's and observer's side: keeps one fetch under way and applies the responses."""

    def __init__(self, core: Core, rng: Rng) -> None:
        self._core = core
        self._rng = rng
        self._asked: int | None = None
        self.download = SnapshotDownload(core)

    def run_follower(self, now: int, role: Follower) -> None:
        """Fetch. Without responses, a voter stands for election, and an observer asks another node for the leader."""
        core = self._core
        lost = now >= role.give_up_at
        if not core.quorum.votes and role.update.due != NEVER:
            role.update.due = NEVER
        elif core.quorum.votes and role.update.deadline <= now:
            self._tell_where_this_is(now, role)
        if lost and core.quorum.votes:
            if role.abandoned:
                core.quorum.become_candidate(now)
            else:
                core.quorum.become_prospective(now)
        elif role.fetch.deadline <= now:
            if not lost and self.download.is_under_way(role):
                self.download.ask(now, role)
            else:
                self._fetch(now, role, self._any_voter() if lost else role.leader_id)

    def run_unattached(self, now: int, role: Unattached) -> None:
        """A voter waits for a leader, then stands; an observer asks for the leader."""
        core = self._core
        if core.quorum.votes:
            if now >= role.election_at:
                core.quorum.become_prospective(now)
        elif role.fetch.deadline <= now:
            self._fetch(now, role, self._any_voter())

    def _tell_where_this_is(self, now: int, role: Follower) -> None:
        """Ask the leader to rewrite this voter's entry in the log if it is outdated (KIP-853)."""
        core = self._core
        local = core.local_voter()
        written = core.voters.latest_offset >= 0 and core.config.dynamic_voters
        if local is None or not written or core.voters.latest.find(local.id) == local:
            role.update.due = NEVER
            return
        message = UpdateRaftVoterRequest(
            cluster_id=core.config.cluster_id,
            current_leader_epoch=role.epoch,
            voter_id=local.id,
            voter_directory_id=local.directory_id,
            listeners=[Listener(name=messages.LISTENER, host=local.host, port=local.port)],
            k_raft_version_feature=KRaftVersionFeature(max_supported_version=DYNAMIC),
        )

        def answered(now: int, response: Message) -> None:
            role.update.answered(now, core.config.fetch_timeout // 4)  # the record shows whether it was applied

        core.ask(role.leader_id, message, role.update, answered)

    def _any_voter(self) -> int:
        """Each in turn, so that a dead one is never asked twice in a row; the first is chosen at random."""
        core = self._core
        leader = core.quorum.leader_id  # the voters known here may all have been replaced
        others = [*core.quorum.other_voters, *(() if leader is None else (leader,))]
        others += [FIRST_BOOTSTRAP - index for index in range(len(core.config.bootstrap))]
        others = [voter for voter in others if voter != core.config.node_id] or [core.config.node_id]
        start = self._rng.randrange(0, len(others)) if self._asked is None else self._asked + 1
        self._asked = start % len(others)
        return others[self._asked]

    def _fetch(self, now: int, role: Follower | Unattached, voter: int) -> None:
        core = self._core
        message = messages.fetch(core.config, role.epoch, core.log.end_offset, core.log.last_epoch)
        core.ask(voter, message, role.fetch, self._fetched(role))

    def _fetched(self, role: Follower | Unattached) -> messages.Answered:
        def answered(now: int, response: Message) -> None:
            fetch_response = messages.read_fetch_response(response)
            self._core.observe_response(now, fetch_response.hint)
            if self._core.quorum.role is not role:
                return
            if fetch_response.error != NO_ERROR or not isinstance(role, Follower):
                self._core.retry_later(now, role.fetch)
            else:
                self._take(now, role, fetch_response)

        return answered

    def _take(self, now: int, role: Follower, fetch_response: messages.FetchResponse) -> None:
        """Apply a response without error: only this epoch's leader sends one. Raises Implausible."""
        core = self._core
        if fetch_response.snapshot is not None:
            self.download.begin(role, SnapshotId(*fetch_response.snapshot))
        elif fetch_response.diverging is not None:
            core.log.truncate_diverged(*fetch_response.diverging, high_watermark=core.high_watermark)
            core.voters_truncated(now)
        else:
            self._take_records(now, role, fetch_response)
        core.heard_from_leader(now, role)
        role.fetch.answered(now, 0)

    def _take_records(self, now: int, role: Follower, fetch_response: messages.FetchResponse) -> None:
        core = self._core
        if len(fetch_response.records):
            changes = core.log.append_fetched(memoryview(fetch_response.records), role.epoch)
            core.follow_voters(now, changes)
        committed = min(fetch_response.high_watermark, core.log.end_offset)
        if committed > core.high_watermark:
            core.raise_high_watermark(committed)
