"""A broker's replica of one topic-partition: leading, following, and the safety of acknowledged records.

The state machine is small; what matters is what each transition may change.

    apply(state)     the only input for configuration (DP-12). A new leader epoch as leader: record (epoch, log end)
                     *before* any append (rule 9), reset the progress of followers. As follower: keep the high
                     watermark and the log; the first fetch will show whether to truncate (DP-13).
    append           leader only (DP-02). acks=all is refused while the committed ISR is below min ISR (rule 2).
    follower_fetch   "I have everything below this offset" (rule 10). A fetch that turns out to diverge, to be out of
                     range or to come from a stale incarnation or epoch proves nothing and changes nothing (rule 13).
    high watermark   least log end over the maximal ISR, and over replicas that are caught up and about to join it, so
                     that a joining follower is not left behind forever (DP-06). Frozen while the committed ISR is
                     below min ISR, never lowered by a leader. Followers: min(the leader's, own log end) (rule 11).
    ISR              expand when a follower's log end reaches the high watermark *and* the start of this leader epoch
                     (IS-06), shrink when it was not caught up for `lag_time_max` (IS-03); one proposal at a time.

Every request that names a leader epoch is fenced by it (EP-03): older FENCED_LEADER_EPOCH, newer UNKNOWN_LEADER_EPOCH.

Mutants: `truncate-to-hw` and `follower-ends-kept` in `_begin_epoch`; `older-metadata-applied` in `apply`;
`fetch-epoch-unfenced` in `follower_fetch`; `hw-before-isr-ack`, `hw-advances-under-min-isr`, `isr-shrink-uncommitted`
and `isr-expand-ignored` in `_least_end`.

Traced: `leader`, `follower`, `append`, `high_watermark`, `log_start`, `truncate`, `isr_proposed`, `isr`; each with
broker, topic and partition. The log itself traces `epoch`.
"""

from __future__ import annotations

from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Trace, WallClock
from squall.nodes.protocol.errors import NO_ERROR, ErrorCode
from squall.nodes.replication.isr import IsrState
from squall.nodes.replication.log_start import DeletionAnswer
from squall.nodes.replication.ports import (
    AppendAnswer,
    Applied,
    BrokerView,
    FetchBounds,
    IsrProposal,
    PartitionState,
    ProposalAnswer,
    ReplicationConfig,
)
from squall.nodes.replication.remote import RemoteReplica
from squall.nodes.replication.serving import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, ServingReplica
from squall.nodes.storage.errors import LogError
from squall.nodes.storage.log import Log

__all__ = ["ACKS_ALL", "EARLIEST_TIMESTAMP", "LATEST_TIMESTAMP", "MAX_TIMESTAMP", "TopicPartitionReplica"]

ACKS_ALL = -1

_REVERT = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
_AWAIT_METADATA = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)


