"""Small files that are there whole or as they were, after a crash at any point, and also when the disk is full.

Healing must not need room on a disk that has none. So the agent's state keeps a *reserve*: a few files of zeroes that
were written while there was room. When a write fails for want of room, one of them takes the content and the name of
the file (its blocks are there already); if none is left, the file is written over in place, which is not atomic after a
power failure and takes no new block either. The keeper fills the reserve up again when there is room.
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
    """The file with this content, or as it was: also after a crash at any point. Raises OSError."""
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
    """Write the pieces that are missing; whether all are there now."""
    directory = state / RESERVE
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        for number in range(PIECES):
            piece = directory / str(number)
            if not piece.exists():
                draft = directory / f".{number}.{os.getpid()}"
                try:
                    draft.write_bytes(bytes(PIECE_BYTES))  # from here on its blocks are taken
                    draft.rename(piece)
                finally:
                    draft.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def write_in_place(descriptor: int, text: str, length: int) -> None:
    """A line of that length at a file's beginning. Where it was written once before, it takes no room."""
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
    """Whether a piece of the reserve has become the file."""
    for state in (path.parent, *path.parent.parents[:2]):
        for number in range(PIECES):
            mine = state / RESERVE / f".{number}.{os.getpid()}"
            with contextlib.suppress(OSError):
                (state / RESERVE / str(number)).rename(mine)  # nobody else takes it now
                with open(mine, "r+b") as file:
                    os.pwrite(file.fileno(), content, 0)
                    os.ftruncate(file.fileno(), len(content))
                    os.fsync(file.fileno())
                mine.rename(path)
                sync_directory(path.parent)
                return True
    return False
