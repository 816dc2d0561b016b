"""Histories, checks, verdicts and reports. Reads histories; never needs a cluster."""
