"""A reduced lab: hosts that are plain processes of an ordinary user, for machines that give him no namespaces.

Through the command line as he types it; he has a name here, because sshd lets in nobody else.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pydantic import TypeAdapter

from squall.harness.cli.hosts.lab import ssh_arguments
from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import HostPaths
from squall.harness.hosts.network import LoopbackNetwork, process_started
from squall.harness.hosts.packet_capture import refuse_capture
from squall.harness.hosts.preflight import check_host, refuse_unable
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.system import agent_command
from squall.harness.lab import lab_requirements
from squall.harness.lab.lab import Lab, lab_hosts
from squall.harness.lab.owned import make_owned
from squall.harness.lab.reduced_lab import (
    MOST_HOSTS,
    NETWORK,
    SSH_PORT,
    prepare_reduced,
    reduced_hosts,
    refuse_between_racks,
)
from squall.harness.scenario.inventory import Inventory
from squall.harness.scenario.lab_topology import NO_RACKS, LabTopology, LinkProfile, Racks
from squall.nemesis.agent.core.reduced import not_offered
from squall.nemesis.entries import AnyFault
from squall.nemesis.registry import ON_HOSTS, needed_verbs
from tests.facts import naming
from tests.harness.lab.ordinary_user import (
    Ordinary,
    directories_of_user,
    ordinary_user,
    processes_of_user,
)
from tests.processes import words_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hosts")]

SHAPE = ("--controllers", "1", "--brokers", "1")
GONE_SECONDS = 20.0

# On a host: one that sleeps in a session of its own, one that is stopped, one that no request ends.
HARD_TO_END = (
    "setsid -f sleep 1000 </dev/null >/dev/null 2>&1; setsid -f sh -c 'kill -STOP $$' </dev/null >/dev/null 2>&1; "
    "(trap '' TERM HUP; exec setsid -f sleep 1000 </dev/null >/dev/null 2>&1)"
)

KILL_AND_PAUSE = """
scenario: reduced
cluster:
  controllers: 1
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
  config:
    broker.session.timeout.ms: 1500
    broker.heartbeat.interval.ms: 300
    replica.lag.time.max.ms: 1500
workload: {name: log, client: confluent, producers: 2, consumers: 2, rate: 100/s, acks: all}
nemesis:
  - {fault: kill, target: leader of events/0, at: 500ms, for: 1500ms}
  - {fault: pause, target: one follower of events/0, at: 4s, for: 1s}
time: {load: 6s, settle: 10s}
min_acknowledged: 50
"""

CUT_OFF = """
scenario: cut-off
cluster:
  controllers: 1
  brokers: 1
  topics: {events: {partitions: 1, replication_factor: 1, min_insync_replicas: 1}}
workload: {name: log, client: confluent, producers: 1, consumers: 1, rate: 100/s, acks: all}
nemesis:
  - {fault: kill, target: b1, at: 0s, for: 500ms}
  - {fault: isolate, target: b1, at: 1s, for: 500ms}
time: {load: 2s, settle: 10s}
"""

TWO_AT_ONCE = """
import asyncio
from squall.harness.hosts.host_locks import HostLocks, HostsInUse
from squall.harness.lab.lab import standing_lab

lab = standing_lab("default")
first, second = (HostLocks(name, wait=None, say=print) for name in ("first", "second"))
asyncio.run(first.take(lab.inventory(), lab.network, "r1"))
print(len(list(lab.data.glob("*/home/.squall/host-lock/lock"))), "locks")
try:
    asyncio.run(second.take(lab.inventory(), lab.network, "r2"))
except HostsInUse as refused:
    print("refused", refused.owner.command)
