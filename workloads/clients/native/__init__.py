"""Our own client: every request and answer of it is recorded."""
