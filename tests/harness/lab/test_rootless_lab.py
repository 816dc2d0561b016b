"""A lab of an ordinary user: the same hosts, made in a user namespace, through the command line as a user types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.harness.lab import lab_requirements
from tests.harness.lab.ordinary_user import (
    NOBODYS_ID,
    Ordinary,
    directories_of_user,
    ordinary_user,
    processes_of_user,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hosts")]


@pytest.fixture(scope="module")
def user() -> Iterator[Ordinary]:
    """Where the machine lets him have namespaces."""
    with ordinary_user() as one:
        tried = one.run(*lab_requirements.TRY, "true")
        if tried.returncode != 0:
            pytest.skip(f"this machine gives ordinary users no namespaces: {tried.stderr.strip()}")
        yield one


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
    wait_until(lambda: not processes_of_user(), processes_of_user, timeout=5, every=0.02)
    assert "none is up" in user.squall("lab", "status").stdout
    user.squall("lab", "up", "--controllers", "1", "--brokers", "1", "--name", "next")
    assert len(directories_of_user()) == 1
    user.squall("lab", "down", "--name", "next")
    assert not directories_of_user() and not processes_of_user()


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
    assert remedy in lab_requirements.what_allows_them(tmp_path)
