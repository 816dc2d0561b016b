"""The error of a history that cannot be judged."""

from __future__ import annotations

from pathlib import Path


class IllFormedHistory(Exception):
    """A history that cannot be judged. Names the file and, where there is one, the row; the verdict is unknown."""

    def __init__(self, file: Path | str, row: int | None, problem: str) -> None:
        where = f"{file}:{row}" if row is not None else str(file)
        super().__init__(f"{where}: {problem}")
        self.file = str(file)
        self.row = row
        self.problem = problem
