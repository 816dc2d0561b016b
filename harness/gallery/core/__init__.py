"""What every family of systems in the gallery shares: entries, steps, client programs, what is observed, the watch."""