first.close()
asyncio.run(second.take(lab.inventory(), lab.network, "r2"))
second.close()
print("taken")
"""


@pytest.fixture(scope="module")
def user() -> Iterator[Ordinary]:
    with ordinary_user(named=True) as one:
        yield one


@pytest.fixture
def up(user: Ordinary) -> Ordinary:
    """The user with a lab that is up."""
    if "none is up" in user.squall("lab", "status").stdout:
        done = user.squall("lab", "up", "--reduced", *SHAPE)
        assert done.returncode == 0, done.stdout + done.stderr
    return user


# --- What it is ----------------------------------------------------------------------------------------------------


def test_it_says_that_it_is_reduced_why_and_what_it_lacks(user: Ordinary) -> None:
    done = user.squall("lab", "up", "--reduced", *SHAPE)
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (done.stdout, user.squall("lab", "status").stdout):
        assert "REDUCED" in said and "requested by --reduced" in said and "no partitions" in said, said


def test_a_host_has_a_home_an_address_and_temporary_files_of_its_own(up: Ordinary) -> None:
    """And commands there keep their words and their status."""
    asked = 'pwd; echo "$HOME" "$TMPDIR" "$SSH_CONNECTION"; printf \'%s|\' \'a  b\' "it\'s"; exit 7'
    said = up.squall("lab", "ssh", "b1", asked)
    directory, told, words = said.stdout.splitlines()
    home, temporary, _, _, address, _ = told.split()
    assert directory == home and home.endswith("/b1/home") and temporary.endswith("/b1/tmp")
    assert address.startswith(f"{NETWORK}.") and words == "a  b|it's|" and said.returncode == 7


@pytest.mark.full
def test_inventory_check_finds_no_problem_and_says_that_there_is_no_root(up: Ordinary) -> None:
    said = up.squall("inventory", "check", "--lab", "default")
    assert "none: reduced" in said.stdout, said.stdout + said.stderr


def test_its_hosts_are_locked_one_by_one_though_they_share_a_machine(up: Ordinary) -> None:
    done = up.run(sys.executable, "-c", TWO_AT_ONCE)
    assert done.stdout.splitlines() == ["2 locks", "refused first", "taken"], done.stdout + done.stderr


# --- Runs ----------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_what_it_cannot_do_is_refused_before_anything_is_started(up: Ordinary) -> None:
    (up.home / "cut-off.yaml").write_text(CUT_OFF)
    said = up.squall("run", "cut-off.yaml", "--lab", "default", "--seed", "7", "--in-process")
    assert said.returncode not in (0, 1, 2), said.stdout + said.stderr
    assert "b1: net.drop: a host of a reduced lab has no separate network" in said.stderr
    assert "kill -9" not in said.stdout and not list((up.home / "runs").glob("cut-off/*"))
    assert not [one for one in processes_of_user() if "squall.nodes" in " ".join(words_of(one))]


@pytest.mark.full
def test_a_run_with_a_kill_and_a_pause_is_valid_and_its_report_says_reduced(user: Ordinary) -> None:
    user.squall("lab", "down")
    user.squall("lab", "up", "--reduced", "--controllers", "1", "--brokers", "3")
    (user.home / "reduced.yaml").write_text(KILL_AND_PAUSE)
    said = user.squall("run", "reduced.yaml", "--lab", "default", "--seed", "7", "--in-process")
    user.squall("lab", "down")
    assert said.returncode == 0 and "VALID" in said.stdout, said.stdout + said.stderr
    assert "process gone" in said.stdout and "process stopped" in said.stdout and "reduced" in said.stdout
    directory = next((user.home / "runs" / "reduced").iterdir())
    told = json.loads((directory / "run.json").read_text())["options"]["reduced_lab"]
    assert "no partitions" in told and "asked for" in told
    assert "no partitions" in (directory / "report.html").read_text()
    assert not processes_of_user() and not directories_of_user()


# --- Its end -------------------------------------------------------------------------------------------------------


def test_down_leaves_no_process_and_no_file(up: Ordinary) -> None:
    up.squall("lab", "ssh", "b1", HARD_TO_END)
    assert len(processes_of_user()) >= 7
    done = up.squall("lab", "down")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not processes_of_user() and not directories_of_user()


@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1], ids=["supervisor", "holder"])
def test_the_death_of_either_of_its_two_ends_everything(up: Ordinary, victim: int) -> None:
    up.squall("lab", "ssh", "b1", HARD_TO_END)
    pair = supervisor_and_holder()
    assert len(processes_of_user()) >= 7
    pair[victim].send_signal(signal.SIGKILL)
    await_nobody()
    assert "none is up" in up.squall("lab", "status").stdout


@pytest.mark.full
def test_should_both_be_killed_at_once_the_next_lab_ends_what_is_left(up: Ordinary) -> None:
    up.squall("lab", "ssh", "b1", HARD_TO_END)
    pair = supervisor_and_holder()
    for deed in (signal.SIGSTOP, signal.SIGKILL):
        for one in pair:
            one.send_signal(deed)
    psutil.wait_procs(pair, timeout=GONE_SECONDS)
    left = processes_of_user()
    assert left, "nothing got away, so nothing is shown"
    up.squall("lab", "up", "--reduced", *SHAPE, "--name", "next")
    assert not {one.pid for one in left} & {one.pid for one in processes_of_user()}
    assert len(directories_of_user()) == 1
    up.squall("lab", "down", "--name", "next")
    assert not processes_of_user() and not directories_of_user()


def supervisor_and_holder() -> list[psutil.Process]:
    """The one that nobody's death but its own ends, and its child."""
    everybody = processes_of_user()
    found = [one for one in everybody if "squall.harness.lab.reduced_supervisor" in words_of(one)]
    return sorted(found, key=lambda one: one.ppid() in {other.pid for other in found})


