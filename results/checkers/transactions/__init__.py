"""Check transactions: dependency cycles of list-append histories, and the rules of transactional logs."""
