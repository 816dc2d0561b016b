"""A host that lets rare but legal things happen at given places; see `nodes/buggify.py`."""

from __future__ import annotations


class At:
    """Lets the thing happen at these places at each visit, `times` in all. `visited` has every place asked about."""

    def __init__(self, *places: str, times: int = 1_000_000) -> None:
        self.times = times
        self.visited: list[str] = []
        self._places = places

    def happens(self, name: str) -> bool:
        self.visited.append(name)
        if name not in self._places or self.times <= 0:
            return False
        self.times -= 1
        return True
