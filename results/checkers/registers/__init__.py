"""Check linearizability of registers: exact rules for unique values, a bounded search for others."""
