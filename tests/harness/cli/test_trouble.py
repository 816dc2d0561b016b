"""What the command line says when something is wrong with a file, a host or the user.

Every case is a real `squall …` in a process of its own. It ends with 254 (2 for a history that cannot be judged), in
one message that names file, field, value and remedy, and never in a traceback.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from squall.harness.cli.main import command_line, status_of
from squall.harness.hosts.ssh import Remote
from squall.harness.lab.lab import Lab, lab_down, lab_up
from squall.harness.lab.lab_files import LAB_USER, make_key
from squall.results.synthetic.forge import forge_run, healthy
from tests.labs import need_lab

NAME = f"trouble-{os.getpid()}"

SUITE = """\
scenario: small
cluster:
  controllers: 1
  topics: {events: {partitions: 2, replication_factor: 1, min_insync_replicas: 1}}
  config: {broker.session.timeout.ms: 6000}
workload: {name: log, producers: 1, consumers: 1, rate: 100/s, acks: all}
nemesis:
  - {fault: kill, target: leader of events/*, at: 1s, for: 1s}
time: {load: 3s, settle: 5s}
expect: valid
"""


def told(said: Any, status: int = 254) -> str:
    """The message of a command that had to end with that status."""
    assert said.status == status, said.all
    assert "Traceback" not in said.all and "\x1b[" not in said.all, said.all
    return str(said.err)


# --- Files -----------------------------------------------------------------------------------------------------------

INVENTORIES = {
    "a wrong field": (
        "all: {vars: {ansible_prot: 22}, children: {controllers: {hosts: {c1: {}}}, brokers: {hosts: {b1: {}}}}}",
        "inventory.yaml:1: all.vars.ansible_prot: unknown key; did you mean `ansible_port`?\n",
    ),
    "a wrong type": (
        "all:\n  children:\n    controllers: {hosts: {c1: {}}}\n    brokers: {hosts: {b1: {ansible_port: ssh}}}",
        'inventory.yaml:4: hosts.b1.ansible_port: "ssh" is not a port number (1–65535)\n',
    ),
    "an unknown group": (
        "all: {children: {controllers: {hosts: {c1: {}}}, broker: {hosts: {b1: {}}}}}",
        "inventory.yaml:1: all.children.broker: unknown group; did you mean `brokers`?\n",
    ),
    "a duplicate host": (
        'all:\n  children:\n    controllers: {hosts: {c1: {}}}\n    brokers:\n      hosts:\n        "b[1:3]": {}\n'
        "        b2: {}",
        "inventory.yaml:7: hosts.b2: host b2 is given twice (first on line 6)\n",
    ),
    "two names for one machine": (
        "all: {vars: {ansible_host: 10.0.0.1}, children: {controllers: {hosts: {c1: {}}}, brokers: {hosts: {b1: {}}}}}",
        "inventory.yaml:1: hosts.b1: has the same address as c1: 10.0.0.1 port 22\n",
    ),
    "nothing": ("", "inventory.yaml: the file is empty\n"),
    "too few brokers": (
        "all: {children: {controllers: {hosts: {c1: {ansible_host: 127.0.0.1}}}}}",
        "inventory.yaml:1: all.children: group brokers has no hosts; a cluster needs at least one\n",
    ),
}


@pytest.mark.parametrize("name", INVENTORIES)
def test_a_wrong_inventory(name: str, squall: Any) -> None:
    text, message = INVENTORIES[name]
    (squall.directory / "suite.yaml").write_text(SUITE)
    (squall.directory / "inventory.yaml").write_text(text)
    assert told(squall("run", "suite.yaml", "--inventory", "inventory.yaml", "--in-process")) == message
    assert not (squall.directory / "runs").exists()


SUITES = {
    "a wrong field": (("workload:", "wrokload:"), "suite.yaml:6: wrokload: unknown key; did you mean `workload`?\n"),
    "a wrong type": (
        ("load: 3s", "load: soon"),
        'suite.yaml:9: time.load: "soon" is not a duration; write 500ms, 10s, 2m or 1h\n',
    ),
    "an unknown fault": (
        ("fault: kill", "fault: kil"),
        'suite.yaml:8: nemesis[0].fault: "kil" is not known; did you mean `kill`?\n',
    ),
    "an unknown topic in a target": (
        ("leader of events/*", "leader of evnts/*"),
        'suite.yaml:8: nemesis[0].target: "leader of evnts/*": there is no topic "evnts"; did you mean `events`?\n',
    ),
    "a topic-partition that is not there": (
        ("leader of events/*", "leader of events/7"),
        'suite.yaml:8: nemesis[0].target: "leader of events/7": events has topic-partitions 0 to 1, and no 7\n',
    ),
    "a configuration key nobody knows": (
        ("broker.session", "broker.sesion"),
        "suite.yaml:5: cluster.config.broker.sesion.timeout.ms: unknown key; did you mean broker.session.timeout.ms?\n",
    ),
    "a configuration value out of range": (
        ("6000", "never"),
        'suite.yaml:5: cluster.config.broker.session.timeout.ms: "never" must be a whole number from 1 to 2147483647\n',
    ),
    "a key that is not the user's to set": (
        ("broker.session.timeout.ms: 6000", "node.id: 5"),
        "suite.yaml:5: cluster.config.node.id: follows from the hosts and is set for each of them; leave it out\n",
    ),
}


@pytest.mark.parametrize("name", SUITES)
def test_a_wrong_suite(name: str, squall: Any) -> None:
    (right, wrong), message = SUITES[name]
    (squall.directory / "suite.yaml").write_text(SUITE.replace(right, wrong))
    assert told(squall("run", "suite.yaml", "--in-process")) == message


COMMANDS = {
    "a suite that is not there": (["run", "none.yaml"], "none.yaml: no such file"),
    "an inventory that is not there": (["run", "suite.yaml", "-i", "none.yaml"], "none.yaml: no such file"),
    "a seed that is no number": (["run", "suite.yaml", "--seed", "x"], "Invalid value for '--seed'"),
    "an option nobody knows": (["run", "suite.yaml", "--inventry", "x"], "--inventory"),
    "a lab that is not up": (
        ["run", "suite.yaml", "--lab", "no", "--in-process"],
        "bring it up: squall lab up --name no",
    ),
    "two places at once": (["run", "suite.yaml", "--lab", "no", "-i", "x"], "leave one of them out"),
    "no Java": (["run", "suite.yaml"], "Java"),
    "a run that is not there": (["check", "runs/none"], "runs/none: no run"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_command_line(name: str, squall: Any) -> None:
    arguments, message = COMMANDS[name]
    (squall.directory / "suite.yaml").write_text(SUITE)
    bare = squall.knowing(PATH=str(squall.directory), JAVA_HOME="")
    assert message in told(bare(*arguments))


# --- Histories -------------------------------------------------------------------------------------------------------


def no_row(run: Path) -> None:
    segment = run / "history/segment-000.jsonl"
    lines = segment.read_text().splitlines()
    segment.write_text("\n".join([*lines[:20], '["i", "send", "not a number"]', *lines[20:]]) + "\n")


def no_header(run: Path) -> None:
    segment = run / "history/segment-000.jsonl"
    segment.write_text("\n".join(segment.read_text().splitlines()[1:]) + "\n")


def no_history(run: Path) -> None:
    (run / "history/segment-000.jsonl").unlink()


def a_completion_too_many(run: Path) -> None:
    segment = run / "history/segment-000.jsonl"
    lines = segment.read_text().splitlines()
    completion = next(line for line in lines if line.startswith('["c"'))
    segment.write_text("\n".join([*lines, completion]) + "\n")


def no_manifest(run: Path) -> None:
    (run / "run.json").write_text("{")


HISTORIES: dict[Callable[[Path], None], str] = {
    no_row: "segment-000.jsonl:21: is not a row of a history",
    no_header: "segment-000.jsonl:1: is not the header of a segment",
    no_history: "has no segments: nothing was recorded",
    a_completion_too_many: "segment-000.jsonl:",
    no_manifest: "run.json: is not",
}


@pytest.mark.parametrize("damage", HISTORIES, ids=lambda damage: damage.__name__)
def test_an_ill_formed_history_is_unknown_and_says_where(damage: Callable[[Path], None], squall: Any) -> None:
    run = forge_run(squall.directory / "runs/forged/1", healthy(1))
    damage(run)
    said = squall("check", "runs/forged/1", "--in-process")
    assert told(said, 2) == ""
    assert "UNKNOWN" in said.out and HISTORIES[damage] in said.out.replace("\n", " "), said.out


# --- Hosts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A small lab used as bare machines, and a directory for what a test makes."""

    lab: Lab
    directory: Path

    @property
    def b1(self) -> str:
        return next(host.address for host in self.lab.hosts if host.name == "b1")

    def remote(self) -> Remote:
        return Remote(next(host for host in self.lab.hosts if host.name == "b1"), self.lab.network)

    def inventory(self, b1: str, user: str = LAB_USER) -> None:
        """Write inventory.yaml, with `b1` said of that host."""
        c1 = next(host.address for host in self.lab.hosts if host.name == "c1")
        (self.directory / "inventory.yaml").write_text(
            "all:\n"
            f"  vars: {{ansible_user: {user}, ansible_ssh_private_key_file: {self.lab.directory}/id_ed25519,\n"
            f"         known_hosts: {self.lab.directory}/known_hosts, python: /usr/bin/python3}}\n"
            "  children:\n"
            f"    controllers: {{hosts: {{c1: {{ansible_host: {c1}}}}}}}\n"
            f"    brokers: {{hosts: {{b1: {{{b1}}}}}}}\n"
        )


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    need_lab()
    try:
        yield lab_up(1, 1, name=NAME, owner=os.getpid())
    finally:
        lab_down(NAME)


@pytest.fixture
def place(lab: Lab, squall: Any) -> Place:
    return Place(lab, squall.directory)


def unreachable(place: Place) -> str:
    place.inventory("ansible_host: 10.77.0.99")
    return "b1 (10.77.0.99): "


def nobody_listens(place: Place) -> str:
    place.inventory(f"ansible_host: {place.b1}, ansible_port: 23")
    return f"b1 ({place.b1}): connection refused on port 23\n    start sshd there, or set ansible_port\n"


def a_wrong_key(place: Place) -> str:
    make_key(place.directory / "another")
    place.inventory(f"ansible_host: {place.b1}, ansible_ssh_private_key_file: another")
    return f"b1 ({place.b1}): user {LAB_USER} was not let in with key another\n    add the public key to"


def a_changed_host_key(place: Place) -> str:
    other = make_key(place.directory / "another")
    (place.directory / "known").write_text(f"{place.b1} {other}\n")
    place.inventory(f"ansible_host: {place.b1}, known_hosts: known")
    return (
        f"b1 ({place.b1}): host key differs from the one in known. Someone may be listening in, or the host was "
        "reinstalled.\n    If you trust it: squall inventory trust b1 -i inventory.yaml\n"
    )


def an_unknown_host_key(place: Place) -> str:
    place.inventory(f"ansible_host: {place.b1}, known_hosts: none")
    return f"b1 ({place.b1}): its host key (SHA256:"


def no_sudo(place: Place) -> str:
    place.inventory(f"ansible_host: {place.b1}, ansible_become: false")
    return f"b1 ({place.b1}): root is needed, but user {LAB_USER} has ansible_become: false\n    remove ansible_become"


def no_python(place: Place) -> str:
    place.inventory(f"ansible_host: {place.b1}, python: /usr/bin/python9")
    return f"b1 ({place.b1}): python /usr/bin/python9 does not run: "


def too_little_disk(place: Place) -> str:
    place.inventory(f"ansible_host: {place.b1}, data_dirs: [/run]")
    return f"b1 ({place.b1}): disk: 0.1 GiB free in /run\n    at least 2.0 GiB are needed; set `data_dirs`\n"


TROUBLES = (
    unreachable,
    nobody_listens,
    a_wrong_key,
    a_changed_host_key,
    an_unknown_host_key,
    no_sudo,
    no_python,
    too_little_disk,
)


@pytest.mark.lab
@pytest.mark.xdist_group("trouble")
class TestHosts:
    @pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
    def test_a_run_on_a_host_that_cannot_take_part(
        self, trouble: Callable[[Place], str], place: Place, squall: Any
    ) -> None:
        message = trouble(place)
        (squall.directory / "suite.yaml").write_text(SUITE)
        inside = squall.within(place.lab.network.command_prefix())
        said = told(inside("run", "suite.yaml", "--inventory", "inventory.yaml", "--in-process"))
        assert said.startswith(message), said
        assert said.count("\n") == 2 and "\n    " in said, f"one message and its remedy: {said}"
        assert not list(squall.directory.glob("runs/small/*")), "a run that never began leaves nothing to judge"

    def test_sudo_that_wants_a_password(self, place: Place, squall: Any) -> None:
        sudoers = place.lab.host_files("b1") / "etc/sudoers"
        kept = sudoers.read_text()
        sudoers.write_text(kept.replace("NOPASSWD: ", ""))
        place.inventory(f"ansible_host: {place.b1}")
        (squall.directory / "suite.yaml").write_text(SUITE)
        try:
            said = told(
                squall.within(place.lab.network.command_prefix())(
                    "run", "suite.yaml", "-i", "inventory.yaml", "--in-process"
                )
            )
        finally:
            sudoers.write_text(kept)
        assert said.startswith(f"b1 ({place.b1}): sudo asks user {LAB_USER} for a password\n    give the user sudo"), (
            said
        )

    def test_a_port_that_something_else_has(self, place: Place, squall: Any) -> None:
        place.inventory(f"ansible_host: {place.b1}")
        (squall.directory / "suite.yaml").write_text(SUITE)
        listener = (
            "import socket, sys; s = socket.create_server(('', 9092)); print('listening', flush=True); sys.stdin.read()"
        )
        with place.remote() as remote:
            session = remote.open_channel([remote.spec.python, "-c", listener])
            assert session.receive_line() == b"listening"
            said = told(
                squall.within(place.lab.network.command_prefix())(
                    "run", "suite.yaml", "-i", "inventory.yaml", "--in-process"
                )
            )
            session.close()
        assert said == (f"b1 ({place.b1}): ports: port 9092 in use\n    end what listens there (`ss -ltnp` names it)\n")

    def test_a_host_nobody_has_heard_of_in_a_target(self, place: Place, squall: Any) -> None:
        (squall.directory / "suite.yaml").write_text(SUITE.replace("leader of events/*", "b9"))
        said = told(squall("run", "suite.yaml", "--lab", NAME, "--in-process"))
        assert said == f"suite.yaml: nemesis: kill: target: no node is called b9; lab {NAME} has b1, c1\n"


# --- Help, terminals -------------------------------------------------------------------------------------------------


def every_command() -> Iterator[tuple[str, ...]]:
    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name, one in getattr(command, "commands", {}).items():
            yield (*words, name)
            yield from below(one, (*words, name))

    return below(command_line(), ())


@pytest.mark.parametrize("words", tuple(every_command()), ids=" ".join)
def test_the_help_of_every_command_has_an_example(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([*words, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Example" in said and f"squall {' '.join(words)}" in said.split("Example")[1], said


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["plan", "suite.yaml"], ["bench"], ["lab", "status"], ["mutants"]]
)
def test_without_a_terminal_nothing_is_coloured(arguments: list[str], squall: Any) -> None:
    (squall.directory / "suite.yaml").write_text(SUITE)
    said = squall(*arguments)
    assert told(said, 0) == "" and said.out
