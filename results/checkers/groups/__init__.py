"""The rules of consumer groups."""
