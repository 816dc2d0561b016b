"""Forged histories: healthy ones of any size, and each anomaly put into them."""
