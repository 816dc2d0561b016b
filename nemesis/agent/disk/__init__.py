"""Faults of disks: calls that fail, wait or lie, damaged files, lost power."""
