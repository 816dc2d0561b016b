"""`squall run` and commands about recorded runs: plan, check, show, timeline, watch."""
