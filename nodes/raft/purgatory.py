"""Park fetches at the leader until there is something new.

A fetch at the log's end is held for at most the fetcher's own wait. It completes when records arrive, and also when the
high watermark passes the value last sent to that fetcher: Kafka then lets it wait for the next record or the timeout,
which would cost every observer up to half a second per change. This is compatible on the wire: a response without
records but with a newer high watermark is always legal.
"""

from __future__ import annotations

from typing import NamedTuple

from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.config import NEVER


class ParkedFetch(NamedTuple):
    """A fetch for which there is nothing new yet."""

    request: ServerRequest
    replica_id: int
    offset: int
    max_bytes: int
    told_high_watermark: int
    expires_at: int


class FetchPurgatory:
    """Parked fetches in order of arrival."""

    def __init__(self) -> None:
        self._parked: list[ParkedFetch] = []

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, fetch: ParkedFetch) -> None:
        self._parked.append(fetch)

    def take_ready(self, now: int, end: int, high_watermark: int) -> list[ParkedFetch]:
        """Remove and return the fetches whose wait is over, and those for which there are records or a high watermark.

        Drop those whose connection has closed.
        """
        taken: list[ParkedFetch] = []
        kept: list[ParkedFetch] = []
        for fetch in self._parked:
            if fetch.request.closed:
                continue
            news = fetch.offset < end or high_watermark > fetch.told_high_watermark
            (taken if news or fetch.expires_at <= now else kept).append(fetch)
        self._parked = kept
        return taken

    def take_all(self) -> list[ParkedFetch]:
        """Remove and return every fetch whose connection is open."""
        taken = [fetch for fetch in self._parked if not fetch.request.closed]
        self._parked = []
        return taken

    def deadline(self) -> int:
        nearest = NEVER
        for fetch in self._parked:
            if fetch.expires_at < nearest:
                nearest = fetch.expires_at
        return nearest