def await_nobody() -> None:
    wait_until(
        lambda: not processes_of_user(),
        lambda: [words_of(one) for one in processes_of_user()],
        GONE_SECONDS,
        every=0.02,
    )


# --- Who gets one, and what he is told -----------------------------------------------------------------------------


@pytest.fixture
def without_root(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As an ordinary user with a name and a shell would be treated."""
    account = dataclasses.make_dataclass("Account", ["pw_name", "pw_shell"])
    monkeypatch.setattr(lab_requirements.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(lab_requirements.pwd, "getpwuid", lambda _: account("ann", "/bin/sh"))
    return monkeypatch


def test_without_namespaces_the_lab_is_reduced_and_says_what_allows_more(
    without_root: pytest.MonkeyPatch,
) -> None:
    without_root.setattr(lab_requirements, "why_no_user_namespaces", lambda: "unshare failed: Operation not permitted")
    why = lab_requirements.check_machine()
    assert "refuses user namespaces: unshare failed: Operation not permitted" in why
    assert "allow them" in why and "sudo" in why


def test_where_they_are_to_be_had_it_must_be_asked_for(without_root: pytest.MonkeyPatch) -> None:
    without_root.setattr(lab_requirements, "why_no_user_namespaces", lambda: None)
    assert lab_requirements.check_machine() == ""
    assert "--reduced" in lab_requirements.check_machine(reduced=True)


def test_it_needs_sshd_and_no_tool_of_networks(without_root: pytest.MonkeyPatch) -> None:
    without_root.setattr(
        lab_requirements.shutil, "which", lambda tool, path: "/usr/sbin/sshd" if tool == "sshd" else None
    )
    assert lab_requirements.check_machine(reduced=True)
    without_root.setattr(lab_requirements.shutil, "which", lambda tool, path: None)
    with pytest.raises(UsageError, match=r"needs sshd\n    install: .*openssh-server"):
        lab_requirements.check_machine(reduced=True)


@pytest.mark.parametrize(
    ("shell", "remedy"), [("/usr/sbin/nologin", "does not allow logins"), ("/no/shell", "does not allow logins")]
)
def test_whom_sshd_would_not_let_in_is_told(without_root: pytest.MonkeyPatch, shell: str, remedy: str) -> None:
    account = dataclasses.make_dataclass("Account", ["pw_name", "pw_shell"])
    without_root.setattr(lab_requirements.pwd, "getpwuid", lambda _: account("ann", shell))
    with pytest.raises(UsageError, match=remedy):
        lab_requirements.check_machine(reduced=True)


def test_a_user_without_a_name_is_told(without_root: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> object:
        raise KeyError

    without_root.setattr(lab_requirements.pwd, "getpwuid", nobody)
    with pytest.raises(UsageError, match=naming("user 1000")):
        lab_requirements.check_machine(reduced=True)


def test_root_never_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_requirements.os, "geteuid", lambda: 0)
    with pytest.raises(UsageError, match=r"root on the machine itself\n    leave --reduced out"):
        lab_requirements.check_machine(reduced=True)
    monkeypatch.setattr(lab_requirements, "may_make_namespaces", lambda: False)
    with pytest.raises(UsageError, match=r"root may make no namespaces.*\n    .*ordinary user.*--privileged"):
        lab_requirements.check_machine()


def test_roots_rights_are_read_from_the_kernel(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tx\nCapEff:\t00000000a80425fb\n")  # what Docker leaves
    assert not lab_requirements.may_make_namespaces(status)
    status.write_text("Name:\tx\nCapEff:\t000001ffffffffff\n")
    assert lab_requirements.may_make_namespaces(status)


@pytest.mark.parametrize(
    ("fault", "refused"),
    [
        ({"fault": "kill", "target": "b1"}, ""),
        ({"fault": "pause", "target": "b1", "for": 5}, ""),
        ({"fault": "clock", "target": "b1", "offset": "1h"}, ""),
        ({"fault": "power-loss", "target": "b1"}, ""),
        ({"fault": "isolate", "target": "b1"}, "net.drop"),
        ({"fault": "slow-link", "target": "b1", "latency": "5ms"}, "net.shape"),
        ({"fault": "rpc-hold", "api": "Fetch", "to": "b1"}, "rpc.hold"),
        ({"fault": "host-down", "target": "b1"}, "net.drop"),
        ({"fault": "cpu-stress", "target": "b1"}, "host.stress"),
    ],
    ids=lambda value: value["fault"] if isinstance(value, dict) else "refused" if value else "allowed",
)
def test_a_suite_that_needs_more_than_a_process_of_its_hosts_is_refused(fault: dict[str, object], refused: str) -> None:
    found = {"b1": {"unable": not_offered(ON_HOSTS)}}
    entry: TypeAdapter[AnyFault] = TypeAdapter(AnyFault)
    verbs = needed_verbs([entry.validate_python(fault)])
    if not refused:
        refuse_unable(found, verbs)
        return
    with pytest.raises(UsageError, match=rf"b1: {refused}: a host of a reduced lab"):
        refuse_unable(found, verbs)


# --- Its parts -----------------------------------------------------------------------------------------------------


def test_nothing_can_lie_between_its_racks() -> None:
    refuse_between_racks(Racks(count=3), "why")
    for racks in (
        Racks(count=2, between=LinkProfile(latency=0.002)),
        Racks(count=3, links={"r1-r3": LinkProfile(latency=0.02)}),
    ):
        with pytest.raises(UsageError, match=r"nothing between its racks.*why\n    leave between_racks"):
            refuse_between_racks(racks, "why")


def test_hosts_have_addresses_of_loopback_and_the_user_is_nobody_else() -> None:
    hosts = reduced_hosts(lab_hosts(LabTopology(controllers=1, brokers=2), Path("state")))
    assert len({host.address for host in hosts}) == 3
    assert all(host.address.startswith(f"{NETWORK}.") and host.port == SSH_PORT for host in hosts)
    assert all(host.reduced and not host.sudo for host in hosts)
    with pytest.raises(UsageError, match=f"room for {MOST_HOSTS} hosts"):
        reduced_hosts(lab_hosts(LabTopology(controllers=1, brokers=100, clients=200), Path("state")))


def test_the_files_of_a_host_are_its_own_and_the_users_alone(tmp_path: Path) -> None:
    hosts = reduced_hosts(lab_hosts(LabTopology(controllers=1, brokers=1), tmp_path / "state"))
    for directory in ("state", "data"):
        make_owned(tmp_path / directory, directory, "x")
    prepare_reduced("x", tmp_path / "state", tmp_path / "data", hosts, racks=NO_RACKS, why="because")
    config = (tmp_path / "data/b1/sshd_config").read_text()
    assert f"ListenAddress {hosts[1].address}\n" in config and f"HOME={tmp_path}/data/b1/home " in config
    known = (tmp_path / "state/known_hosts").read_text().splitlines()
    assert [line.split()[0] for line in known] == [f"[{host.address}]:{SSH_PORT}" for host in hosts]
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0
    assert json.loads((tmp_path / "state/plan.json").read_text())["reduced"] == "because"


def test_ssh_and_agents_are_told_where_the_host_is() -> None:
    hosts = reduced_hosts(lab_hosts(LabTopology(), Path("state")))
    network = LoopbackNetwork(os.getpid(), process_started(os.getpid()) or 0)
    argv = ssh_arguments(Lab("x", Path("state"), Path("data"), hosts, 1, network, 0.1), "b1", ["true"])
    assert argv[0] == "ssh" and argv[argv.index("-p") + 1] == str(SSH_PORT) and hosts[3].address in argv[-2]
    command = agent_command(HostPaths("python3", "/home/ann", "/bundle"), hosts[3])
    assert command[command.index("--reduced") + 1] == hosts[3].address


def test_a_lab_that_is_gone_has_no_network() -> None:
    network = LoopbackNetwork(os.getpid(), 1)
    for use in (network.socket, network.enter, network.command_prefix):
        with pytest.raises(UsageError, match="no longer up"):
            use()


def test_packets_are_not_captured_there() -> None:
    hosts = reduced_hosts(lab_hosts(LabTopology(), Path("state")))
    with pytest.raises(UsageError, match=r"--capture: lab x is a reduced lab"):
        refuse_capture(Inventory("lab x", hosts))
    refuse_capture(Inventory("lab x", lab_hosts(LabTopology(), Path("state"))))


def test_a_host_out_of_reach_is_a_finding_as_ever() -> None:
    (host, *_) = reduced_hosts(lab_hosts(LabTopology(), Path("state")))
    report = check_host(Remote(host))
    assert not report.ok and report.findings[0].what == "ssh"
