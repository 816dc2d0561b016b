"""Commands about many runs: comparison and gates, change points over nights, flakes."""
