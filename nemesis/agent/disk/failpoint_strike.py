"""Kills a process at one of its own disk calls, exactly before it or exactly after it: the watch's part.

Before: the call waits for the watch's answer, and the process is killed instead of answered. After: the watch carries
out the call in the process's place, on the process's own descriptor (`pidfd_getfd`, so offsets and flags are shared),
and then kills the process, unanswered. So the disk has the call's effect, but the call never returned to the process;
no other call, no network message and no line of code comes in between. What was done is recorded in a file that the
agent reads (`failpoint.py`), with the sizes that the files had before.

A call that the kernel restarts is the same call. Reads have no effect, so after a read is the same as before it.
"""

from __future__ import annotations

import ctypes
import fnmatch
import json
import os
import signal
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from squall.nemesis.agent.core.disk_rules import Counts, Rule
from squall.nemesis.agent.core.journal import write_durably
from squall.nemesis.agent.core.names import file_name
from squall.nemesis.agent.disk import seccomp
from squall.nemesis.agent.disk.disk_calls import Call, as_int, path_of
from squall.nemesis.agent.disk.seccomp import Notice

BEFORE, AFTER = "before", "after"
GET_DESCRIPTOR = 438
"""`pidfd_getfd`, on all processors: Linux 5.6."""
REMOVE_DIRECTORY = 0x200
VECTOR = struct.Struct("=QQ")
WORKING_DIRECTORY = -100


@dataclass(frozen=True)
class Deed:
    """What was done to a process, and at which call."""

    call: str
    when: str
    count: int
    """Its number among such calls, from 1."""
    sizes: dict[str, int | None]
    """Sizes of the call's files before it; None: did not exist."""
    error: str = ""
    """Why the call that the watch carried out failed, if it did."""


def size_of(path: str) -> int | None:
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


