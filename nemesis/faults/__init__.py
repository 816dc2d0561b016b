"""The faults, by what they strike."""
