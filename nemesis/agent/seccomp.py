"""Hands system calls of one process to another for a decision: the kernel's seccomp user notification.

A process installs a filter on itself, permanently and for its children. A call that the filter names stops, and the
holder of the *listener* receives a notice. The call proceeds when the holder allows it, or returns the error that the
holder gives. This needs no root, no module and no intermediate file system: Linux 5.5 or newer, on x86-64 or 64-bit
ARM.

    listener = install(traps)                 in the process to be watched, after which it may execute a program
    notice = receive(listener)                in the holder, when the listener is readable
    proceed(listener, notice.id)              or refuse(listener, notice.id, errno.EIO)

A filter sees numbers, never what a pointer points to, so all but the simplest choices are the holder's. A notice may
become void at any time (the process was killed, a signal interrupted the call). Answers to it are then lost, and what
was read from /proc for it may belong to another process: `is_valid` checks. When no process holds the listener any
more, the filtered calls fail with ENOSYS: the watched process must not outlive its watch.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

ALLOW = 0x7FFF0000
NOTIFY = 0x7FC00000
SET_FILTER = 1
NEW_LISTENER = 1 << 3
KEEP_SPECULATION = 1 << 2
"""Without this flag older kernels enable a mitigation that slows down the whole process."""
NO_NEW_PRIVILEGES = 38
CONTINUE = 1
SYNCHRONOUS_WAKE_UP = 1

LOAD, IF_EQUAL, IF_AT_LEAST, IF_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16

NOTICE = struct.Struct("=QIIiIQ6Q")
ANSWER = struct.Struct("=QqiI")
IDENTITY = struct.Struct("=Q")
RECEIVE, SEND, CHECK, SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104

Instruction = tuple[int, int, int, int]
"""An instruction of the classic Berkeley packet filter: operation, jump if true, jump if false, constant."""


@dataclass(frozen=True)
class Architecture:
    """What differs between processors: the kernel's name of the calling convention, and the number of seccomp(2)."""

    audit: int
    seccomp: int


ARCHITECTURES = {"x86_64": Architecture(0xC000003E, 317), "aarch64": Architecture(0xC00000B7, 277)}


@dataclass(frozen=True)
class Trap:
    """A call to stop, by its number; only if an argument is at least `at_least`, or has a bit of `any_bit`."""

    number: int
    argument: int = 0
    at_least: int = 0
    any_bit: int = 0


@dataclass(frozen=True)
class Notice:
    """A call that waits for an answer; `thread` made it."""

    id: int
    thread: int
    number: int
    arguments: tuple[int, ...]


class Unsupported(Exception):
    """This machine cannot do it; the message says why."""


def architecture(machine: str | None = None) -> Architecture:
    """The architecture of this machine. Raises Unsupported."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise Unsupported(f"on {machine} system calls are not known by number; {', '.join(ARCHITECTURES)} are")
    return ARCHITECTURES[machine]


def program(traps: Sequence[Trap], audit: int) -> list[Instruction]:
    """The filter: calls by another convention, and all that no trap names, proceed at once."""
    instructions: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_OFFSET),
        (IF_EQUAL, 1, 0, audit),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, NUMBER_OFFSET),
    ]
    for trap in traps:
        test = (IF_ANY_BIT, trap.any_bit) if trap.any_bit else (IF_AT_LEAST, trap.at_least)
        instructions += [
            (IF_EQUAL, 0, 4, trap.number),
            (LOAD, 0, 0, ARGUMENTS_OFFSET + 8 * trap.argument),  # its lower half: both processors are little-endian
            (test[0], 0, 1, test[1]),
            (RETURN, 0, 0, NOTIFY),
            (RETURN, 0, 0, ALLOW),
        ]
    return [*instructions, (RETURN, 0, 0, ALLOW)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def install(traps: Sequence[Trap]) -> int:
    """Filter the calls of this thread and of all that it starts, from now on. Returns the listener.

    Raises OSError, and Unsupported on an unknown processor. Afterwards the process cannot gain privileges (no sudo).
    """
    here = architecture()
    packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in program(traps, here.audit))
    described = _Program(len(packed) // 8, packed)
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    if library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        _fail("prctl(PR_SET_NO_NEW_PRIVS)")
    flags = ctypes.c_ulong(NEW_LISTENER | KEEP_SPECULATION)
    listener = library.syscall(ctypes.c_long(here.seccomp), ctypes.c_ulong(SET_FILTER), flags, ctypes.byref(described))
    if listener < 0:
        _fail("seccomp(SECCOMP_SET_MODE_FILTER)")
    return int(listener)


def _fail(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")


def quicken(listener: int) -> None:
    """Run a call and its answer in turns on one processor where the kernel can (6.6): several times faster."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(listener, SET_FLAGS, SYNCHRONOUS_WAKE_UP)


