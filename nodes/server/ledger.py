"""Record which content of a node's files would survive a power failure.

A killed process leaves its page cache to the kernel, so a test that only kills never sees the effect of a power
failure. The *ledger* makes it visible: for every file it records the size at the last fsync, or that not even the name
is durable. After killing the node, a test can truncate every file to that size and delete what was never synced
(`nemesis/agent/disk/power.py`), on any file system, without mounting anything.

The ledger is a file of lines beside the log directory, one per fsync, creation, renaming, removal or truncation;
appends write no line, so the produce path pays nothing. Each line is one `write` and needs no fsync: the page cache
survives the kill. At its start a node names every existing file: those that the ledger does not contain count as
durable, since they predate it.

    u SIZE PATH      present at a start of the node; durable up to SIZE unless the ledger has a line for it
    s SIZE PATH      content up to SIZE is durable, and so is the name
    c 0 PATH         created; nothing of it is durable yet
    t SIZE PATH      truncated to SIZE
    m 0 OLD\tNEW     moved; keeps its state
    d 0 PATH         removed, with all below it
    y 0 PATH         the directory (`.`: the log directory itself) was synced: names in it and below are durable

The ledger does not model every file system. Renames, removals and truncations take effect at once, in order, as with
the journal of ext4; only the simulated disk can also undo those.
"""

from __future__ import annotations

import os
from pathlib import Path


class Ledger:
    """The ledger of one log directory; `path` is created, or continued."""

    def __init__(self, path: Path, root: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        for file in sorted(root.rglob("*")):
            if file.is_file():
                self._write("u", file.stat().st_size, file.relative_to(root).as_posix())

    def synced(self, path: str, size: int) -> None:
        self._write("s", size, path)

    def created(self, path: str) -> None:
        self._write("c", 0, path)

    def truncated(self, path: str, size: int) -> None:
        self._write("t", size, path)

    def moved(self, old: str, new: str) -> None:
        self._write("m", 0, f"{old}\t{new}")

    def removed(self, path: str) -> None:
        self._write("d", 0, path)

    def directory_synced(self, path: str) -> None:
        self._write("y", 0, path or ".")

    def _write(self, kind: str, size: int, path: str) -> None:
        os.write(self._descriptor, f"{kind} {size} {path}\n".encode())
