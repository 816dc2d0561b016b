"""Damages a node's files: `disk.damage`, and `probe.file`, which reads a file from another process.

How: `flip` one bit of each byte of a stretch, fill it with `zeros` or `noise`, `copy` another stretch over it,
`truncate` the file at its beginning, `delete` the file or `rename` it. Whether the node runs meanwhile is the caller's
decision. The node keeps using its open files: a deleted file only leaves its directory.

The original content is saved durably before the damage. When the fault ends it is restored if `restore` says so: bytes
only where the damage is still unchanged, since the node may have overwritten them or cut them off; a name only if it is
still free. A node that ended because of the damage is restarted, unless another fault keeps it down.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import number, required, text
from squall.nemesis.agent.core.journal import Entry, Journal, sync_directory, write_durably
from squall.nemesis.agent.core.names import file_name
from squall.nemesis.agent.core.processes import Processes
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.core.verbs import KILLS
from squall.nemesis.agent.disk.disk_load import log_directory

STRETCH = ("flip", "zeros", "noise", "copy")
NAMES = ("delete", "rename")
HOWS = (*STRETCH, "truncate", *NAMES)
PLACES = ("start", "middle", "end", "random")
MOST_BYTES = 16 << 20
SUFFIX = ".renamed"

READ = """
import hashlib, json, os, sys
path, offset, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    with open(path, "rb") as file:
        file.seek(offset)
        content = file.read(length)
        print(json.dumps({"size": os.fstat(file.fileno()).st_size, "digest": hashlib.sha256(content).hexdigest()}))
except FileNotFoundError:
    print(json.dumps({"size": None, "digest": None}))
"""


@dataclass(frozen=True)
class FileRange:
    """A stretch of a file, named below the log directory; `source` is where a copy is taken from."""

    file: str
    offset: int
    length: int
    source: int = 0


def choose(directory: Path, pattern: str, how: str, where: str, length: int, seed: str) -> FileRange:
    """Choose the largest file that matches the pattern, and the place in it. Raises VerbError if none is large
    enough.
    """
    rng = random.Random(seed)
    least = 0 if how in NAMES else 2 * length if how == "copy" else length
    found = [
        (path.stat().st_size, path.relative_to(directory).as_posix())
        for path in directory.rglob("*")
        if path.is_file() and path.name != ".lock"
    ]
    fitting = [(size, name) for size, name in found if size >= least and fnmatch.fnmatch(name, pattern)]
    if not fitting:
        raise VerbError("failed", f"no file below the log directory is named {pattern} and has {least} bytes")
    size, name = max(fitting)
    if how in NAMES:
        return FileRange(name, 0, size)
    last = size - length
    offset = {"start": 0, "middle": last // 2, "end": last}.get(where, rng.randint(0, last))
    if how == "truncate":
        return FileRange(name, last, length)
    if how != "copy":
        return FileRange(name, offset, length)
    if offset >= length:
        return FileRange(name, offset, length, offset - length)
    return (
        FileRange(name, offset, length, offset + length)
        if offset + length <= last
        else FileRange(name, 0, length, length)
    )


def damaged(how: str, original: bytes, copied: bytes, seed: str) -> bytes:
    """The bytes after the damage."""
    rng = random.Random(seed)
    if how == "flip":
        return bytes(byte ^ 1 << rng.randrange(8) for byte in original)
    return {"zeros": bytes(len(original)), "noise": rng.randbytes(len(original)), "copy": copied}[how]


class Kept:
    """The original content, by fault."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "damage"
        self._directory.mkdir(parents=True, exist_ok=True)

    def _file(self, id: str) -> Path:
        return self._directory / f"{file_name(id)}.json"

    def keep(self, entry: Entry, original: bytes, now: bytes) -> None:
        told = {"original": original.hex(), "now": now.hex(), "arguments": entry.arguments}
        write_durably(self._file(entry.id), json.dumps(told))

    def arguments_of(self, id: str) -> dict[str, Any] | None:
        """The arguments of a fault whose entry is lost."""
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
            arguments: dict[str, Any] = json.loads(self._file(id).read_text())["arguments"]
            return arguments
        return None

    def of(self, id: str) -> tuple[bytes, bytes] | None:
        try:
            told = json.loads(self._file(id).read_text())
        except FileNotFoundError:
            return None
        return bytes.fromhex(told["original"]), bytes.fromhex(told["now"])

    def forget(self, id: str) -> None:
        self._file(id).unlink(missing_ok=True)


