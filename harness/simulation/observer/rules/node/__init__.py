"""Rules about one node alone: when it acts, what it counts, and what its metrics say."""
