"""A run to watch: what one log of a run went through, as one page with a slider that opens offline."""
