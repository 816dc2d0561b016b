"""Rules about what clients are answered."""
