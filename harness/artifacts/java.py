"""Find Java, and write command lines that run a program from jars."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from squall.harness.errors import UsageError

OLDEST = 11
REMEDY = "install a Java runtime (Debian and Ubuntu: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java(oldest: int = OLDEST, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the program `java` of `JAVA_HOME`, else of PATH. Raises UsageError if there is none, or an older one."""
    home = environment.get("JAVA_HOME")
    found = shutil.which(f"{home}/bin/java") if home else shutil.which("java", path=environment.get("PATH"))
    if found is None:
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        raise UsageError(f"there is no java {where}", remedy=REMEDY)
    version = _major(found)
    if version < oldest:
        raise UsageError(f"{found} is Java {version}; version {oldest} or newer is needed", remedy=REMEDY)
    return Path(found)


def command(
    main_class: str, jars: Sequence[Path], arguments: Sequence[str] = (), *, options: Sequence[str] = ()
) -> list[str]:
    """Return the command line that runs `main_class` from `jars`; `options` are the virtual machine's."""
    return [str(java()), *options, "-cp", os.pathsep.join(map(str, jars)), main_class, *arguments]


def version_in(said: str) -> int | None:
    """Return the major version that `java -version` prints; None if it prints none."""
    found = _VERSION.search(said)
    return None if found is None else int(found[1])


def _major(program: str) -> int:
    ran = subprocess.run([program, "-version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found = version_in(ran.stderr + ran.stdout)
    if found is None:
        raise UsageError(
            f"{program} does not name its version: {(ran.stderr + ran.stdout).strip()[:200]}", remedy=REMEDY
        )
    return found
