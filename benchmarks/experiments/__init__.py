"""The experiments of the sources, one module each: `run(short)` and `pictures(measurements)` (docs/experiments.md)."""
