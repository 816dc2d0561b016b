"""A lab of an ordinary user: the same hosts, made in a user namespace, through the command line as a user types it.

The user is a number that nobody has, without groups, rights or a home but the test's. Where his interpreter lies in a
directory that only root may read, it is shown to him, in a mount namespace of the test's own.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts import machine
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hosts")]

NOBODYS_ID = next(number for number in range(61234, 65000) if number not in {one.pw_uid for one in pwd.getpwall()})
PROJECT = Path(__file__).resolve().parents[3]
SECONDS = 120
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# A readable way to the interpreter's prefix: over the first directory that others may not enter lies an empty one, in
# which there is nothing but the prefix.
SHOW_THE_INTERPRETER = """
set -e
mount --make-rprivate /
if [ -n "$1" ]; then
    mount --bind "$2" "$3"
    mount -t tmpfs -o mode=755 tmpfs "$1"
    mkdir -p "$2"
    mount --move "$3" "$2"
fi
shift 3
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

    def run(self, *argv: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
        prefix = Path(sys.base_prefix).resolve()
        hidden = hidden_directory(prefix)
        user = [*("setpriv", f"--reuid={NOBODYS_ID}", f"--regid={NOBODYS_ID}", "--clear-groups", "--no-new-privs")]
        return subprocess.run(
            [
                *("unshare", "--mount", "sh", "-c", SHOW_THE_INTERPRETER, "show"),
                *(str(hidden or ""), str(prefix), str(self.spare)),
                *user,
                *argv,
            ],
            cwd=self.home,
            env={"HOME": str(self.home), "USER": "nobodys", "LOGNAME": "nobodys", "PATH": PATH, "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def squall(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "squall.harness.cli", *arguments)


@pytest.fixture(scope="module")
def user() -> Iterator[Ordinary]:
    need_lab()
    if os.geteuid() != 0:
        pytest.skip("becoming an ordinary user needs root")
    if hidden_directory(PROJECT) is not None:
        pytest.skip(f"an ordinary user may not read {hidden_directory(PROJECT)}, where the project lies")
    # Not below pytest's own directory, which is kept from others.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="squall-user-") as place:
        home, spare = Path(place, "home"), Path(place, "spare")
        for directory in (Path(place), home, spare):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)
        os.chown(home, NOBODYS_ID, NOBODYS_ID)
        yield from ordinary_user(Ordinary(home, spare))


def ordinary_user(one: Ordinary) -> Iterator[Ordinary]:
    """Where the machine lets him have namespaces; whatever he brought up is taken down."""
    tried = one.run(*machine.TRY, "true")
    if tried.returncode != 0:
        pytest.skip(f"this machine gives ordinary users no namespaces: {tried.stderr.strip()}")
    yield one
    one.squall("lab", "down")
    subprocess.run(["rm", "-rf", f"/tmp/squall-{NOBODYS_ID}"], check=True)


@pytest.fixture(scope="module")
def up(user: Ordinary) -> Ordinary:
    """The user with a lab that is up."""
    done = user.squall("lab", "up", "--controllers", "1", "--brokers", "3", "--racks", "2", "--between-racks", "5ms")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 hosts up in" in done.stdout and "without root" in done.stdout
    assert "✔ r1-r2" in done.stdout and "asked for 10 ms" in done.stdout
    return user


def test_a_lab_is_up_and_nothing_of_it_is_roots(up: Ordinary) -> None:
    status = up.squall("lab", "status")
    assert status.returncode == 0 and "default: 4 of 4 hosts answer" in status.stdout, status.stdout + status.stderr
    inits = [one for one in processes_of_user() if one.name() in ("squall-lab", "squall-host")]
    assert len(inits) == 5  # the lab's, and of each of the four hosts


def test_the_user_is_root_on_hosts_and_nobody_outside(up: Ordinary) -> None:
    said = up.squall("lab", "ssh", "b1", "id -u; hostname; touch /usr/bin/intruder; touch /var/lib/note && echo mine")
    assert said.stdout.split() == ["0", "b1", "mine"], said.stdout + said.stderr
    assert "Read-only" in said.stderr
    owners = {path.stat().st_uid for path in Path("/var/tmp").glob("squall-lab-default-*/b1/var/lib/note")}
    assert NOBODYS_ID in owners


def test_a_host_of_such_a_lab_has_no_devices_of_the_machine(up: Ordinary) -> None:
    said = up.squall("lab", "ssh", "b1", "ls /dev; losetup -f /etc/passwd || echo none")
    assert "loop0" not in said.stdout and "none" in said.stdout


def test_inventory_check_tells_what_its_hosts_can_do(up: Ordinary) -> None:
    said = up.squall("inventory", "check", "--lab", "default")
    assert "b1" in said.stdout, said.stdout + said.stderr


@pytest.mark.full
def test_a_fault_of_the_network_and_one_of_a_process_are_proven_there(up: Ordinary) -> None:
    """Injected, evidenced, healed, on top of what lies between racks."""
    arguments = ["--verify", "--lab", "default", "--only", "slow-link", "--only", "pause", "--json", "verified.json"]
    said = up.squall("faults", *arguments)
    assert said.returncode == 0, said.stdout + said.stderr
    assert json.loads((up.home / "verified.json").read_text())


def test_down_leaves_no_process_and_no_file(up: Ordinary) -> None:
    done = up.squall("lab", "down")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not processes_of_user() and not directories_of_user()


def test_the_supervisors_death_leaves_no_process_and_the_next_lab_no_file(user: Ordinary) -> None:
    brought = user.squall("lab", "up", "--controllers", "1", "--brokers", "1")
    assert brought.returncode == 0, brought.stdout + brought.stderr
    everybody = processes_of_user()
    (supervisor,) = [one for one in everybody if one.ppid() not in {other.pid for other in everybody}]
    supervisor.kill()
    deadline = time.monotonic() + 5
    while processes_of_user():
        assert time.monotonic() < deadline, processes_of_user()
        time.sleep(0.02)
    assert "none is up" in user.squall("lab", "status").stdout
    user.squall("lab", "up", "--controllers", "1", "--brokers", "1", "--name", "next")
    assert len(directories_of_user()) == 1
    user.squall("lab", "down", "--name", "next")
    assert not directories_of_user() and not processes_of_user()


def processes_of_user() -> list[psutil.Process]:
    """Those that have something to run: a zombie's time is its parent's."""
    return [
        one
        for one in psutil.process_iter(["uids", "status"])
        if one.info["uids"].real == NOBODYS_ID and one.info["status"] != psutil.STATUS_ZOMBIE
    ]


def directories_of_user() -> list[Path]:
    return [path for path in Path("/var/tmp").glob("squall-lab-*") if path.stat().st_uid == NOBODYS_ID]


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
        ("user/max_user_namespaces", "96365", "--privileged"),
    ],
)
def test_what_forbids_user_namespaces_is_named(tmp_path: Path, name: str, value: str, remedy: str) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(value + "\n")
    assert remedy in machine.what_allows_them(tmp_path)


def test_where_they_are_refused_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(machine, "why_no_user_namespaces", lambda: "unshare failed: Operation not permitted")
    with pytest.raises(
        UsageError, match=r"refuses: unshare failed: Operation not permitted\n    allow them.*sudo.*--inventory"
    ):
        machine.check_machine()
