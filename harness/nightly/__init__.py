"""Nights: many items within a budget, on hosts that a hook provides, with a ledger from which a night resumes."""
