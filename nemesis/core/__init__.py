"""What every fault is made of: ports, targets, evidence, grudges, durations."""
