"""Make and remove marked directories: nothing without Squall's mark is removed.

    make_owned(path, kind="lab", name="mine", …)      a new directory, 0700, with the mark as its first file
    remove_owned(path, kind="lab", name="mine")       all of it, or DirectoryNotOurs, having removed nothing

A directory is ours if it is a directory and no symbolic link, belongs to the calling user, and holds a regular file
`.squall` of the same owner that describes it. The mark is the first file that is written and the last that is removed,
so that a directory whose making or removing was interrupted by SIGKILL is recognised and removed next time. The one
state without a mark is an empty directory, which `rmdir` removes without harm.

`private_directory` is for state below a directory that every user may write to: 0700, ours, no link, or a clear error.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from squall.harness.errors import UsageError

MARK = ".squall"


class DirectoryNotOurs(UsageError):
    """A directory that is not removed or used, because nothing shows that Squall made it."""


def private_directory(path: Path, remedy: str) -> Path:
    """Return the directory, made if need be, that no other user can read or write. Raises DirectoryNotOurs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "not a directory"
        raise DirectoryNotOurs(f"{path} is {what}; state of labs is not kept there", remedy=remedy)
    if found.st_uid != os.geteuid():
        raise DirectoryNotOurs(f"{path} belongs to user {found.st_uid}, not to you ({os.geteuid()})", remedy=remedy)
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise DirectoryNotOurs(
            f"{path} has mode {stat.S_IMODE(found.st_mode):04o}; others can use it",
            remedy=f"make sure that its content is yours, then: chmod 700 {path}",
        )
    return path


def make_owned(path: Path, kind: str, name: str, *, mode: int = 0o700, **facts: object) -> None:
    """Make a directory with its mark in it. Raises FileExistsError."""
    path.mkdir(mode=0o700, parents=True)
    text = json.dumps({"squall": kind, "name": name, **facts})
    descriptor = os.open(path / MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w") as file:
        file.write(text)
    path.chmod(mode)


def mark_of(path: Path, kind: str) -> dict[str, Any] | None:
    """Return the content of a directory's mark; None unless the directory is ours and of that kind."""
    with contextlib.suppress(OSError, ValueError):
        directory, mark = path.lstat(), (path / MARK).lstat()
        ours = {directory.st_uid, mark.st_uid} == {os.geteuid()}
        if stat.S_ISDIR(directory.st_mode) and stat.S_ISREG(mark.st_mode) and ours:
            told = json.loads((path / MARK).read_text())
            if isinstance(told, dict) and told.get("squall") == kind:
                return told
    return None


def refuse_foreign(path: Path, kind: str, name: str) -> None:
    """Raise DirectoryNotOurs unless the directory is ours, of that kind and name, or empty and ours, or absent."""
    told = mark_of(path, kind)
    if told is not None and told.get("name") == name:
        return
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not any(path.iterdir()):
        return
    raise DirectoryNotOurs(
        f"{path} is not removed: it bears no mark ({MARK}) that Squall made it for {kind} {name}",
        remedy="inspect its content, and remove it by hand if it is not needed",
    )


def remove_owned(path: Path, kind: str, name: str, *, last: Sequence[str] = ()) -> None:
    """Remove such a directory: first all else, then the files `last` in that order, then the mark.

    Missing files are ignored, so it may be repeated, and run by two processes at the same time.

    Raises:
        DirectoryNotOurs: nothing was removed.
        UsageError: something in it cannot be removed; the mark is still there.
    """
    refuse_foreign(path, kind, name)
    if not path.exists():
        return
    kept = (*last, MARK)
    for entry in sorted(path.iterdir()):
        if entry.name not in kept:
            _remove(entry)
    for one in kept:
        (path / one).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        path.rmdir()


def _remove(entry: Path) -> None:
    try:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, onerror=_permit_and_repeat)
        else:
            entry.unlink(missing_ok=True)
    except FileNotFoundError:
        _remove_again(entry)
    except OSError as trouble:
        raise UsageError(
            f"{trouble.filename or entry} cannot be removed: {trouble.strerror}",
            remedy="remove the reason, then repeat: squall lab down",
        ) from None


def _permit_and_repeat(function: Callable[..., Any], path: str, _: object) -> None:
    """Make a directory writable that its own user may not write to, then retry; ignore files already missing."""
    there = Path(path)
    with contextlib.suppress(FileNotFoundError):
        for directory in (there.parent, there):
            if directory.is_dir() and not directory.is_symlink():
                directory.chmod(0o700)
        if there.is_dir() and not there.is_symlink():
            shutil.rmtree(there)
        else:
            there.unlink()


def _remove_again(entry: Path) -> None:
    """Remove what is left, ignoring missing files, because another process removes it at the same time."""
    shutil.rmtree(entry, ignore_errors=True)
