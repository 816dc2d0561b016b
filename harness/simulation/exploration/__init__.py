"""Guided exploration: which behaviour a run showed, and which run to continue next."""
