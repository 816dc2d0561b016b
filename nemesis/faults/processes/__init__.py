"""Faults of processes and of the hosts they run on."""
