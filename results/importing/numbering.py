"""Give numbers to keys and values of any type, because the checkers know only integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from squall.results.importing.edn import shown


@dataclass
class Numbering:
    """Integers from 0 up to `below` are kept; other values get numbers from `below` on, in order of appearance.

    Values are distinguished by type and content: 1, "1" and :1 are three.
    """

    below: int
    names: dict[str, int] = field(default_factory=dict)

    def of(self, value: Any) -> int:
        """Return the number of a value."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < self.below:
            return value
        return self.names.setdefault(shown(value), self.below + len(self.names))

    def given(self) -> Iterator[tuple[int, str]]:
        """Yield the numbers that were assigned, each with the value that it stands for."""
        yield from ((number, name) for name, number in self.names.items())


@dataclass
class Order:
    """The places of keys in the order of their appearance, from 0."""

    places: dict[str, int] = field(default_factory=dict)

    def of(self, key: Any) -> int:
        """Return the place of a key."""
        return self.places.setdefault(shown(key), len(self.places))

    @property
    def names(self) -> list[str]:
        """Return the keys by place."""
        return list(self.places)
