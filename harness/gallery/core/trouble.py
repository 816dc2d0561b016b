"""What keeps a reproduction from happening."""

from __future__ import annotations


class NotReproduced(Exception):
    """The schedule could not be carried out as it is written, so that nothing is known: never green."""
