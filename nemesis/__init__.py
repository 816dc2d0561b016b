"""Faults as objects with inject, heal and evidence; schedules; the host agent."""
