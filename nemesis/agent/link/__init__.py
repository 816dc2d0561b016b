"""Faults of links: packets queued, delayed, lost and damaged."""
