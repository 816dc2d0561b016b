"""Composition: one node from its parts, request channels, dispatch tables, outbound links. Pure."""
