"""Add rows to the lake: of runs, and of everything else (campaigns of seeds, kill matrices, benchmarks)."""
