"""Proofs in words and pictures."""
