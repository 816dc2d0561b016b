"""System calls of a process handed to another one, by the kernel's own means: seccomp user notification.

A process installs a filter upon itself, for good and for its children. A call that the filter names stops, and the
holder of the *listener* is told of it; the call goes on when the holder says so, or returns the error that it is given.
No root is needed, no module, no file system in between: Linux 5.5 or newer, on x86-64 or 64-bit ARM.

    listener = install(traps)                 in the process to be watched, after which it may execute a program
    notice = receive(listener)                in the holder, when the listener is readable
    proceed(listener, notice.id)              or refuse(listener, notice.id, errno.EIO)

What has to be known: a filter sees numbers, never what a pointer points to, so all but the simplest choice is the
holder's. A notice may become void at any time (the process was killed, a signal interrupted the call); answers to it
are then lost, and what was read from /proc on its account may be another's: `is_valid` tells. Once nobody holds the
listener any more, the calls it was for fail with ENOSYS: whoever watches must not be outlived by the watched.
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
"""Without it older kernels switch a mitigation on that slows the whole process down."""
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
"""Of the classic Berkeley packet filter: operation, jump if true, jump if false, constant."""


@dataclass(frozen=True)
class Architecture:
    """What differs between processors: the name the kernel gives to the calling convention, and our own call."""

    audit: int
    seccomp: int


ARCHITECTURES = {"x86_64": Architecture(0xC000003E, 317), "aarch64": Architecture(0xC00000B7, 277)}


@dataclass(frozen=True)
class Trap:
    """A call to be told of, by its number; only if an argument is at least so much, or has one of these bits."""

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
    """This machine cannot do it; says why."""


def architecture(machine: str | None = None) -> Architecture:
    """Raises Unsupported."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise Unsupported(f"on {machine} system calls are not known by number; {', '.join(ARCHITECTURES)} are")
    return ARCHITECTURES[machine]


def program(traps: Sequence[Trap], audit: int) -> list[Instruction]:
    """The filter: calls by another convention, and all that no trap names, go on at once."""
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
    """Filter this thread's calls from now on, and those of all it starts; returns the listener.

    Raises OSError, and Unsupported on a strange processor. Privileges can be gained no more afterwards (no sudo).
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
    """Let a call and its answer take turns on one processor where the kernel can (6.6): several times faster."""
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
    """Whether the call still waits: only then was what /proc said of its thread about the thread that made it."""
    try:
        fcntl.ioctl(listener, CHECK, IDENTITY.pack(identity))
    except OSError:
        return False
    return True


def proceed(listener: int, identity: int) -> None:
    """Let the kernel carry the call out."""
    _answer(listener, ANSWER.pack(identity, 0, 0, CONTINUE))


def refuse(listener: int, identity: int, number: int) -> None:
    """Let the call return this error, undone."""
    _answer(listener, ANSWER.pack(identity, 0, -number, 0))


def pretend(listener: int, identity: int) -> None:
    """Let the call return 0, undone."""
    _answer(listener, ANSWER.pack(identity, 0, 0, 0))


def _answer(listener: int, answer: bytes) -> None:
    try:
        fcntl.ioctl(listener, SEND, answer)
    except OSError as trouble:
        if trouble.errno not in (errno.ENOENT, errno.EINPROGRESS):  # void, or answered
            raise


def why_not(timeout: float = 2.0) -> str | None:
    """Why calls cannot be handed over on this machine, found out by doing it; None if they can."""
    try:
        return _tried(timeout)
    except Unsupported as reason:
        return str(reason)
    except OSError as trouble:
        return f"kernel {platform.release()} refuses seccomp user notification: {trouble}"


def _tried(timeout: float) -> str | None:
    """A child that has its own getppid refused and then allowed."""
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
        return None if channel.recv(4) == b"good" else "a call that was let go on did not succeed"
    finally:
        os.close(listener)


def main(_: list[str]) -> int:
    reason = why_not()
    if reason is not None:
        print(reason)
    return 0 if reason is None else 1


if __name__ == "__main__":
    raise SystemExit(main([]))
