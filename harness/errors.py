"""The one error type that ends a command with exit status 254.

A `UsageError` is a failure that a person can correct: a wrong field in a file, an unreachable host, a missing tool. It
therefore says *what* is wrong, naming the file, the field and the value, and *what would be right*. Every other
exception that escapes a command is a crash of Squall (255).

    raise UsageError("b2 (10.0.0.12): connection refused on port 22", remedy="start sshd there")

Several failures found together (a file with three bad fields) travel as one error: `UsageError.joined`.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

USAGE_EXIT_STATUS = 254
INTERRUPTED_EXIT_STATUS = 130

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
OF_THE_FILE_SYSTEM = {
    **dict.fromkeys(NO_ROOM, "free some space, then repeat the command; what was written before is kept"),
    errno.EROFS: "name a place that can be written",
    errno.EACCES: "name a place that this user may write, or change its permissions",
    errno.EPERM: "name a place that this user may write, or change its permissions",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "one of the names before the last is a file; name a directory there",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "a symbolic link there leads to itself; remove it",
}
"""Failures of the file system that a person can correct, and what to do."""


class UsageError(Exception):
    """Bad usage or configuration; `str(error)` is the whole message, remedy included."""

    def __init__(self, problem: str, *, remedy: str | None = None) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(problem if remedy is None else f"{problem}\n    {remedy}")

    @classmethod
    def joined(cls, errors: Sequence[UsageError]) -> UsageError:
        """Return one error that prints each of `errors` in turn."""
        if len(errors) == 1:
            return errors[0]
        return cls("\n".join(str(error) for error in errors))


def file_problem(trouble: OSError) -> str | None:
    """Describe a failure that a person can correct: which file, why, what to do. None for any other."""
    remedy = OF_THE_FILE_SYSTEM.get(trouble.errno or 0)
    if remedy is None or (trouble.filename is None and trouble.errno not in NO_ROOM):
        return None
    where = "" if trouble.filename is None else f"{trouble.filename}: "
    return f"{where}{trouble.strerror}\n    {remedy}"
