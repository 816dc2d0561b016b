"""Mutants generated from the nodes' syntax trees, and the share of them that the simulation catches."""