def receive(listener: int) -> Notice | None:
    """The next call that waits; None if it has become void."""
    buffer = bytearray(NOTICE.size)
    try:
        fcntl.ioctl(listener, RECEIVE, buffer)
    except OSError as trouble:
        if trouble.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    identity, thread, _flags, number, _architecture, _address, *arguments = NOTICE.unpack(buffer)
    return Notice(identity, thread, number, tuple(arguments))


def is_valid(listener: int, identity: int) -> bool:
    """Whether the call still waits: only then did /proc describe the thread that made it."""
    try:
        fcntl.ioctl(listener, CHECK, IDENTITY.pack(identity))
    except OSError:
        return False
    return True


def proceed(listener: int, identity: int) -> None:
    """Have the kernel carry out the call."""
    _answer(listener, ANSWER.pack(identity, 0, 0, CONTINUE))


def refuse(listener: int, identity: int, number: int) -> None:
    """Make the call return this error without carrying it out."""
    _answer(listener, ANSWER.pack(identity, 0, -number, 0))


def pretend(listener: int, identity: int) -> None:
    """Make the call return 0 without carrying it out."""
    _answer(listener, ANSWER.pack(identity, 0, 0, 0))


def _answer(listener: int, answer: bytes) -> None:
    try:
        fcntl.ioctl(listener, SEND, answer)
    except OSError as trouble:
        if trouble.errno not in (errno.ENOENT, errno.EINPROGRESS):  # void, or answered already
            raise


def why_not(timeout: float = 2.0) -> str | None:
    """Why calls cannot be handed over on this machine, found by trying; None if they can."""
    try:
        return _tried(timeout)
    except Unsupported as reason:
        return str(reason)
    except OSError as trouble:
        return f"kernel {platform.release()} refuses seccomp user notification: {trouble}"


def _tried(timeout: float) -> str | None:
    """Have the getppid call of a child handed over, and let it proceed."""
    architecture()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    child = os.fork()
    if child == 0:
        _play_the_watched(theirs)
    theirs.close()
    try:
        with ours:
            ours.settimeout(timeout)
            said, descriptors, _, _ = socket.recv_fds(ours, 200, 1)
            if not descriptors:
                return f"kernel {platform.release()}: {said.decode(errors='replace') or 'a trial process died'}"
            return _see_it_through(descriptors[0], ours, timeout)
    except TimeoutError:
        return f"kernel {platform.release()}: a trial of seccomp user notification did not end in {timeout:g} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _play_the_watched(channel: socket.socket) -> None:
    """In the child of a trial; does not return."""
    try:
        numbers = {"x86_64": 110, "aarch64": 173}  # getppid
        try:
            listener = install([Trap(numbers[platform.machine()])])
        except OSError as trouble:
            channel.sendall(f"seccomp user notification is refused: {trouble}".encode())
            os._exit(1)
        socket.send_fds(channel, [b"+"], [listener])
        os.close(listener)
        channel.sendall(b"good" if os.getppid() > 0 else b"bad!")
    finally:
        os._exit(0)


def _see_it_through(listener: int, channel: socket.socket, timeout: float) -> str | None:
    try:
        if not select.select([listener], [], [], timeout)[0]:
            raise TimeoutError
        notice = receive(listener)
        if notice is None:
            return "a trial process died"
        try:
            proceed(listener, notice.id)
        except OSError:
            return f"kernel {platform.release()} cannot let a call go on; 5.5 or newer can"
        return None if channel.recv(4) == b"good" else "a call that was continued did not succeed"
    finally:
        os.close(listener)


if __name__ == "__main__":
    reason = why_not()
    if reason is not None:
        print(reason)
        raise SystemExit(1)
