"""Faults, workloads, checks and systems of installed packages, found by entry points."""
