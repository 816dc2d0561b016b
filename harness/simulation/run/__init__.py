"""Simulated runs: one seed, many seeds, swarms, and the matrix of seeded bugs."""
