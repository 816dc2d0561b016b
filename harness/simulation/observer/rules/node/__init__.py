"""Rules about one node alone: what it owes to its host, and what it tells of itself."""
