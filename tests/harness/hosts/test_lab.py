"""The local lab (HX-02): real hosts over SSH, nothing of the machine touched, nothing left behind by whatever death."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts.ssh import Remote
from squall.harness.lab import lab as lab_module
from squall.harness.lab import lab_requirements
from squall.harness.lab.lab import (
    Lab,
    enter_lab_network,
    find_lab,
    lab_down,
    lab_status,
    lab_up,
    remove_leftovers,
    state_root,
)
from tests.facts import naming
from tests.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hosts")]

NAME = f"test-{os.getpid()}"


@pytest.fixture
def own_lab(lab: Lab) -> Iterator[Lab]:
    """A lab to be killed; whatever the test does, it is taken down."""
    try:
        yield lab_up(1, 1, name=NAME)
    finally:
        lab_down(NAME)


def children(pid: int) -> list[int]:
    """All descendants of a process."""
    try:
        own = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [one for child in own for one in (child, *children(child))]


def namespaces(pids: list[int], kinds: tuple[str, ...] = ("net", "mnt", "pid", "uts", "ipc")) -> set[str]:
    found = set()
    for pid in pids:
        for kind in kinds:
            try:
                found.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found


def every_pid() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def machine_view() -> tuple[object, ...]:
    """What a lab must not change: this machine's mounts, interfaces and named namespaces."""
    mounts = Path("/proc/self/mountinfo").read_text()
    named = Path("/run/netns")
    interfaces = sorted(Path("/sys/class/net").iterdir())
    return mounts, interfaces, sorted(named.iterdir()) if named.exists() else []


def is_gone(pids: list[int], spaces: set[str]) -> bool:
    alive = [pid for pid in pids if lab_module.process_started(pid) is not None]
    return not alive and not (namespaces(every_pid()) & spaces)


def test_a_lab_is_up_and_down_in_seconds(own_lab: Lab) -> None:
    assert 0 < own_lab.up_seconds < 10
    began = time.monotonic()
    assert lab_down(NAME)
    assert time.monotonic() - began < 5


def test_hosts_have_their_own_names_addresses_and_processes(b1: Remote) -> None:
    assert b1.run(["hostname"]).stdout == "b1\n"
    assert b1.run(["cat", "/run/squall-lab-host"]).stdout == "b1\n"
    addresses = b1.run(["ip", "-4", "-o", "addr", "show", "eth0"]).stdout
    assert b1.spec.address in addresses
    assert len(b1.run("ls -d /proc/[0-9]*").stdout.split()) < 15


def test_hosts_reach_each_other_by_address_and_by_name(b1: Remote, c1: Remote) -> None:
    knock = "import socket; print(socket.create_connection(('{}', 22), 3).recv(4))"
    for target in (c1.spec.address, "c1"):
        assert b1.run([b1.spec.python, "-c", knock.format(target)], check=True).stdout == "b'SSH-'\n"


def test_a_host_has_files_of_its_own_and_the_machines_programs_read_only(b1: Remote, c1: Remote) -> None:
    b1.run("echo mine > /root/note; echo mine > /var/lib/note", check=True)
    assert not c1.run(["test", "-e", "/root/note"]).ok
    assert not Path("/var/lib/note").exists()
    assert "Read-only" in b1.run("touch /usr/bin/intruder").stderr
    assert b1.run("nft --version && sudo --version", check=True).ok
    b1.run("rm /root/note /var/lib/note", check=True)


def test_a_host_cannot_hurt_the_machine_it_runs_on(b1: Remote) -> None:
    before = time.time()
    assert "not permitted" in b1.run("date -s '2001-01-01'").stderr
    assert time.time() - before < 60
    assert "Read-only" in b1.run("echo 1 > /proc/sys/kernel/panic").stderr
    assert not b1.run("echo s > /proc/sysrq-trigger").ok
    assert "not permitted" in b1.run("mknod /tmp/disk b 254 0").stderr
    assert b1.run("ls /dev/vda /dev/sda").exit_status != 0


def test_the_control_process_stays_in_its_network_and_reaches_the_hosts(lab: Lab) -> None:
    before = Path("/proc/self/ns/net").readlink()
    with lab.network.socket() as made:
        made.settimeout(5)
        made.connect((lab.hosts[0].address, 22))
        assert made.recv(4) == b"SSH-"
    assert Path("/proc/thread-self/ns/net").readlink() == before
    assert Path(f"/proc/{lab.network.holder}/ns/net").readlink() != before


KNOCK = "import socket; print(socket.create_connection(('{address}', 22), 5).recv(4).decode())"


def test_a_program_started_with_the_command_prefix_reaches_the_hosts(lab: Lab) -> None:
    argv = [*lab.network.command_prefix(), sys.executable, "-c", KNOCK.format(address=lab.hosts[0].address)]
    assert subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True).stdout == "SSH-\n"


