"""What a broker has taken in and given out since it started: plain counters, read by the metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """Bytes are those of record batches, as they stand in the log. What followers fetch is counted apart; what this
    broker fetches itself, its fetchers count (`Replicas.replicated_bytes`)."""

    bytes_in: int = 0
    messages_in: int = 0
    bytes_out: int = 0
    replication_bytes_out: int = 0
    produce_failures: int = 0
    """Topic-partitions of produce requests that were refused."""
