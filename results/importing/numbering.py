"""Numbers for keys and values of any type: the checks know whole numbers alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from squall.results.importing.edn import shown


@dataclass
class Numbering:
    """Whole numbers from 0 up to `below` stay what they are; anything else gets one from there on, in the order of
    appearance. Values are told apart by type and content: 1, "1" and :1 are three.
    """

    below: int
    names: dict[str, int] = field(default_factory=dict)

    def of(self, value: Any) -> int:
        """The number of a value."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < self.below:
            return value
        return self.names.setdefault(shown(value), self.below + len(self.names))

    def given(self) -> Iterator[tuple[int, str]]:
        """The numbers that were given out, each with what it stands for."""
        yield from ((number, name) for name, number in self.names.items())


@dataclass
class Order:
    """The places of keys in the order of their appearance, from 0."""

    places: dict[str, int] = field(default_factory=dict)

    def of(self, key: Any) -> int:
        """The place of a key."""
        return self.places.setdefault(shown(key), len(self.places))

    @property
    def names(self) -> list[str]:
        """The keys by place."""
        return list(self.places)
