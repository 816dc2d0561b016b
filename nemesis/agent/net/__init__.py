"""Faults of the network: filters, cut ports, resets, floods."""
