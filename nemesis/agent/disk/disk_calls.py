"""Maps the named disk calls to system calls, and finds which file a call is about.

Faults name `read`, `write`, `truncate`, `fsync`, `create`, `rename`, `remove` and `fsync-directory`. Programs make
system calls, of which several may do the same, under numbers that differ between processors. A call counts only if its
file lies in the watched directory. That is looked up in /proc: the file behind a descriptor, and the paths that a call
points to, read from the caller's memory. So a node's log lines and sockets are not affected. `create` means that a file
or directory did not exist; opening an existing one does not count. Not seen: writes to memory that a file is mapped to,
and io_uring.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from squall.nemesis.agent.disk.seccomp import Notice, Trap, Unsupported

AT_FDCWD = -100
LONGEST_PATH = 4096
PAGE = 4096
FIRST_OWN_DESCRIPTOR = 3
"""Calls on standard input, output and error are never stopped: log lines stay as fast as without a watch."""


@dataclass(frozen=True)
class Call:
    """A system call: its kind, its numbers (None: not on that processor), and how to find its file.

    Either `descriptor` is the argument that holds an open file, or `paths` are pairs of arguments: a directory (None:
    the working directory) and a path.
    """

    kind: str
    x86_64: int | None
    aarch64: int | None
    descriptor: int | None = None
    paths: tuple[tuple[int | None, int], ...] = ()
    flags: int | None = None
    """The argument in which O_CREAT must be set."""

    def number(self, machine: str) -> int | None:
        return self.aarch64 if machine == "aarch64" else self.x86_64

    def trap(self, number: int) -> Trap:
        if self.flags is not None:
            return Trap(number, self.flags, any_bit=os.O_CREAT)
        if self.descriptor is not None:
            return Trap(number, self.descriptor, at_least=FIRST_OWN_DESCRIPTOR)
        return Trap(number)


CALLS = (
    Call("read", 0, 63, 0),
    Call("read", 17, 67, 0),  # pread64
    Call("read", 19, 65, 0),  # readv
    Call("read", 295, 69, 0),  # preadv
    Call("read", 327, 286, 0),  # preadv2
    Call("read", 40, 71, 1),  # sendfile
    Call("write", 1, 64, 0),
    Call("write", 18, 68, 0),  # pwrite64
    Call("write", 20, 66, 0),  # writev
    Call("write", 296, 70, 0),  # pwritev
    Call("write", 328, 287, 0),  # pwritev2
    Call("write", 285, 47, 0),  # fallocate
    Call("truncate", 77, 46, 0),  # ftruncate
    Call("truncate", 76, 45, paths=((None, 0),)),
    Call("fsync", 74, 82, 0),
    Call("fsync", 75, 83, 0),  # fdatasync
    Call("create", 257, 56, paths=((0, 1),), flags=2),  # openat
    Call("create", 2, None, paths=((None, 0),), flags=1),  # open
    Call("create", 85, None, paths=((None, 0),)),  # creat
    Call("create", 258, 34, paths=((0, 1),)),  # mkdirat
    Call("create", 83, None, paths=((None, 0),)),  # mkdir
    Call("rename", 316, 276, paths=((0, 1), (2, 3))),  # renameat2
    Call("rename", 264, 38, paths=((0, 1), (2, 3))),  # renameat
    Call("rename", 82, None, paths=((None, 0), (None, 1))),  # rename
    Call("remove", 263, 35, paths=((0, 1),)),  # unlinkat
    Call("remove", 87, None, paths=((None, 0),)),  # unlink
    Call("remove", 84, None, paths=((None, 0),)),  # rmdir
)

KINDS = ("read", "write", "truncate", "fsync", "create", "rename", "remove", "fsync-directory")


def chosen(kinds: Iterable[str], machine: str) -> dict[int, Call]:
    """The system calls of these kinds, by number. Raises Unsupported on an unknown processor."""
    if machine not in ("x86_64", "aarch64"):
        raise Unsupported(f"the numbers of system calls on {machine} are not known")
    wanted = {"fsync" if kind == "fsync-directory" else kind for kind in kinds}
    numbered = ((call.number(machine), call) for call in CALLS if call.kind in wanted)
    return {number: call for number, call in numbered if number is not None}


def traps(calls: dict[int, Call]) -> list[Trap]:
    """What a filter must stop for these calls."""
    return [call.trap(number) for number, call in calls.items()]


class Watched:
    """The directory whose files count."""

    def __init__(self, directory: str, calls: dict[int, Call]) -> None:
        self._directory = os.path.realpath(directory)
        self.calls = calls

    def kind_of(self, notice: Notice) -> str | None:
        """Which named call this is; None if it is about other files. The result may be about another process if the
        call has become void meanwhile.
        """
        call = self.calls.get(notice.number)
        if call is None:
            return None
        try:
            if call.descriptor is not None:
                return self._by_descriptor(call, notice)
            return self._by_path(call, notice)
        except OSError:  # the thread or its descriptor no longer exists
            return None

    def _by_descriptor(self, call: Call, notice: Notice) -> str | None:
        assert call.descriptor is not None
        link = Path(f"/proc/{notice.thread}/fd/{as_int(notice.arguments[call.descriptor])}")
        if not self._holds(str(link.readlink())):
            return None
        if call.kind == "fsync" and link.is_dir():
            return "fsync-directory"
        return call.kind

    def _by_path(self, call: Call, notice: Notice) -> str | None:
        for directory, path in call.paths:
            where = path_of(notice, directory, path)
            if self._holds(where) and not (call.flags is not None and os.path.lexists(where)):
                return call.kind
        return None

    def _holds(self, path: str) -> bool:
        return path == self._directory or path.startswith(f"{self._directory}/")


def as_int(argument: int) -> int:
    """A register as the C `int` that it holds."""
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low


def path_of(notice: Notice, directory: int | None, path: int) -> str:
    """The file at a path that the call points to, without following its last part. Raises OSError."""
    name = read_text(notice.thread, notice.arguments[path])
    descriptor = AT_FDCWD if directory is None else as_int(notice.arguments[directory])
    link = Path(f"/proc/{notice.thread}", "cwd" if descriptor == AT_FDCWD else f"fd/{descriptor}")
    whole = name if name.startswith("/") else f"{link.readlink()}/{name}"
    parent, _, last = whole.rstrip("/").rpartition("/")
    return f"{os.path.realpath(parent or '/')}/{last}"


def read_text(thread: int, address: int) -> str:
    """Read a string from another process's memory, page by page, as the next page may not exist.

    Raises OSError, also if the process has just died: then its memory is there to be opened, and empty.
    """
    found = b""
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        while len(found) < LONGEST_PATH:
            memory.seek(address + len(found))
            page = memory.read(PAGE - (address + len(found)) % PAGE)
            if not page:
                raise ProcessLookupError(f"thread {thread} has no memory any more")
            found += page
            if b"\0" in found:
                break
    return os.fsdecode(found.partition(b"\0")[0])
