"""Histories from elsewhere than a run: forged ones, and those of other tools."""
