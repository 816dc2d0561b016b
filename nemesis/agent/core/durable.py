"""Writes small files atomically: a crash leaves the old or the new content. Works on a full disk.

Healing must not need room on a full disk. So the agent's state keeps a *reserve*: a few files of zeroes, written while
there was room. When a write fails for lack of room, one of them takes the content and the name of the file (its blocks
are already allocated). If none is left, the file is overwritten in place, which also allocates no block but is not
atomic after a power failure. The keeper refills the reserve when there is room.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
RESERVE = ".reserve"
PIECES = 24
PIECE_BYTES = 8192


def write_durably(path: Path, text: str) -> None:
    """Replace the file's content; after a crash at any point it has the new or the old content. Raises OSError."""
    content = text.encode()
    draft = path.with_name(f".{path.name}.draft")
    try:
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_directory(path.parent)
    except OSError as trouble:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        if trouble.errno not in NO_ROOM:
            raise
        _write_without_room(path, content, trouble)


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fill_reserve(state: Path) -> bool:
    """Write the missing pieces. Returns whether all exist now."""
    directory = state / RESERVE
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        for number in range(PIECES):
            piece = directory / str(number)
            if not piece.exists():
                draft = directory / f".{number}.{os.getpid()}"
                try:
                    draft.write_bytes(bytes(PIECE_BYTES))  # its blocks are allocated from here on
                    draft.rename(piece)
                finally:
                    draft.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def write_in_place(descriptor: int, text: str, length: int) -> None:
    """Write a line of that length at a file's beginning. Where it was written before, it allocates nothing."""
    os.pwrite(descriptor, text.ljust(length - 1)[: length - 1].encode() + b"\n", 0)


def _write_without_room(path: Path, content: bytes, trouble: OSError) -> None:
    if len(content) <= PIECE_BYTES and _take_piece(path, content):
        return
    try:
        with open(path, "r+b") as file:
            os.pwrite(file.fileno(), content, 0)
            os.ftruncate(file.fileno(), len(content))
            os.fsync(file.fileno())
    except OSError:
        raise trouble from None


def _take_piece(path: Path, content: bytes) -> bool:
    """Turn a piece of the reserve into the file. Returns whether there was one."""
    for state in (path.parent, *path.parent.parents[:2]):
        for number in range(PIECES):
            mine = state / RESERVE / f".{number}.{os.getpid()}"
            with contextlib.suppress(OSError):
                (state / RESERVE / str(number)).rename(mine)  # no other process takes it now
                with open(mine, "r+b") as file:
                    os.pwrite(file.fileno(), content, 0)
                    os.ftruncate(file.fileno(), len(content))
                    os.fsync(file.fileno())
                mine.rename(path)
                sync_directory(path.parent)
                return True
    return False
