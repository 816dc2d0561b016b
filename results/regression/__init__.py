"""Regressions between samples of runs and over nights: rows of the lake in, decisions and their reasons out."""
