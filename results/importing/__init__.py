"""Reads the histories of other tools and writes them as runs that the checks judge."""
