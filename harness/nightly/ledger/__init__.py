"""The ledger of a night: what it consists of, what has happened, and the state that follows."""
