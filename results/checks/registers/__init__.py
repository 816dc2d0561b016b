"""Linearizability of registers: exact rules where values are unique, a bounded search where they are not."""
