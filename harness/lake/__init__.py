"""Add rows about everything but runs to the lake: campaigns of seeds, kill matrices, benchmarks."""