def test_a_worker_process_may_enter_the_labs_network(lab: Lab) -> None:
    child = os.fork()
    if child == 0:
        try:
            enter_lab_network(lab)
            with socket.create_connection((lab.hosts[0].address, 22), 5) as made:
                os._exit(0 if made.recv(4) == b"SSH-" else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_kill_minus_9_of_the_supervisor_leaves_no_process_no_namespace_no_mount(own_lab: Lab) -> None:
    before = machine_view()
    with Remote(own_lab.inventory().host("b1"), own_lab.network) as host:
        host.run("setsid -f sleep 1000 </dev/null >/dev/null 2>&1", check=True)
        host.run("setsid -f sh -c 'kill -STOP $$' </dev/null >/dev/null 2>&1", check=True)
        host.run("mkdir -p /mnt && mount -t tmpfs x /srv", check=True)
        pids = children(own_lab.supervisor)
        spaces = namespaces(pids) - namespaces([os.getpid()])
        assert len(pids) >= 7 and len(spaces) >= 9
        os.kill(own_lab.supervisor, signal.SIGKILL)
        wait_until(lambda: is_gone([own_lab.supervisor, *pids], spaces), "all of the lab is gone", timeout=5)
    assert machine_view() == before
    assert find_lab(NAME) is None


def test_directories_of_a_killed_lab_are_removed_when_the_next_one_comes_up(own_lab: Lab) -> None:
    os.kill(own_lab.supervisor, signal.SIGKILL)
    wait_until(lambda: not own_lab.is_alive(), "the lab is down", timeout=5)
    assert own_lab.data.exists()
    lab_up(1, 1, name=f"{NAME}-next")
    try:
        assert not own_lab.data.exists() and not own_lab.directory.exists()
    finally:
        lab_down(f"{NAME}-next")


def test_a_private_lab_dies_with_its_owner(lab: Lab) -> None:
    program = (
        "import time\nfrom squall.harness.lab.lab import private_lab\n"
        "with private_lab(1, 1) as lab:\n    print(lab.supervisor, lab.name, flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        supervisor, name = owner.stdout.readline().split()
        pids = [int(supervisor), *children(int(supervisor))]
        assert len(pids) >= 6
        owner.kill()
    try:
        wait_until(lambda: is_gone(pids, set()), "all of the lab is gone", timeout=5)
    finally:
        lab_down(name)


def test_status_tells_what_every_host_answers(lab: Lab) -> None:
    status = next(one for one in lab_status() if one.lab.name == lab.name)
    assert status.answering == {"c1": True, "b1": True, "b2": True}


def test_two_labs_of_one_name_are_refused_with_the_command_that_helps(own_lab: Lab) -> None:
    with pytest.raises(UsageError, match=f"squall lab down --name {NAME}"):
        lab_up(1, 1, name=NAME)


def test_of_two_that_bring_up_one_lab_one_has_it_and_the_other_backs_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both have seen that there is none of that name; also where one was killed before and has left its files."""
    name, hosts = f"{NAME}-race", lab_module.lab_hosts
    for _ in range(2):
        both = Barrier(2)

        def together(*arguments: Any, both: Barrier = both) -> Any:
            with contextlib.suppress(BrokenBarrierError):
                both.wait(1.0)  # who got so far waits for the other, who may have been refused
            return hosts(*arguments)

        monkeypatch.setattr(lab_module, "lab_hosts", together)
        with ThreadPoolExecutor(2) as pool:
            tried = [pool.submit(lab_up, 1, 1, name=name, owner=os.getpid()) for _ in range(2)]
        up = [one.result() for one in tried if one.exception() is None]
        assert len(up) == 1, [one.exception() for one in tried]
        assert all("already up" in str(one.exception()) for one in tried if one.exception() is not None)
        assert find_lab(name) == up[0]
        assert lab_status_of(name) == {"c1": True, "b1": True}
        os.kill(up[0].supervisor, signal.SIGKILL)
        wait_until(lambda lab=up[0]: not lab.is_alive(), "the lab is down", timeout=5)  # type: ignore[misc]
    remove_leftovers()


def lab_status_of(name: str) -> dict[str, bool]:
    return next(one.answering for one in lab_status() if one.lab.name == name)


def test_taking_down_what_is_not_up_is_no_error() -> None:
    assert not lab_down("never-was")


def test_after_down_nothing_is_left_on_disk(own_lab: Lab) -> None:
    lab_down(NAME)
    assert not own_lab.data.exists()
    assert not (state_root() / NAME).exists()


def test_using_a_lab_that_is_down_says_so(own_lab: Lab) -> None:
    lab_down(NAME)
    with pytest.raises(UsageError, match="no longer up"):
        own_lab.network.socket()


def test_missing_tools_are_named_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        lab_requirements.shutil, "which", lambda tool, path=None: None if tool == "nft" else f"/bin/{tool}"
    )
    with pytest.raises(UsageError, match=naming("nft", "sudo apt-get install nftables")):
        lab_requirements.check_machine()


def test_a_lab_that_cannot_come_up_says_which_host_failed_and_leaves_nothing(lab: Lab) -> None:
    began = time.monotonic()
    with pytest.raises(UsageError, match=r"the lab did not come up: .*host (c1|b1) ended before it was ready"):
        lab_up(1, 1, name=NAME, read_only=("/nowhere",))
    assert time.monotonic() - began < 10
    assert not (state_root() / NAME).exists()
    assert not list(Path("/var/tmp").glob(f"squall-lab-{NAME}-*"))
