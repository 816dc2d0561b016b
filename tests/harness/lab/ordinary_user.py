"""An ordinary user made for a test: a number that nobody has, without groups, rights or a home but the test's.

Where his interpreter lies in a directory that only root may read, it is shown to him, in a mount namespace of the
test's own; there he may also have a line in /etc/passwd. Nothing of the machine changes.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.labs import need_lab

NOBODYS_ID = next(number for number in range(61234, 65000) if number not in {one.pw_uid for one in pwd.getpwall()})
PROJECT = Path(__file__).resolve().parents[3]
NAME = "nobodys"
SECONDS = 120
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# A readable way to the interpreter's prefix: over the first directory that others may not enter lies an empty one, in
# which there is nothing but the prefix. And the accounts that there are, if they are not to be the machine's.
SHOW_THE_INTERPRETER = """
set -e
mount --make-rprivate /
if [ -n "$1" ]; then
    mount --bind "$2" "$3"
    mount -t tmpfs -o mode=755 tmpfs "$1"
    mkdir -p "$2"
    mount --move "$3" "$2"
fi
if [ -n "$4" ]; then
    mount --bind "$4" /etc/passwd
fi
shift 4
exec "$@"
"""


def hidden_directory(path: Path) -> Path | None:
    """The first directory on the way that others may not enter."""
    return next((one for one in reversed([path, *path.parents]) if not one.stat().st_mode & 0o001), None)


@dataclass(frozen=True)
class Ordinary:
    """Commands of the user."""

    home: Path
    spare: Path
    accounts: Path | None = None
    """What he sees as /etc/passwd, if not the machine's."""

    def run(self, *argv: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
        prefix = Path(sys.base_prefix).resolve()
        hidden = hidden_directory(prefix)
        user = [*("setpriv", f"--reuid={NOBODYS_ID}", f"--regid={NOBODYS_ID}", "--clear-groups", "--no-new-privs")]
        return subprocess.run(
            [
                *("unshare", "--mount", "sh", "-c", SHOW_THE_INTERPRETER, "show"),
                *(str(hidden or ""), str(prefix), str(self.spare), str(self.accounts or "")),
                *user,
                *argv,
            ],
            cwd=self.home,
            env={"HOME": str(self.home), "USER": NAME, "LOGNAME": NAME, "PATH": PATH, "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def squall(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "squall.harness.cli.main", *arguments)


@contextmanager
def ordinary_user(*, named: bool = False) -> Iterator[Ordinary]:
    """One, or a skipped test where none can be; `named` if he is to have an account. His lab is taken down."""
    need_lab()
    if os.geteuid() != 0:
        pytest.skip("becoming an ordinary user needs root")
    if hidden_directory(PROJECT) is not None:
        pytest.skip(f"an ordinary user may not read {hidden_directory(PROJECT)}, where the project lies")
    # Not below pytest's own directory, which is kept from others.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="squall-user-") as place:
        home, spare, accounts = Path(place, "home"), Path(place, "spare"), Path(place, "passwd")
        for directory in (Path(place), home, spare):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)
        os.chown(home, NOBODYS_ID, NOBODYS_ID)
        line = f"{NAME}:x:{NOBODYS_ID}:{NOBODYS_ID}::{home}:/bin/sh\n"
        accounts.write_text(Path("/etc/passwd").read_text() + line)
        one = Ordinary(home, spare, accounts if named else None)
        try:
            yield one
        finally:
            one.squall("lab", "down")
            subprocess.run(["rm", "-rf", f"/tmp/squall-{NOBODYS_ID}"], check=True)


def processes_of_user() -> list[psutil.Process]:
    """Those that have something to run: a zombie's time is its parent's."""
    return [
        one
        for one in psutil.process_iter(["uids", "status"])
        if one.info["uids"].real == NOBODYS_ID and one.info["status"] != psutil.STATUS_ZOMBIE
    ]


def directories_of_user() -> list[Path]:
    return [path for path in Path("/var/tmp").glob("squall-lab-*") if path.stat().st_uid == NOBODYS_ID]