class Deeds:
    """What was done, by fault: written by the watch, read by the agent."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "disk"
        self._directory.mkdir(parents=True, exist_ok=True)

    def _file(self, id: str) -> Path:
        return self._directory / f"{file_name(id)}.deed"

    def keep(self, id: str, deed: Deed) -> None:
        write_durably(self._file(id), json.dumps(asdict(deed)))

    def of(self, id: str) -> Deed | None:
        try:
            return Deed(**json.loads(self._file(id).read_text()))
        except FileNotFoundError:
            return None

    def forget(self, id: str) -> None:
        self._file(id).unlink(missing_ok=True)


class KillTrigger:
    """Kills the process of one watch at the calls that rules name."""

    def __init__(self, listener: int, pid: int, process: int, calls: Mapping[int, Call], deeds: Deeds) -> None:
        self._listener = listener
        self._pid = pid
        self._process = process
        self._calls = calls
        self._deeds = deeds
        self.struck: float | None = None
        """When it killed, on the monotonic clock."""

    def strikes(self, rule: Rule, kind: str, notice: Notice, counts: Counts) -> bool:
        """Whether the rule strikes at this call: then the process is dead, and its call needs no answer."""
        call = self._calls[notice.number]
        try:
            paths = places(call, notice)
        except OSError:  # the thread has ended
            return False
        if not any(fnmatch.fnmatch(path, rule.path) for path in paths) or self._deeds.of(rule.id):
            return False
        if not seccomp.is_valid(self._listener, notice.id):
            return False
        count = counts.add(rule.id)
        if count < rule.nth:
            return False
        self._strike(rule, Deed(kind, rule.kill, count, {path: size_of(path) for path in paths}), call, notice)
        return True

    def _strike(self, rule: Rule, deed: Deed, call: Call, notice: Notice) -> None:
        """Record the deed, then strike. If the watch dies in between, the process dies with it, and the call is on
        record.
        """
        self._deeds.keep(rule.id, deed)
        try:
            if rule.kill == AFTER:
                carry_out(call, notice, self._process)
        except OSError as trouble:
            self._deeds.keep(rule.id, Deed(deed.call, deed.when, deed.count, deed.sizes, str(trouble)))
        finally:
            self.struck = time.monotonic()
            os.killpg(self._pid, signal.SIGKILL)


# --- Calls carried out in another process's place ----------------------------------------------------------------


def places(call: Call, notice: Notice) -> list[str]:
    """The files that a call is about. Raises OSError."""
    if call.descriptor is not None:
        number = as_int(notice.arguments[call.descriptor])
        return [str(Path(f"/proc/{notice.thread}/fd/{number}").readlink())]
    return [path_of(notice, directory, path) for directory, path in call.paths]


def carry_out(call: Call, notice: Notice, process: int) -> None:
    """Do what this call would do; `process` is a descriptor of the caller (`pidfd_open`). Raises OSError."""
    if call.descriptor is None:
        _BY_PATH[call.kind](places(call, notice), call, notice)
        return
    if call.kind == "read":
        return
    descriptor = descriptor_of(process, as_int(notice.arguments[call.descriptor]))
    try:
        _BY_DESCRIPTOR[call.x86_64 or 0](descriptor, notice)
    finally:
        os.close(descriptor)


def descriptor_of(process: int, number: int) -> int:
    """Duplicate another process's open file into this process. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    found = library.syscall(
        ctypes.c_long(GET_DESCRIPTOR), ctypes.c_int(process), ctypes.c_int(number), ctypes.c_uint(0)
    )
    if found < 0:
        raise OSError(ctypes.get_errno(), f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
    return int(found)


def memory_of(notice: Notice, address: int, length: int) -> bytes:
    """Read the caller's memory. Raises OSError."""
    with open(f"/proc/{notice.thread}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        found = bytearray()
        while len(found) < length:
            part = memory.read(length - len(found))
            if not part:
                break
            found += part
    return bytes(found)


def vectors_of(notice: Notice) -> list[bytes]:
    """The buffers of a `writev`."""
    packed = memory_of(notice, notice.arguments[1], VECTOR.size * notice.arguments[2])
    return [memory_of(notice, address, length) for address, length in VECTOR.iter_unpack(packed)]


def _signed(argument: int) -> int:
    return argument - (1 << 64) if argument >= 1 << 63 else argument


def _write(descriptor: int, notice: Notice) -> None:
    os.write(descriptor, memory_of(notice, notice.arguments[1], notice.arguments[2]))


def _pwrite(descriptor: int, notice: Notice) -> None:
    os.pwrite(descriptor, memory_of(notice, notice.arguments[1], notice.arguments[2]), notice.arguments[3])


def _writev(descriptor: int, notice: Notice) -> None:
    os.writev(descriptor, vectors_of(notice))


def _pwritev(descriptor: int, notice: Notice) -> None:
    os.pwritev(descriptor, vectors_of(notice), notice.arguments[3])


def _pwritev2(descriptor: int, notice: Notice) -> None:
    offset, flags = _signed(notice.arguments[3]), as_int(notice.arguments[5])
    if offset == -1:
        os.writev(descriptor, vectors_of(notice))
    else:
        os.pwritev(descriptor, vectors_of(notice), offset, flags)


def _fallocate(descriptor: int, notice: Notice) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    mode, offset, length = as_int(notice.arguments[1]), notice.arguments[2], notice.arguments[3]
    if library.fallocate(descriptor, mode, ctypes.c_int64(offset), ctypes.c_int64(length)):
        raise OSError(ctypes.get_errno(), "fallocate")


def _create(paths: list[str], call: Call, notice: Notice) -> None:
    arguments = notice.arguments[1:] if call.paths[0][0] is not None else notice.arguments
    if call.flags is not None:
        os.close(os.open(paths[0], as_int(arguments[1]) | os.O_CLOEXEC, arguments[2] & 0o7777))
    elif call.x86_64 == 85:  # creat
        os.close(os.open(paths[0], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, arguments[1] & 0o7777))
    else:
        Path(paths[0]).mkdir(arguments[1] & 0o7777)


def _rename(paths: list[str], call: Call, notice: Notice) -> None:
    flags = as_int(notice.arguments[4]) if call.x86_64 == 316 else 0
    if not flags:
        Path(paths[0]).rename(paths[1])
        return
    library = ctypes.CDLL(None, use_errno=True)
    one, other = (os.fsencode(path) for path in paths)
    if library.renameat2(WORKING_DIRECTORY, one, WORKING_DIRECTORY, other, ctypes.c_uint(flags)):
        raise OSError(ctypes.get_errno(), "renameat2")


def _remove(paths: list[str], call: Call, notice: Notice) -> None:
    directory = call.x86_64 == 84 or (call.x86_64 == 263 and as_int(notice.arguments[2]) & REMOVE_DIRECTORY)
    (os.rmdir if directory else os.unlink)(paths[0])


def _truncate(paths: list[str], call: Call, notice: Notice) -> None:
    os.truncate(paths[0], notice.arguments[1])


_BY_PATH: dict[str, Callable[[list[str], Call, Notice], None]] = {
    "create": _create,
    "rename": _rename,
    "remove": _remove,
    "truncate": _truncate,
}

_BY_DESCRIPTOR: dict[int, Callable[[int, Notice], None]] = {
    1: _write,
    18: _pwrite,
    20: _writev,
    296: _pwritev,
    328: _pwritev2,
    285: _fallocate,
    77: lambda descriptor, notice: os.ftruncate(descriptor, notice.arguments[1]),
    74: lambda descriptor, notice: os.fsync(descriptor),
    75: lambda descriptor, notice: os.fdatasync(descriptor),
}
"""By the call's number on x86-64, whichever processor this is."""
