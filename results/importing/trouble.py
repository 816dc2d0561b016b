"""The error of an import: what is wrong with a foreign history, and where."""

from __future__ import annotations

from pathlib import Path


class ForeignTrouble(Exception):
    """A line that cannot be read or mapped. Names file, line and value, and states what is expected."""

    def __init__(self, file: Path | str, line: int | None, problem: str, remedy: str | None = None) -> None:
        where = f"{file}:{line}" if line is not None else str(file)
        super().__init__(f"{where}: {problem}")
        self.remedy = remedy