class TopicPartitionReplica(ServingReplica):
    """See the module: configuration and leading, on top of serving (`serving.py`) and following (`following.py`)."""

    def __init__(
        self,
        broker: int,
        state: PartitionState,
        log: Log,
        config: ReplicationConfig,
        view: BrokerView,
        *,
        clock: WallClock,
        trace: Trace,
        mutants: Mutants = HEALTHY,
        high_watermark: int = 0,
    ) -> None:
        """`state` gives only the replica's name; call `apply` with it. `high_watermark` is the checkpointed one."""
        super().__init__(
            broker, state, log, config, view, clock=clock, trace=trace, mutants=mutants, high_watermark=high_watermark
        )
        self._high_watermark_is_log_end = mutants.has("hw-before-isr-ack")
        self._unfenced = mutants.has("fetch-epoch-unfenced")
        self._takes_older_state = mutants.has("older-metadata-applied")
        self._isr = IsrState(())
        self._remotes: dict[int, RemoteReplica] = {}
        self._leading_since = -1

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR."""
        return self._isr.committed

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self._isr.maximal

    @property
    def is_changing_isr(self) -> bool:
        """Whether a change of the ISR is under way, answered or not."""
        return self._isr.pending is not None

    @property
    def min_isr(self) -> int:
        """The effective min ISR: a topic cannot require more replicas than it has."""
        state = self.state
        return 1 if state is None else min(state.min_insync_replicas, len(state.replicas))

    @property
    def proposal(self) -> IsrProposal | None:
        """The ISR change to send to the controller, until it is answered or outdated."""
        return self._isr.proposal

    # -- configuration ------------------------------------------------------------------------------------------

    def apply(self, now: int, state: PartitionState) -> Applied:
        """Apply the controller's decision, unless something newer is known (rule 9), if only from the log itself.

        A state of an equal partition epoch may change settings, never the ISR; a proposal under way stays.
        """
        before = self.state
        older = state.partition_epoch < self.partition_epoch and not self._takes_older_state
        if before is not None and (older or state.leader_epoch < before.leader_epoch):
            return Applied(stale=True)
        if self.log.last_epoch is not None and state.leader_epoch < self.log.last_epoch:
            # To lead in an epoch older than the log's would rewrite the history of its epochs.
            self._event("stale_state", leader_epoch=state.leader_epoch, log_epoch=self.log.last_epoch)
            return Applied(stale=True)
        new_epoch = before is None or state.leader_epoch > before.leader_epoch
        if before is not None and not new_epoch and state.leader != before.leader:
            raise ValueError(
                f"{self.topic}-{self.partition}: leader {before.leader} became {state.leader} within leader epoch "
                f"{state.leader_epoch}"
            )
        newer = new_epoch or state.partition_epoch > self.partition_epoch
        if self._takes_older_state:
            newer = new_epoch or state.partition_epoch != self.partition_epoch
        was_leader = self.is_leader
        self.state = state
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.is_leader = state.leader == self.broker
        if newer:
            self._take_isr(state.isr)
            if before is None or before.replicas != state.replicas:
                self._follow_assignment(state.replicas)
        if new_epoch:
            self._begin_epoch(now, state, was_leader)
        return Applied(
            became_leader=self.is_leader and not was_leader,
            new_leader_epoch=new_epoch,
            high_watermark_advanced=self._advance(now),
        )

    def _take_isr(self, isr: tuple[int, ...]) -> None:
        if isr != self._isr.committed:
            self._event(
                "isr",
                isr=isr,
                partition_epoch=self.partition_epoch,
                leader_epoch=self.leader_epoch,
                topic_id=self.topic_id,
            )
        self._isr = IsrState(isr)

    def _follow_assignment(self, replicas: tuple[int, ...]) -> None:
        known = self._remotes
        self._remotes = {other: known.get(other) or RemoteReplica(other) for other in replicas if other != self.broker}

    def _begin_epoch(self, now: int, state: PartitionState, was_leader: bool) -> None:
        if self._mutants.has("truncate-to-hw"):
            self._truncate(self.high_watermark)
        if not self.is_leader:
            end, topic_id = self.end_offset, self.topic_id
            self._event("follower", leader=state.leader, epoch=state.leader_epoch, end=end, topic_id=topic_id)
            return
        self.log.assign_epoch(state.leader_epoch, self.end_offset)
        self._epoch_start = self.end_offset
        if not was_leader:
            self._leading_since = state.leader_epoch
        if not self._mutants.has("follower-ends-kept"):
            for remote in self._remotes.values():
                remote.reset(now, in_sync=remote.broker in state.isr)
        self._event(
            "leader",
            epoch=state.leader_epoch,
            end=self.end_offset,
            high_watermark=self.high_watermark,
            topic_id=self.topic_id,
        )

    # -- leader: appends ----------------------------------------------------------------------------------------

    def append(
        self, now: int, batch: bytes | bytearray | memoryview, required_acks: int, produce_version: int = 12
    ) -> AppendAnswer:
        """Append a producer's batch, stamping it in place if it is writable. OSError from the disk passes through."""
        if not self.is_leader:
            return AppendAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if required_acks == ACKS_ALL and len(self._isr.committed) < self.min_isr:
            return AppendAnswer(
                ErrorCode.NOT_ENOUGH_REPLICAS, message=f"ISR {list(self.isr)} is smaller than min ISR {self.min_isr}"
            )
        try:
            appended = self.log.append_as_leader(
                batch, self.leader_epoch, self._clock.now_ms(), from_client=True, produce_version=produce_version
            )
        except LogError as refusal:
            return AppendAnswer(ErrorCode[refusal.kind], message=refusal.message)
        if not appended.duplicate:
            self._event("append", first=appended.first_offset, last=appended.last_offset, epoch=self.leader_epoch)
        return AppendAnswer(
            NO_ERROR,
            appended.first_offset,
            appended.last_offset,
            appended.log_append_time,
            self.log.start_offset,
            self.leader_epoch,
            appended.duplicate,
            self._advance(now),
        )

    def produce_status(self, leader_epoch: int, required_offset: int) -> int | None:
        """Whether acks=all is met for an append made in `leader_epoch` (rule 3): None for not yet, else an error code.

        0 is success. A replica that has lost its leadership since then does not know the outcome of the records, even
        if it leads again; neither does one whose ISR has fallen below min ISR (rule 2). Both outcomes are unknown, not
        failed.
        """
        if not self.is_leader or leader_epoch < self._leading_since:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark < required_offset:
            return None
        if len(self._isr.committed) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return NO_ERROR

    # -- leader: fetches ----------------------------------------------------------------------------------------

    def follower_fetch(
        self,
        now: int,
        replica_id: int,
        broker_epoch: int,
        offset: int,
        last_fetched_epoch: int,
        current_leader_epoch: int,
        *,
        arrived: bool = True,
        log_start_offset: int = -1,
    ) -> FetchBounds:
        """Return what a follower may read; for a fetch that has just `arrived`, also update the follower's progress.

        A parked fetch that is evaluated again (`arrived=False`) must not count: it proves nothing new, and nothing
        about now. Neither must a late one, whose follower has fetched from a higher offset since. Kafka lets it
        count, and corrects that at the next fetch of the follower's session, which updates all that the session holds.
        """
        if self._unfenced:
            current_leader_epoch = last_fetched_epoch = -1
        error = self._check_epoch(current_leader_epoch)
        if error:
            return self._refusal(error)
        remote = self._remotes.get(replica_id)
        if remote is None:
            return self._refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if -1 < broker_epoch < self._newest_epoch(remote):
            return self._refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        end = self.log.end_offset
        bounds = self._bounds(offset, last_fetched_epoch, end)
        if not arrived or bounds.error or bounds.diverging is not None or remote.is_late(offset, broker_epoch):
            return bounds
        moved = remote.end_offset != offset
        remote.fetched(now, offset, end, broker_epoch)
        remote.log_start_offset = log_start_offset
        self._maybe_expand(remote)
        if (moved or self.high_watermark < end) and self._advance(now):
            return self._allowed(offset, end, advanced=True)
        return bounds

    def _newest_epoch(self, remote: RemoteReplica) -> int:
        """The newest broker epoch of a follower, as far as it is known here: registered, or named by its fetches.

        A fetch of an earlier incarnation may come after one of the next, before this broker has heard of that
        registration (`worlds` 1031160). To count it would be to count what that incarnation had, and may have lost with
        it. Kafka compares with the registration only.
        """
        registered = self._view.broker_epoch(remote.broker)
        return max(-1 if registered is None else registered, -1 if remote.broker_epoch is None else remote.broker_epoch)

    def follower_stayed(self, replica_id: int, offset: int, at: int) -> None:
        """Record that a follower with all of the log up to `offset` still fetched at this time, without naming it."""
        remote = self._remotes.get(replica_id)
        if remote is not None and remote.end_offset == offset:
            remote.stayed(at)

    def follower_epochs(self) -> list[tuple[int, int]]:
        """(broker, broker epoch) of the followers that have fetched in this leader epoch, as their last fetches say."""
        remotes = self._remotes.items() if self.is_leader else ()
        return [(broker, one.broker_epoch) for broker, one in remotes if one.broker_epoch is not None]

    def follower_ends(self) -> dict[int, int]:
        """The log end of each follower, as its last fetch in this leader epoch says; -1 before its first fetch."""
        return {broker: one.end_offset for broker, one in self._remotes.items()} if self.is_leader else {}

    def follower_starts(self) -> dict[int, int]:
        """The log start of each follower, likewise."""
        return {broker: one.log_start_offset for broker, one in self._remotes.items()} if self.is_leader else {}

    def followers_caught_up(self) -> dict[int, int]:
        """When each follower is known to have had everything, in microseconds; who has everything now may be later."""
        return {broker: one.caught_up_at for broker, one in self._remotes.items()} if self.is_leader else {}

    def in_sync_followers_with(self, offset: int) -> list[tuple[int, int]]:
        """(broker, log end) of the followers in the ISR that have the record at `offset`, or will have it next."""
        return [
            (broker, remote.end_offset)
            for broker, remote in self._remotes.items()
            if broker in self._isr.committed and remote.log_start_offset <= offset <= remote.end_offset
        ]

    # -- leader: high watermark ---------------------------------------------------------------------------------

    def _advance(self, now: int) -> bool:
        """Raise the leader's high watermark as far as the rules allow; return whether it moved."""
        if not self.is_leader:
            return False
        target = self._least_end(now)
        if target <= self.high_watermark:
            return False
        self._set_high_watermark(target)
        return True

    def _least_end(self, now: int) -> int:
        """Least log end over the maximal ISR and those about to join it; the present value while below min ISR."""
        end = self.log.end_offset
        if self._high_watermark_is_log_end:
            return end
        if len(self._isr.committed) < self.min_isr and not self._mutants.has("hw-advances-under-min-isr"):
            return self.high_watermark
        least = end
        counted = self._counted()
        for broker, remote in self._remotes.items():
            if remote.end_offset < least and (broker in counted or self._is_joining(now, remote, end)):
                least = remote.end_offset
        return least

    def _counted(self) -> tuple[int, ...]:
        """The ISR that the high watermark waits for: whichever way a pending change ends, the maximal one."""
        pending = self._isr.pending
        if pending is not None:
            if self._mutants.has("isr-shrink-uncommitted") and len(pending.members) < len(self._isr.committed):
                return pending.members
            if self._mutants.has("isr-expand-ignored"):
                return self._isr.committed
        return self._isr.maximal

    def _is_joining(self, now: int, remote: RemoteReplica, end: int) -> bool:
        if self._mutants.has("isr-expand-ignored"):
            return False
        return remote.is_caught_up(now, end, self._config.lag_time_max) and self._is_eligible(remote)

    # -- leader: ISR --------------------------------------------------------------------------------------------

    def _is_eligible(self, remote: RemoteReplica) -> bool:
        """Whether a follower may join the ISR (rule 19, IS-08): unfenced, not stopping, the current incarnation."""
        if remote.broker_epoch is None or not self._view.is_eligible(remote.broker):
            return False
        return remote.broker_epoch == -1 or remote.broker_epoch == self._view.broker_epoch(remote.broker)

    def _maybe_expand(self, remote: RemoteReplica) -> None:
        if self._isr.pending is not None or remote.broker in self._isr.committed:
            return
        reached = remote.end_offset >= self.high_watermark and remote.end_offset >= self._epoch_start
        if reached and self._is_eligible(remote):
            self._propose((*self._isr.committed, remote.broker))

    def maybe_shrink(self, now: int) -> bool:
        """Propose to drop members that have not been caught up for too long; return whether the high watermark moved.

        Call every `lag_time_max / 2`. This also advances the high watermark, which may have been waiting for a replica
        outside the ISR that no longer keeps up.
        """
        if not self.is_leader:
            return False
        if self._isr.pending is None:
            staying = tuple(member for member in self._isr.committed if not self._is_lagging(now, member))
            if staying != self._isr.committed:
                self._propose(staying)
        return self._advance(now)

    def _is_lagging(self, now: int, member: int) -> bool:
        remote = self._remotes.get(member)
        return remote is not None and not remote.is_caught_up(now, self.end_offset, self._config.lag_time_max)

    def _propose(self, members: tuple[int, ...]) -> None:
        proposal = IsrProposal(
            self.topic_id,
            self.partition,
            self.leader_epoch,
            self.partition_epoch,
            tuple((member, self._member_epoch(member)) for member in members),
            grows=len(members) > len(self._isr.committed),
        )
        self._isr = self._isr.proposing(proposal)
        self._event(
            "isr_proposed",
            isr=members,
            partition_epoch=self.partition_epoch,
            leader_epoch=self.leader_epoch,
            topic_id=self.topic_id,
        )

    def _member_epoch(self, member: int) -> int:
        if member == self.broker:
            own = self._view.broker_epoch(member)
            return -1 if own is None else own
        remote = self._remotes.get(member)
        return -1 if remote is None or remote.broker_epoch is None else remote.broker_epoch

    def proposal_answered(self, now: int, proposal: IsrProposal, answer: ProposalAnswer) -> bool:
        """Apply the controller's response (rule 21); return whether the high watermark moved.

        Afterwards `proposal` is None unless it must be sent again. A response to a proposal that metadata has replaced
        is ignored. Some errors leave the decision unknown; then the change stays pending, counted both ways, until
        metadata arrives.
        """
        if proposal is not self._isr.pending:
            return False
        if answer.error == NO_ERROR:
            current = answer.leader_epoch == self.leader_epoch and answer.partition_epoch >= self.partition_epoch
            if current:
                self.partition_epoch = answer.partition_epoch
                self._take_isr(answer.isr)
            else:
                self._isr = self._isr.undecided()
        elif answer.error in _REVERT:
            self._isr = self._isr.reverted()
        elif answer.error in _AWAIT_METADATA:
            self._isr = self._isr.undecided()
        return self._advance(now)

    # -- log start ----------------------------------------------------------------------------------------------

    def delete_before(self, offset: int) -> DeletionAnswer:
        """DeleteRecords: raise the log start to `offset` (-1: to the high watermark). See log_start.py."""
        if not self.is_leader:
            return DeletionAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._event("deletion_asked", offset=offset)
        answer = self._log_start.delete_before(offset, self.high_watermark)
        self._log_start_moved(answer.moved)
        return answer

    @property
    def low_watermark(self) -> int:
        """The least log start over the leader and the live followers; nothing below it will be read again."""
        return self._log_start.low_watermark(self._remotes.values(), self._view)

    def retain(self) -> bool:
        """Apply retention; return whether the log start moved."""
        return self._log_start_moved(self._log_start.retain(self.high_watermark, self._clock.now_ms()))
