"""Faults of clocks, of single processes or of the machine."""
