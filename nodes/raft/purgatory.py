"""Fetches that wait at the leader for something new.

A fetch at the log's end is held for at most the fetcher's own wait. It is answered when records arrive, and also when
the high watermark passes what that fetcher was last told: Kafka lets it wait for the next record or the timeout then,
which would cost every observer up to half a second per change. The wire is none the wiser: an answer without records
but with a newer high watermark is always legal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from squall.nodes.protocol.session import ServerRequest
from squall.nodes.raft.config import NEVER


@dataclass(frozen=True, slots=True)
class ParkedFetch:
    """A fetch that could not be answered with news yet."""

    request: ServerRequest
    replica_id: int
    offset: int
    max_bytes: int
    told_high_watermark: int
    expires_at: int


class FetchPurgatory:
    """Parked fetches in the order in which they came."""

    def __init__(self) -> None:
        self._parked: list[ParkedFetch] = []

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, fetch: ParkedFetch) -> None:
        self._parked.append(fetch)

    def take(self, ready: Callable[[ParkedFetch], bool]) -> list[ParkedFetch]:
        """Remove and return those that are ready; forget those whose connection is gone."""
        if not self._parked:
            return []
        taken: list[ParkedFetch] = []
        kept: list[ParkedFetch] = []
        for fetch in self._parked:
            if fetch.request.closed:
                continue
            (taken if ready(fetch) else kept).append(fetch)
        self._parked = kept
        return taken

    def take_all(self) -> list[ParkedFetch]:
        return self.take(lambda fetch: True)

    def deadline(self) -> int:
        return min((fetch.expires_at for fetch in self._parked), default=NEVER)
