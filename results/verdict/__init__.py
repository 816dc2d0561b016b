"""The verdict of a run: its reasons, its requirements, its latencies."""
