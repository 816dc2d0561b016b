"""Faults of networks, links and connections."""
