"""Faults of processes: signals, limits, throttling, stress."""
