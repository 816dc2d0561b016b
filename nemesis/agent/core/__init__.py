"""What every fault of the agent stands on: arguments, journal, fault manager, processes, helpers."""
