"""Invariants that hold at every moment of a simulated run."""
