"""Datagrams and connections between hosts that show which faults are in force."""
