"""Replace itself by a program whose disk calls are watched (`disk_watch.py`).

    python -m squall.harness.gallery.core.watched_program syncs|writes DESCRIPTOR PROGRAM ARGUMENTS…

It installs the filter on itself, sends the listener over the socket DESCRIPTOR, and executes PROGRAM, which keeps the
filter and the process id. The kernel kills the program when the watching process ends: its calls could not go on.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from typing import cast

from squall.harness.gallery.core.disk_watch import Watches, traps
from squall.nemesis.agent.disk import seccomp

KILL_WHEN_PARENT_DIES = 1


def main(arguments: list[str]) -> None:
    watches, descriptor, *command = arguments
    ctypes.CDLL(None).prctl(KILL_WHEN_PARENT_DIES, signal.SIGKILL)
    with socket.socket(fileno=int(descriptor)) as channel:
        listener = seccomp.install(traps(cast(Watches, watches)))
        socket.send_fds(channel, [b"+"], [listener])
        os.close(listener)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
