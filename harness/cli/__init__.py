"""The commands of `squall`, one module each."""
