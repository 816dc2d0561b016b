"""Starts a process that begins only after its pid is recorded.

The starter may be killed between starting a process and recording its pid. So the process begins as a shell that waits
for a line on a pipe and then executes the program: same pid, same start time. If the starter dies first, the pipe
closes, and the shell exits.
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

from squall.nemesis.agent.core.verb_error import VerbError

WAIT_AND_BECOME = 'read -r go || exit 1; exec "$@" </dev/null'
"""The pipe is standard input, from which every shell can read."""


class Launch(Protocol):
    """The part of a definition that is needed here."""

    @property
    def name(self) -> str: ...

    @property
    def argv(self) -> Sequence[str]: ...

    @property
    def cwd(self) -> str: ...

    def environment(self) -> Mapping[str, str]: ...


def start_held(definition: Launch, log: IO[bytes], keep: Callable[[int], None]) -> None:
    """Start the process in its own session once `keep` has recorded its pid. Raises VerbError."""
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
        # This process is the parent and must reap it; if this process ends first, the host's init inherits it.
        threading.Thread(target=process.wait, daemon=True).start()
        os.close(hear)
        hear = -1
        keep(process.pid)
        with contextlib.suppress(BrokenPipeError):  # it has been killed meanwhile
            os.write(go, b"+\n")
    except OSError as trouble:
        raise VerbError("failed", f"cannot start {definition.name}: {trouble}") from None
    finally:
        for one in (hear, go):
            if one != -1:
                os.close(one)


def refuse_missing(definition: Launch, environment: Mapping[str, str]) -> None:
    """Raise VerbError for a missing program, as starting it would."""
    program = definition.argv[0] if definition.argv else ""
    path = str(Path(definition.cwd, program)) if "/" in program else program
    if shutil.which(path, path=environment.get("PATH")) is None:
        raise VerbError(
            "failed", f"cannot start {definition.name}: No such file or directory, or no program: {program!r}"
        )
