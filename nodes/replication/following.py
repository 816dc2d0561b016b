"""The follower's side of a replica: where to fetch, how to apply responses, where to truncate (rules 11, 13, 15).

The log is never truncated by the high watermark alone (KIP-101). The leader's responses state where both logs diverge,
and another fetch shows whether that was all (KIP-279). The high watermark follows the leader's, within the local log.

Mutant `divergent-suffix-kept` in `fetch_position`.
"""

from __future__ import annotations

from squall.nodes.protocol.records import HEADER_SIZE, BatchHeader
from squall.nodes.replication.base import BaseReplica
from squall.nodes.replication.ports import FetchPosition
from squall.nodes.storage.errors import LogError


class FollowingReplica(BaseReplica):
    """See the module."""

    def fetch_position(self) -> FetchPosition:
        """The position to fetch from the leader."""
        log = self.log
        epoch = None if self._keeps_divergent_suffix else log.last_epoch
        return FetchPosition(log.end_offset, -1 if epoch is None else epoch, self.leader_epoch, log.start_offset)

    def append_fetched(
        self,
        now: int,
        records: bytes | bytearray | memoryview,
        leader_high_watermark: int,
        leader_log_start: int = -1,
    ) -> None:
        """Append what the leader sent for `fetch_position`. Raises LogError (CORRUPT_MESSAGE), OSError."""
        if len(records):
            if self._ends_inside(records, leader_log_start):
                self._restart_at(leader_log_start)
            try:
                appended = self.log.append_as_follower(records)
            except LogError as refusal:
                self._event("records_refused", epoch=self.leader_epoch, end=self.end_offset, why=str(refusal))
                raise
            if appended.size:
                self._event("append", first=appended.first_offset, last=appended.last_offset, epoch=self.log.last_epoch)
        self._follow_high_watermark(leader_high_watermark)
        if leader_log_start > self.log.start_offset:
            self._log_start_moved(self._log_start.follow(leader_log_start, self.high_watermark))

    def _ends_inside(self, records: bytes | bytearray | memoryview, leader_log_start: int) -> bool:
        """Whether this log ends where the leader's begins, and that lies inside the batch that the leader sent.

        So it is after a divergence: the leader's log knew no epoch below its start, so that the start is where this one
        was cut. Nothing before it exists at the leader any more.
        """
        log = self.log
        if log.end_offset != leader_log_start or log.start_offset == log.end_offset or len(records) < HEADER_SIZE:
            return False
        first = BatchHeader.read(records)
        return first.base_offset < log.end_offset <= first.last_offset

    def _follow_high_watermark(self, leader_high_watermark: int) -> None:
        log = self.log
        offset = min(max(leader_high_watermark, log.start_offset), log.end_offset)
        if offset != self.high_watermark:
            self._set_high_watermark(offset)

    def truncate_diverging(self, now: int, epoch: int, end_offset: int) -> None:
        """Truncate at a divergence: the leader's largest epoch not above ours is `epoch`, ending at `end_offset`.

        If we know that epoch, the common part ends at the lesser of both ends; else at the end of our next lower epoch,
        and the next fetch continues from there (KIP-279). Several rounds may be needed, each truncates (DP-13).
        """
        own_epoch, own_end = self.log.end_offset_for(epoch)
        target = min(own_end, end_offset) if own_epoch == epoch else own_end if own_epoch >= 0 else end_offset
        self._truncate(min(target, self.end_offset))

    def truncate_to_leader_end(self, now: int, leader_end: int) -> bool:
        """Out of range at the leader (rule 15): truncate to its end if we have more. Return whether we had."""
        if leader_end >= self.end_offset:
            return False
        self._truncate(leader_end)
        return True

    def restart_from_leader_start(self, now: int, leader_start: int) -> bool:
        """Out of range at the leader (rule 15): drop everything and restart if its log begins after our end.

        Return whether it does; if not, the leader's log has changed since it refused, and the fetch may be retried.
        """
        if leader_start <= self.end_offset:
            return False
        self._restart_at(leader_start)
        return True

    def _restart_at(self, leader_start: int) -> None:
        self._event("truncate", to=leader_start, end=self.end_offset, high_watermark=self.high_watermark)
        self.log.restart_at(leader_start)
        self._set_high_watermark(leader_start)
