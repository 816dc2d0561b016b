"""Nodes on this machine, without a lab."""
