"""Composition of one node: its parts, request channels, dispatch tables, outbound links. Pure."""
