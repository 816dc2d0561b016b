"""Check names that become parts of paths, and raise the error for invalid ones.

A name from a person or a file (a lab, a host) is joined to a directory that commands later remove. So a name is checked
on input, before any path is made of it: no separator, no `..`, no empty name, no leading hyphen that a program would
read as an option.
"""

from __future__ import annotations

import re

from squall.harness.errors import UsageError

LONGEST = 48
"""The longest name of a lab: paths of Unix sockets that hold it must stay below 108 bytes."""

_LAB = re.compile(r"[a-z0-9][a-z0-9-]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def checked_lab_name(name: str) -> str:
    """Return the name of a lab if it is valid. Raises UsageError."""
    if _LAB.fullmatch(name) is None or len(name) > LONGEST:
        raise UsageError(
            f"--name: {name!r} is not the name of a lab",
            remedy=f"use 1 to {LONGEST} of the characters a-z, 0-9 and -, the first no hyphen, as in --name mine",
        )
    return name


def is_host_name(name: str) -> bool:
    """Return whether this is a valid name of a host: files of a run are kept in a directory of that name."""
    return _HOST.fullmatch(name) is not None
