"""Reads from a replica: bounds for fetches, offsets by time, ends of epochs (rules 11, 13, 18).

A fetch gets bounds, never records: the high watermark for consumers and the log's end for followers, or the point where
its log diverges from this one (rule 13). A new leader's high watermark lags behind what its predecessor may have shown,
so the end of the log is not returned before it has reached the start of the leader's epoch (rule 11, KIP-207): records
that were read once do not disappear.

Mutant `end-offset-unguarded` in `list_offset`.
"""

from __future__ import annotations

from squall.nodes.protocol.errors import NO_ERROR, ErrorCode
from squall.nodes.replication.following import FollowingReplica
from squall.nodes.replication.ports import EpochEndAnswer, FetchBounds, OffsetAnswer

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
"""KIP-405, KIP-1005, KIP-1023. Logs are not tiered: all of a log is local, and nothing is or will be elsewhere."""


class ServingReplica(FollowingReplica):
    """See the module."""

    # -- fetches ------------------------------------------------------------------------------------------------

    def consumer_fetch(
        self, offset: int, current_leader_epoch: int, last_fetched_epoch: int = -1, *, from_any: bool = False
    ) -> FetchBounds:
        """What a consumer may read: records below the high watermark (DP-14).

        A follower responds only if the consumer permits it (`from_any`), by its own high watermark, which lags behind
        the leader's (rule 18): records for which the leader sent a consumer here may not be visible yet. read_committed
        gets the same as long as there are no transactions: the last stable offset is the high watermark.
        """
        error = self._check_epoch(current_leader_epoch)
        if error and not (from_any and error == ErrorCode.NOT_LEADER_OR_FOLLOWER):
            return self._refusal(error)
        return self._bounds(offset, last_fetched_epoch, self.high_watermark)

    def read(self, offset: int, max_bytes: int, upper: int, *, at_least_one: bool) -> memoryview:
        """Whole batches within bounds that a fetch has received."""
        return self.log.read(offset, max_bytes, upper=upper, at_least_one=at_least_one)

    def _refusal(self, error: int) -> FetchBounds:
        return FetchBounds(error, leader=self.leader, leader_epoch=self.leader_epoch)

    def _allowed(self, offset: int, upper: int, *, advanced: bool = False) -> FetchBounds:
        return FetchBounds(
            NO_ERROR, offset, upper, self.high_watermark, self.log.start_offset, None, self.broker,
            self.leader_epoch, advanced,
        )  # fmt: skip

    def _bounds(self, offset: int, last_fetched_epoch: int, upper: int) -> FetchBounds:
        """The bounds of a fetch (rule 13). An offset below the log's start is out of range for any epochs."""
        log = self.log
        if not log.start_offset <= offset:
            return self._out_of_range()
        if last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for(last_fetched_epoch)
            if epoch < 0:
                return self._out_of_range()
            if epoch < last_fetched_epoch or end < offset:
                return FetchBounds(
                    NO_ERROR, offset, offset, self.high_watermark, log.start_offset, (epoch, end), self.broker,
                    self.leader_epoch,
                )  # fmt: skip
        if offset > log.end_offset:
            return self._out_of_range()
        return self._allowed(offset, upper)

    def _out_of_range(self) -> FetchBounds:
        return FetchBounds(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            high_watermark=self.high_watermark,
            log_start_offset=self.log.start_offset,
            leader=self.broker,
            leader_epoch=self.leader_epoch,
        )

    # -- offsets ------------------------------------------------------------------------------------------------

    def list_offset(self, timestamp: int, current_leader_epoch: int, replica_id: int = -1) -> OffsetAnswer:
        """An offset by time, or the earliest, the latest, the one of the largest timestamp; -1 where there is none.

        Followers (`replica_id` >= 0) see the whole log, consumers what is below the high watermark. A new leader's high
        watermark lags behind what its predecessor may have shown; until it has reached the start of this epoch the end
        is not known (rule 11).
        """
        error = self._check_epoch(current_leader_epoch)
        if error:
            return OffsetAnswer(error)
        upper = self.end_offset if replica_id >= 0 else self.high_watermark
        lagging = replica_id < 0 and self.high_watermark < self._epoch_start
        if self._mutants.has("end-offset-unguarded"):
            lagging = False
        if timestamp == LATEST_TIMESTAMP:
            if lagging:
                return OffsetAnswer(ErrorCode.OFFSET_NOT_AVAILABLE)
            return OffsetAnswer(NO_ERROR, -1, upper, self.leader_epoch)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return self._offset_answer(-1, self.log.start_offset)
        if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return OffsetAnswer(NO_ERROR)
        wanted = self.log.max_timestamp() if timestamp == MAX_TIMESTAMP else timestamp
        found = self.log.offset_for_timestamp(wanted, upper) if wanted >= 0 else None
        if found is None:
            return OffsetAnswer(ErrorCode.OFFSET_NOT_AVAILABLE if lagging else NO_ERROR)
        return self._offset_answer(*found)

    def _offset_answer(self, timestamp: int, offset: int) -> OffsetAnswer:
        epoch = self.log.epochs.epoch_of(offset)
        return OffsetAnswer(NO_ERROR, timestamp, offset, -1 if epoch is None else epoch)

    def offset_for_leader_epoch(self, current_leader_epoch: int, epoch: int) -> EpochEndAnswer:
        """The end of an epoch in the leader's log (KIP-320); -1 and -1 for an epoch that has not begun, as in Kafka."""
        error = self._check_epoch(current_leader_epoch)
        if error or epoch > self.leader_epoch:
            return EpochEndAnswer(error)
        return EpochEndAnswer(NO_ERROR, *self.log.end_offset_for(epoch))
