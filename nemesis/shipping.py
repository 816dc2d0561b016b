"""What to put on a host so that it answers verbs: the agent's files, and the command that runs it.

    files = agent_files()                        # relative path → content; upload to a directory on the host
    command = agent_command(directory, state=…, python="/usr/bin/python3", name="b2")

The clock shim is compiled here, on the control node, where there is a C compiler; on a host whose architecture or
C library it does not fit, and where there is no compiler, the agent falls back on the Python hook, and `info`
says `"clock": "hook"`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

AGENT_DIRECTORY = Path(__file__).resolve().parent / "agent"
SHIPPED_SUFFIXES = (".py", ".c")
SHIM_SOURCE = "clockshim.c"
SHIM_LIBRARY = "clockshim.so"


def compile_shim(compiler: str = "cc") -> bytes | None:
    """The clock shim as a shared library for this machine's architecture; None if it cannot be compiled here."""
    program = shutil.which(compiler)
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / SHIM_LIBRARY
        source = AGENT_DIRECTORY / SHIM_SOURCE
        done = subprocess.run(
            [program, "-O2", "-fPIC", "-shared", "-o", str(library), str(source), "-ldl"], capture_output=True
        )
        return library.read_bytes() if done.returncode == 0 else None


def agent_files(shim: bytes | None = None) -> dict[str, bytes]:
    """All that belongs in the agent's directory, by relative path. `shim` as `compile_shim` returned it."""
    files = {
        str(path.relative_to(AGENT_DIRECTORY)): path.read_bytes()
        for path in sorted(AGENT_DIRECTORY.rglob("*"))
        if path.suffix in SHIPPED_SUFFIXES
    }
    if shim is not None:
        files[SHIM_LIBRARY] = shim
    return files


def content_hash(files: Mapping[str, bytes]) -> str:
    """Names the directory on the host, so that it is uploaded once."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.encode() + b"\0" + hashlib.sha256(files[path]).digest())
    return digest.hexdigest()[:16]


def agent_command(
    directory: str, *, state: str, python: str, name: str, control_port: int = 22, lab: bool = False
) -> list[str]:
    """The argument list that runs the agent; put `sudo -n` before it where the user is not root.

    `lab` forbids touching the machine's clock even where the lab's marker file is missing.
    """
    command = [python, "-u", f"{directory}/agent.py", "--state", state, "--name", name]
    return [*command, "--control-port", str(control_port), *(["--lab"] if lab else [])]
