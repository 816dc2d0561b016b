"""Names that become parts of paths: which are allowed, and the error for all others.

A name that a person or a file gives (a lab, a host) is joined to a directory that commands later remove. So a name is
checked where it comes in, before any path is made of it: no separator, no `..`, no empty name, no leading hyphen that a
program would read as an option.
"""

from __future__ import annotations

import re

from squall.harness.errors import UsageError

LONGEST = 48
"""Of a lab's name: paths of Unix sockets that hold it must stay below 108 bytes."""

_LAB = re.compile(r"[a-z0-9][a-z0-9-]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def checked_lab_name(name: str) -> str:
    """The name of a lab. Raises UsageError."""
    if _LAB.fullmatch(name) is None or len(name) > LONGEST:
        raise UsageError(
            f"--name: {name!r} is not the name of a lab",
            remedy=f"use 1 to {LONGEST} of the characters a-z, 0-9 and -, the first no hyphen, as in --name mine",
        )
    return name


def is_host_name(name: str) -> bool:
    """Whether a host may be called so: files of a run are kept in a directory of that name."""
    return _HOST.fullmatch(name) is not None
