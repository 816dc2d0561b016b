"""Counts of what happened in a simulated run, for the summary of many seeds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counters:
    """Counts of what happened in a run."""

    quorum_leaders: int = 0
    partition_leaders: int = 0
    isr_changes: int = 0
    elr_changes: int = 0
    truncations: int = 0
    unclean_elections: int = 0
    declared_losses: int = 0
    committed_batches: int = 0
    voter_changes: int = 0
    controlled_shutdowns: int = 0
    acknowledged: int = 0
    unsynced_ends_lost: int = 0
    """Log ends that were not durable when a host lost power, and were shorter after it."""
    unsynced_ends_kept: int = 0
