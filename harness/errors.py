"""The one error type that ends a command with exit status 254.

A `UsageError` is trouble that a person can mend: a wrong field in a file, a host that cannot be reached, a
missing tool. It therefore says *what* is wrong, naming the file, the field and the value, and *what would be
right*. Everything else that escapes a command is a crash of ours (255).

    raise UsageError("b2 (10.0.0.12): connection refused on port 22", remedy="start sshd there")

Several such troubles found together (a file with three bad fields) travel as one error: `UsageError.joined`.
"""

from __future__ import annotations

from collections.abc import Sequence

USAGE_EXIT_STATUS = 254


class UsageError(Exception):
    """Bad usage or configuration; `str(error)` is the whole message, remedy included."""

    def __init__(self, problem: str, *, remedy: str | None = None) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(problem if remedy is None else f"{problem}\n    {remedy}")

    @classmethod
    def joined(cls, errors: Sequence[UsageError]) -> UsageError:
        """One error that prints each of `errors` in turn."""
        if len(errors) == 1:
            return errors[0]
        return cls("\n".join(str(error) for error in errors))
