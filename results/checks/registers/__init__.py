"""Check linearizability of registers: exact rules if values are unique, a bounded search if they are not."""
