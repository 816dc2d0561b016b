"""What an observer of a cluster reports: markers, the records of final reads, positions of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

MARKER: Final = 1 << 62
"""The values of markers begin here."""

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class Read:
    """Records of one poll: offset and value of each, and when it was."""

    topic: str
    partition: int
    invoked: int
    completed: int
    records: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Marked:
    """An acknowledged marker."""

    topic: str
    partition: int
    invoked: int
    completed: int
    value: int
    offset: int


@dataclass(frozen=True)
class Position:
    """A register, such as a group's position, that was written (committed) or read; `name` is its name in a history."""

    name: str
    f: Literal["read", "write"]
    invoked: int
    completed: int | None
    offset: int
    type: Literal["ok", "fail", "info"] = "ok"


def position_of(group: str, topic: str, partition: int) -> str:
    """The name of a group's position as a register."""
    return f"position of {group} on {topic}-{partition}"
