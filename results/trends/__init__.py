"""Statistics over many runs: change points, comparisons, flake rates, findings. Numbers in, decisions out; no files.

`docs/trends.md` says what each figure means and which error rates were measured. Everything is deterministic: what
draws at random takes a seed.
"""
