"""Starts processes that outlive their starter: the keeper, the link emulator, the proxy.

Each is started through a shell that ends at once, so it is not a child of the starter: it leaves no zombie to reap, and
it survives the agent and the SSH session. It reports that it is ready by a `+` on a pipe.
"""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path


def daemonize(name: str, command: Sequence[str], option: str, log_path: Path, seconds: float) -> bool:
    """Run a command with `option DESCRIPTOR` appended, the pipe for the `+`. Returns whether the `+` came within
    `seconds`.

    Its output is appended to the log.
    """
    ready, tell_ready = os.pipe()
    try:
        with open(log_path, "ab") as log:
            subprocess.run(
                ["/bin/sh", "-c", '"$@" &', name, *command, option, str(tell_ready)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(tell_ready,),
                start_new_session=True,
                check=True,
            )
        os.close(tell_ready)
        tell_ready = -1
        return bool(select.select([ready], [], [], seconds)[0]) and os.read(ready, 1) == b"+"
    finally:
        os.close(ready)
        if tell_ready != -1:
            os.close(tell_ready)
