"""System calls of a lab: namespaces, mounts, processes that die with their parent. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import select
import signal
import struct
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MS_NOEXEC, MS_NOATIME, MS_NODIRATIME, MS_RELATIME = 8, 1024, 2048, 1 << 21
ST_RELATIME = 4096
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 15, 22, 24
PR_SET_CHILD_SUBREAPER = 36

SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
SETGROUPS = {"x86_64": (0xC000003E, 116), "aarch64": (0xC00000B7, 159)}
"""By machine: its audit architecture and the number of the call there."""


class Kernel:
    """The few system calls that Python 3.11 does not wrap."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def _checked(self, what: str, answer: int) -> None:
        if answer != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")

    def unshare(self, flags: int) -> None:
        self._checked("unshare", self._libc.unshare(flags))

    def mount(self, source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
        arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
        self._checked(f"mount {source} on {target}", self._libc.mount(*arguments))

    def unmount(self, target: str) -> None:
        self._checked(f"umount {target}", self._libc.umount2(target.encode(), MNT_DETACH))

    def pivot_root(self, root: str, old: str) -> None:
        self._checked("pivot_root", self._libc.pivot_root(root.encode(), old.encode()))

    def die_with_parent(self) -> None:
        self._checked("prctl", self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))

    def adopt_orphans(self) -> None:
        """Adopt descendants whose parent ends, instead of the machine's init."""
        self._checked("prctl", self._libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))

    def drop_capability(self, capability: int) -> None:
        self._libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # a capability that this kernel does not have is no loss

    def become_root_of_a_user_namespace(self) -> None:
        """Map the present user to root of a new user namespace. It has no other user, and groups cannot be set."""
        user, group = os.geteuid(), os.getegid()
        self.unshare(CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        # New credentials make the /proc entry root's; the user must still find the namespaces there.
        self._checked("prctl", self._libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))

    def pretend_to_set_groups(self) -> None:
        """From now on, for all descendants: setgroups does nothing and reports success."""
        machine = platform.machine()
        if machine not in SETGROUPS:
            raise RuntimeError(f"a lab without root knows {' and '.join(SETGROUPS)}, not {machine}; use sudo")
        architecture, number = SETGROUPS[machine]
        # Offset 4 of the filter's input is the architecture, offset 0 the call's number.
        steps = (
            (LOAD_WORD, 0, 0, 4),
            (JUMP_IF_EQUAL, 0, 3, architecture),
            (LOAD_WORD, 0, 0, 0),
            (JUMP_IF_EQUAL, 0, 1, number),
            (RETURN, 0, 0, SECCOMP_RET_ERRNO),
            (RETURN, 0, 0, SECCOMP_RET_ALLOW),
        )
        program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
        described = struct.pack("@HP", len(steps), ctypes.addressof(program))
        answer = self._libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described, 0, 0)
        self._checked("prctl(PR_SET_SECCOMP)", answer)

    def name_process(self, name: str) -> None:
        self._libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


KERNEL = Kernel()


def fork(body: Callable[[], NoReturn], *, name: str, dies_with_parent: bool) -> int:
    """Fork a child that runs `body` and then exits. Return its pid."""
    parent = os.pidfd_open(os.getpid())
    child = os.fork()
    if child:
        os.close(parent)
        return child
    try:
        if dies_with_parent:
            KERNEL.die_with_parent()
            if select.select([parent], [], [], 0)[0]:  # the parent died before PR_SET_PDEATHSIG was set
                os._exit(1)
        os.close(parent)
        KERNEL.name_process(name)
        body()
    except BaseException:
        traceback.print_exc()
    os._exit(1)


class Pipe:
    """One line of text from a child to its parent, or an end of file if the child died first."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def say(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the reader has ended; the child's own end is noticed elsewhere
            os.write(self.writer, text.encode() + b"\n")

    def only_hear(self) -> None:
        """Close the writing end, so that only the child's death can end the pipe.

        Children forked later do not inherit the writing end either.
        """
        os.close(self.writer)

    def check_alive(self, what: str) -> None:
        """Raise RuntimeError if the child has ended without a message."""
        if select.select([self.reader], [], [], 0)[0]:
            self.hear(0, what)

    def hear(self, seconds: float, what: str) -> str:
        if not select.select([self.reader], [], [], seconds)[0]:
            raise TimeoutError(f"{what} said nothing for {seconds:g} s")
        text = os.read(self.reader, 4096).decode().strip()
        os.close(self.reader)
        if not text:
            raise RuntimeError(f"{what} ended before it was ready")
        return text
