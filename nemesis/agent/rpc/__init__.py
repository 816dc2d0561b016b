"""Faults of single messages and streams, by a proxy before the node."""
