"""What people have decided about change points: `LAKE/triage.jsonl`, one line for each decision, only appended to.

The newest decision about a point counts. A point that moves by a night or two, as later nights make it more certain,
keeps its decision.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Final, Literal

import msgspec

TRIAGE_FILE: Final = "triage.jsonl"
NIGHTS_APART: Final = 3
"""A point that lies closer than this many days to the one decided about is the same."""

State = Literal["open", "acknowledged", "hidden", "fixed"]


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """A decision about a point: its id, scenario, metric and night; the state, why, who decided it and when."""

    point: str
    scenario: str
    metric: str
    night: str
    state: State
    note: str
    who: str
    at: str


def append(root: Path, decision: Triage) -> Path:
    """Append a decision to a lake's file, whole, and make it durable. Raises OSError."""
    path = root / TRIAGE_FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, b"\n" * torn + msgspec.json.encode(decision) + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return path


def decisions(root: Path, say: Callable[[str], None]) -> list[Triage]:
    """Return all decisions, the oldest first. A line that cannot be read is left out, and `say` gets to know it."""
    path = root / TRIAGE_FILE
    found = []
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line, type=Triage))
        except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
            say(f"{path}:{number}: left out, since it is no decision about a point: {trouble}")
    return found


def decided(known: Sequence[Triage], scenario: str, metric: str, night: str) -> Triage | None:
    """Return the newest decision about the point of a series that begins on a night; None if there is none."""
    return next(
        (
            one
            for one in reversed(known)
            if (one.scenario, one.metric) == (scenario, metric) and _days(one.night, night) < NIGHTS_APART
        ),
        None,
    )


def _days(one: str, other: str) -> int:
    try:
        return abs((date.fromisoformat(one) - date.fromisoformat(other)).days)
    except ValueError:
        return 0 if one == other else NIGHTS_APART
