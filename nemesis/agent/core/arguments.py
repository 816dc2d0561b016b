"""Check the arguments of verbs; an error names the argument."""

from __future__ import annotations

import math
from typing import Any

from squall.nemesis.agent.core.verb_error import VerbError


def required(arguments: dict[str, Any], name: str, kind: type | tuple[type, ...], what: str) -> Any:
    """Return the argument if it has that type. Raises VerbError with its name."""
    value = arguments.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise VerbError("bad_argument", f"{name}: {value!r} must be {what}")
    return value


def text(arguments: dict[str, Any], name: str) -> str:
    value: str = required(arguments, name, str, "a text")
    if not value:
        raise VerbError("bad_argument", f"{name}: must not be empty")
    return value


def number(arguments: dict[str, Any], name: str) -> float:
    value = float(required(arguments, name, (int, float), "a number"))
    if not math.isfinite(value):
        raise VerbError("bad_argument", f"{name}: {value} must be finite")
    return value


def whole(arguments: dict[str, Any], name: str, most: int) -> int:
    """A whole number from 0 to `most`. Raises VerbError."""
    value = number(arguments, name)
    if value != int(value) or not 0 <= value <= most:
        raise VerbError("bad_argument", f"{name}: {value:g} must be a whole number from 0 to {most}")
    return int(value)
