"""The real disk: `nodes.ports.Disk` on one directory of the host's file system.

A node has one thread and is the only user of its directory, so file sizes are kept here instead of being requested from
the kernel, and an append is one vectored write at that position. Durability is fdatasync for content (it covers a
changed size) and fsync of the directory for names. Paths are checked: a path outside the root is refused. A disk with a
ledger also records what has become durable, for tests that remove the rest. Few of many files are kept open
(`open_files.py`). The name of a removed file disappears at once; its pages are freed on a background thread
(`deferred_closer.py`).
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from squall.nodes.server.deferred_closer import DeferredCloser
from squall.nodes.server.ledger import Ledger
from squall.nodes.server.open_files import OpenFiles

OPEN_FILES_MAX = 256
IOV_MAX = 1024
"""The most chunks that one vectored write accepts on Linux."""

_sync_content = getattr(os, "fdatasync", os.fsync)


class RealFile:
    """An open file; see `nodes.ports.File`."""

    def __init__(self, place: Path, path: str, files: OpenFiles, ledger: Ledger | None, *, create: bool) -> None:
        self._place = place
        self._path = path
        self._files = files
        self._ledger = ledger
        self._dirty = False
        self._closed = False
        self.used = False
        self._open_descriptor = os.open(place, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
        self._size = os.fstat(self._open_descriptor).st_size
        try:
            files.opened(self)
        except OSError:
            os.close(self._open_descriptor)
            raise

    @property
    def _descriptor(self) -> int:
        """An open descriptor, valid for the next system call only."""
        self.used = True
        if self._open_descriptor < 0:
            if self._closed:
                raise OSError(errno.EBADF, "the file is closed", self._path)
            self._files.opened(self)
            try:
                self._open_descriptor = os.open(self._place, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                self._files.closed(self)
                raise
        return self._open_descriptor

    def rest(self) -> None:
        """Close the descriptor until the file's next use (`open_files.Openable`)."""
        if self._dirty:
            _sync_content(self._open_descriptor)
            self._dirty = False
        os.close(self._open_descriptor)
        self._open_descriptor = -1

    def size(self) -> int:
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer only at the end of the file."""
        data = os.pread(self._descriptor, length, offset)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing, position = length - len(data), offset + len(data)
        while missing and (more := os.pread(self._descriptor, missing, position)):
            parts.append(more)
            missing -= len(more)
            position += len(more)
        return b"".join(parts)

    def append(self, *chunks: bytes | bytearray | memoryview) -> None:
        """Write the chunks at the end. After an OSError a part may be written beyond the reported size."""
        self._dirty = True
        if len(chunks) == 1:
            size = len(chunks[0])
            written = os.pwrite(self._descriptor, chunks[0], self._size)
            if written != size:
                self._write_rest([memoryview(chunks[0])[written:]], self._size + written)
            self._size += size
            return
        self._size = self._write_rest([memoryview(chunk) for chunk in chunks if len(chunk)], self._size)

    def _write_rest(self, views: list[memoryview], position: int) -> int:
        """Write all views from a position, in as many calls as needed. Returns the position after them."""
        while views:
            written = os.pwritev(self._descriptor, views[:IOV_MAX], position)
            position += written
            while views and written >= len(views[0]):
                written -= len(views.pop(0))
            if views and written:
                views[0] = views[0][written:]
        return position

    def truncate(self, size: int) -> None:
        self._dirty = True
        os.ftruncate(self._descriptor, size)
        self._size = size
        if self._ledger is not None:
            self._ledger.truncated(self._path, size)

    def sync(self) -> None:
        _sync_content(self._descriptor)
        self._dirty = False
        if self._ledger is not None:
            self._ledger.synced(self._path, self._size)

    def close(self) -> None:
        self._closed = True
        if self._open_descriptor >= 0:
            self._files.closed(self)
            os.close(self._open_descriptor)
            self._open_descriptor = -1


class RealDisk:
    """Everything below one directory, which is created if missing; see `nodes.ports.Disk`."""

    def __init__(self, root: str | Path, ledger: Path | None = None, open_files_max: int = OPEN_FILES_MAX) -> None:
        """`ledger` is the file for a ledger, outside the root; without it no ledger is kept."""
        self._files = OpenFiles(open_files_max)
        self._root = Path(root).resolve()
        self._root.mkdir(parents=True, exist_ok=True)
        self._ledger = None if ledger is None else Ledger(ledger, self._root)
        self._deferred_closer = DeferredCloser()

    def _path(self, path: str) -> Path:
        """The real path. Raises ValueError for a path that could lead outside the root."""
        if path.startswith("/") or (path and any(part in {"", ".", ".."} for part in path.split("/"))):
            raise ValueError(f"path {path!r} must be relative, without '.', '..' or empty parts")
        return self._root / path

    def list(self, path: str) -> list[str]:
        directory = self._path(path)
        return sorted(entry.name for entry in directory.iterdir()) if directory.is_dir() else []

    def exists(self, path: str) -> bool:
        return self._path(path).exists()

    def make_directory(self, path: str) -> None:
        self._path(path).mkdir(parents=True, exist_ok=True)

    def open(self, path: str, *, create: bool = False) -> RealFile:
        place = self._path(path)
        if self._ledger is not None and create and not place.exists():
            self._ledger.created(path)
        return RealFile(place, path, self._files, self._ledger, create=create)

    def rename(self, old: str, new: str) -> None:
        self._path(old).replace(self._path(new))
        if self._ledger is not None:
            self._ledger.moved(old, new)

    def remove(self, path: str) -> None:
        place = self._path(path)
        held = self._deferred_closer.hold(place)
        try:
            place.unlink()
        finally:
            self._deferred_closer.let_go(held)
        if self._ledger is not None:
            self._ledger.removed(path)

    def remove_tree(self, path: str) -> None:
        if path and self._path(path).is_dir():
            held = [self._deferred_closer.hold(one) for one in self._path(path).rglob("*")]
            try:
                shutil.rmtree(self._path(path))
            finally:
                for one in held:
                    self._deferred_closer.let_go(one)
            if self._ledger is not None:
                self._ledger.removed(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(self._path(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if self._ledger is not None:
            self._ledger.directory_synced(path)
