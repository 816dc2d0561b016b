"""Raft's way to replicate, beside KRaft's: the leader pushes. For simulations and benchmarks."""
