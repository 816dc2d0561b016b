"""Checks and encodes names that become file names on this host: fault ids, process names.

Files of a fault or process are written, replaced and removed, often by root. So names are checked where a verb is
called. An id may contain slashes, so it is encoded in a way that its file name never leaves its directory and is never
hidden.
"""

from __future__ import annotations

import re
import urllib.parse
from typing import Any

from squall.nemesis.agent.core.verb_error import VerbError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+/-]{0,99}")
_PROCESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def checked_id(arguments: dict[str, Any]) -> str:
    """The id of a fault to inject. Raises VerbError."""
    id = arguments.get("id")
    if not isinstance(id, str) or _ID.fullmatch(id) is None:
        raise VerbError(
            "bad_argument",
            f"id: {id!r} must be 1 to 100 letters, digits and any of . _ : @ + / -, the first a letter or digit",
        )
    return id


def checked_process(name: object) -> str:
    """The name of a process. Raises VerbError."""
    if not isinstance(name, str) or _PROCESS.fullmatch(name) is None:
        raise VerbError(
            "bad_argument",
            f"name: {name!r} is not a process name: 1 to 64 letters, digits and . _ -, the first a letter or digit",
        )
    return name


def file_name(id: str) -> str:
    """Encode an id as one path component: never `.`, `..`, hidden, or with a separator. `id_of` decodes it."""
    quoted = urllib.parse.quote(id, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted or "%"


def id_of(name: str) -> str:
    return urllib.parse.unquote(name)
