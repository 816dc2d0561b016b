"""Starting a process that begins only when its pid is kept.

Between the start of a process and the moment at which its pid is written down, whoever starts it may be killed. So the
process begins as a shell that waits for a word on a pipe, and then becomes the program: same pid, same start time. If
the one who started it dies first, the pipe ends, and so does the shell.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from squall.nemesis.agent.core.trouble import Trouble

WAIT_AND_BECOME = 'read -r go || exit 1; exec "$@" </dev/null'
"""The pipe is standard input, which every shell can read from."""


class Launch(Protocol):
    """Of a definition, what is needed here."""

    @property
    def name(self) -> str: ...

    @property
    def argv(self) -> Sequence[str]: ...

    @property
    def cwd(self) -> str: ...

    def environment(self) -> Mapping[str, str]: ...


def start_held(definition: Launch, log: IO[bytes], keep: Callable[[int], None]) -> None:
    """Start it in a session of its own, once `keep` has kept its pid. Raises Trouble."""
    environment = definition.environment()
    refuse_missing(definition, environment)
    hear, go = os.pipe()
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", WAIT_AND_BECOME, definition.name, *definition.argv],
            stdin=hear,
            stdout=log,
            stderr=log,
            cwd=definition.cwd,
            env=environment,
            start_new_session=True,
        )
        # Started by us, it is ours to bury; when we end first, the host's init inherits it.
        threading.Thread(target=process.wait, daemon=True).start()
        os.close(hear)
        hear = -1
        keep(process.pid)
        with contextlib.suppress(BrokenPipeError):  # it has been killed meanwhile
            os.write(go, b"+\n")
    except OSError as trouble:
        raise Trouble("failed", f"cannot start {definition.name}: {trouble}") from None
    finally:
        for one in (hear, go):
            if one != -1:
                os.close(one)


def refuse_missing(definition: Launch, environment: Mapping[str, str]) -> None:
    """Raise Trouble for a program that is not there, as its start would."""
    program = definition.argv[0] if definition.argv else ""
    path = str(Path(definition.cwd, program)) if "/" in program else program
    if shutil.which(path, path=environment.get("PATH")) is None:
        raise Trouble(
            "failed", f"cannot start {definition.name}: No such file or directory, or no program: {program!r}"
        )