class DamageFile:
    """`disk.damage`"""

    def __init__(self, processes: Processes, kept: Kept) -> None:
        self._processes = processes
        self._kept = kept

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name = text(arguments, "name")
        data = Path(os.path.realpath(log_directory(self._processes, name)))
        how, place = checked_how(arguments), place_in(arguments)
        path = Path(os.path.realpath(data / place.file))
        if data not in path.parents or not path.is_file():
            raise VerbError("failed", f"file: {place.file!r} is not a file below the log directory")
        if how not in NAMES and path.stat().st_size < max(place.offset, place.source) + place.length:
            raise VerbError("failed", f"{place.file} has become shorter than {place.offset + place.length} bytes")
        if how == "delete" and data.parent.stat().st_dev != data.stat().st_dev:
            raise VerbError("unsupported", "a file is deleted by moving it beside the log directory, which is a mount")
        self._kept.forget(text(arguments, "id"))
        moved = path.with_name(f"{path.name}{SUFFIX}")
        if how == "delete":
            moved = data.parent / f".squall-lost-{file_name(text(arguments, 'id'))}"
        return {
            "name": name,
            "how": how,
            "path": str(path),
            "moved": str(moved),
            "offset": place.offset,
            "length": place.length,
            "source": place.source,
            "restore": bool(arguments.get("restore", True)),
        }

    def inject(self, entry: Entry, open_entries: Sequence[Entry]) -> dict[str, Any]:
        """Damage once: bits flipped twice would be as before."""
        if self._kept.of(entry.id) is None:
            told, path = entry.arguments, Path(entry.arguments["path"])
            if told["how"] in NAMES:
                self._kept.keep(entry, b"", b"")
                move(path, Path(told["moved"]))
            else:
                self._strike(entry, path)
        return {"file": entry.arguments["path"], "offset": entry.arguments["offset"]}

    def _strike(self, entry: Entry, path: Path) -> None:
        told = entry.arguments
        original = read_at(path, told["offset"], told["length"])
        if told["how"] == "truncate":
            self._kept.keep(entry, original, b"")
            os.truncate(path, told["offset"])
            return
        copied = read_at(path, told["source"], told["length"]) if told["how"] == "copy" else b""
        now = damaged(told["how"], original, copied, entry.id)
        if now == original:
            raise VerbError("failed", f"{path.name}: the bytes from {told['offset']} on would not change")
        self._kept.keep(entry, original, now)
        write_at(path, told["offset"], now)

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        told, kept = entry.arguments, self._kept.of(entry.id)
        if told["restore"] and kept is not None:
            path, moved = Path(told["path"]), Path(told["moved"])
            if told["how"] in NAMES:
                if moved.exists() and not path.exists() and path.parent.is_dir():
                    move(moved, path)
            elif path.is_file():
                put_back(path, told["offset"], *kept)
        name = told["name"]
        down = any(other.verb in KILLS and other.arguments["name"] == name for other in remaining)
        if not down and self._processes.wanted(name) and self._processes.alive(name) is None:
            self._processes.start(name)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        arguments = self._kept.arguments_of(id)
        if arguments is not None:
            self.undo(Entry(id, "disk.damage", arguments, 0.0, 0.0, ""), remaining)


def put_back(path: Path, offset: int, original: bytes, left: bytes) -> None:
    """Restore bytes that are unchanged since the damage. A truncated end may be a hole, if the node wrote behind it."""
    there = read_at(path, offset, len(original))
    untouched = there == left if left else not any(there) and path.stat().st_size >= offset
    if untouched:
        write_at(path, offset, original)


def read_at(path: Path, offset: int, length: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def write_at(path: Path, offset: int, content: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def move(old: Path, new: Path) -> None:
    old.rename(new)
    for directory in {old.parent, new.parent}:
        sync_directory(directory)


def checked_how(arguments: dict[str, Any]) -> str:
    how = text(arguments, "how")
    if how not in HOWS:
        raise VerbError("bad_argument", f"how: {how!r} must be one of {', '.join(HOWS)}")
    return how


def place_in(arguments: dict[str, Any]) -> FileRange:
    """The place that an earlier `probe.file` returned. Raises VerbError."""
    found = [round(number({"source": 0, **arguments}, name)) for name in ("offset", "length", "source")]
    if min(found) < 0 or found[1] > MOST_BYTES:
        raise VerbError("bad_argument", f"offset, length and source: {found} must be from 0 to {MOST_BYTES}")
    return FileRange(text(arguments, "file"), *found)


def probe_file(journal: Journal, processes: Processes, arguments: dict[str, Any]) -> dict[str, Any]:
    """`probe.file`: a stretch of a file as another process reads it: the file's size and the stretch's digest, null if
    the file does not exist. Without `offset` a place is chosen first, by `file`, `how`, `where`, `length` and `id`.
    """
    id, data = text(arguments, "id"), log_directory(processes, text(arguments, "name"))
    if "offset" in arguments:
        place = place_in(arguments)
    else:
        where = required({"where": "random", **arguments}, "where", str, "a place")
        if where not in PLACES:
            raise VerbError("bad_argument", f"where: {where!r} must be one of {', '.join(PLACES)}")
        length = round(number(arguments, "length"))
        place = choose(data, text(arguments, "file"), checked_how(arguments), where, length, id)
    command = [sys.executable, "-c", READ, str(data / place.file), str(place.offset), str(place.length)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if told.returncode:
        raise VerbError("failed", f"{place.file} cannot be read: {told.stderr.strip()[-200:]}")
    seen: dict[str, Any] = json.loads(told.stdout)
    chosen = {"file": place.file, "offset": place.offset, "length": place.length, "source": place.source}
    return {**chosen, **seen, "open": journal.find(id) is not None}
