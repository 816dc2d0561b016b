"""One run on hosts, from its plan to its verdict."""
