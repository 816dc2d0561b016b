"""Clients that stand on real libraries."""
