"""Commands about many runs and their figures: benchmarks, the lake, comparison and gates, change points, flakes."""
