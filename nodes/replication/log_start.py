"""A replica's log start offset: the leader decides, followers follow, and the high watermark is the limit (DP-07).

The leader's log start moves by DeleteRecords and by retention. A follower receives it with each fetch response and
sends its own in its fetches. The least log start over the leader and the followers that are alive is the *low
watermark*: no replica that might lead next has anything below it, so a DeleteRecords waits for it.

Records at or above the high watermark may still be replaced by another leader's; a log that began above it would have
ruled that out. Mutant `log-start-past-hw` permits it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from squall.nodes.mutants import Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.replication.ports import BrokerView
from squall.nodes.replication.remote import UNKNOWN_OFFSET, RemoteReplica
from squall.nodes.storage.log import Log

TO_HIGH_WATERMARK = -1
"""The offset with which a client deletes all committed records."""


@dataclass(frozen=True, slots=True)
class DeletionAnswer:
    """The result of a deletion up to `offset`: complete everywhere once the low watermark has reached it."""

    error: int
    offset: int = -1
    moved: bool = False


class LogStart:
    """The beginning of one replica's log. Callers pass in the high watermark."""

    def __init__(self, log: Log, mutants: Mutants) -> None:
        self._log = log
        self._passes_high_watermark = mutants.has("log-start-past-hw")

    def _limit(self, high_watermark: int) -> int:
        return self._log.end_offset if self._passes_high_watermark else high_watermark

    def delete_before(self, offset: int, high_watermark: int) -> DeletionAnswer:
        """As the leader: begin at `offset`, or at the high watermark if it is -1.

        OFFSET_OUT_OF_RANGE above the high watermark or below 0.
        """
        wanted = self._limit(high_watermark) if offset == TO_HIGH_WATERMARK else offset
        if not 0 <= wanted <= self._limit(high_watermark):
            return DeletionAnswer(ErrorCode.OFFSET_OUT_OF_RANGE)
        return DeletionAnswer(ErrorCode.NONE, wanted, self._log.advance_start(wanted))

    def follow(self, leader_start: int, high_watermark: int) -> bool:
        """As a follower: begin where the leader does, as far as known to be committed; return whether it moved."""
        return self._log.advance_start(min(leader_start, high_watermark))

    def retain(self, high_watermark: int, now_ms: int) -> bool:
        """Leader or follower: begin as late as retention allows; return whether it moved."""
        return self._log.retain(self._limit(high_watermark), now_ms)

    def low_watermark(self, followers: Iterable[RemoteReplica], view: BrokerView) -> int:
        """As the leader: the least log start of all that are alive; -1 while one of them has not reported.

        What an earlier incarnation reported says nothing of one that may have lost its disk since (seed 991096 of
        worlds). Kafka takes it until the next fetch.
        """
        alive = [_reported_by(remote, view) for remote in followers if view.is_eligible(remote.broker)]
        return min([self._log.start_offset, *alive])


def _reported_by(follower: RemoteReplica, view: BrokerView) -> int:
    """The log start of a follower's present incarnation; -1 if it has not fetched yet."""
    fetched, registered = follower.broker_epoch, view.broker_epoch(follower.broker)
    if fetched is not None and registered is not None and -1 < fetched < registered:
        return UNKNOWN_OFFSET
    return follower.log_start_offset
