"""`Remote` against a real sshd: results, deadlines, and every kind of trouble with its remedy."""

from __future__ import annotations

import dataclasses
import io
import statistics
import time
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts.ssh import Remote, on_all
from squall.harness.hosts.ssh_access import (
    CommandFailed,
    CommandTimedOut,
    ConnectionLost,
    HostKeyChanged,
    HostKeyUnknown,
    NotLetIn,
    SudoRefused,
    Unreachable,
    trust,
)
from squall.harness.lab.lab import Lab
from squall.harness.lab.lab_files import LAB_USER, make_key
from squall.harness.scenario.inventory import HostSpec
from tests.facts import assert_names, naming

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hosts")]


def variant(remote: Remote, **changes: object) -> Remote:
    """The same host, described differently."""
    return Remote(dataclasses.replace(remote.spec, **changes), remote.network)  # type: ignore[arg-type]


# --- Commands -------------------------------------------------------------------------------------------------


def test_a_command_answers_its_status_and_both_outputs(b1: Remote) -> None:
    result = b1.run("echo out; echo err >&2; exit 3")
    assert (result.exit_status, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert not result.ok


def test_an_argv_is_not_looked_at_by_a_shell(b1: Remote) -> None:
    assert b1.run(["echo", "$HOME; `ls` 'x'"]).stdout == "$HOME; `ls` 'x'\n"


def test_standard_input_is_fed_and_ended(b1: Remote) -> None:
    assert b1.run(["cat"], stdin=b"line\n").stdout == "line\n"
    assert b1.run(["cat"]).stdout == ""


def test_much_output_on_both_streams_stalls_nothing(b1: Remote) -> None:
    result = b1.run("head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero")
    assert (len(result.stdout), len(result.stderr)) == (3_000_000, 3_000_000)


def test_output_may_be_taken_as_bytes(b1: Remote) -> None:
    taken = io.BytesIO()
    b1.run("head -c 100000 /dev/zero", stdout=taken)
    assert taken.getvalue() == bytes(100_000)


def test_a_warm_command_costs_milliseconds_because_nagle_is_off(b1: Remote) -> None:
    durations = []
    for _ in range(20):
        began = time.monotonic()
        b1.run(["true"])
        durations.append(time.monotonic() - began)
    assert statistics.median(durations) < 0.04, f"median {statistics.median(durations) * 1000:.1f} ms"


def test_a_command_that_takes_too_long_is_ended_on_the_host_too(b1: Remote) -> None:
    with pytest.raises(CommandTimedOut, match=r"b1 \(10.77.0.12\): `sleep 987` was ended after 0.3 s"):
        b1.run(["sleep", "987"], timeout=0.3)
    assert not b1.run("pgrep -x sleep -a | grep 987").ok


def test_a_command_that_has_to_succeed_tells_its_last_words(b1: Remote) -> None:
    with pytest.raises(CommandFailed, match=r"`ls /nowhere` ended with status 2: .*No such file"):
        b1.run(["ls", "/nowhere"], check=True)


def test_an_end_without_status_is_unknown_and_the_next_command_reconnects(b1: Remote) -> None:
    with pytest.raises(ConnectionLost, match="whether it ran is unknown"):
        b1.run("kill -9 $(ps -o ppid= -p $PPID)")
    assert b1.run(["echo", "back"]).stdout == "back\n"


def test_a_vanished_host_is_noticed_in_seconds_and_reached_again_when_it_returns(lab: Lab, c1: Remote) -> None:
    b2 = Remote(lab.inventory().host("b2"), lab.network)
    began = time.monotonic()
    with pytest.raises(ConnectionLost):
        b2.run("setsid -f sh -c 'sleep 0.2; ip link set eth0 down; sleep 7; ip link set eth0 up'; sleep 60", timeout=60)
    assert time.monotonic() - began < 10
    deadline = time.monotonic() + 20
    while True:
        try:
            assert b2.run(["echo", "back"], timeout=5).stdout == "back\n"
            break
        except (Unreachable, ConnectionLost):
            assert time.monotonic() < deadline
    b2.close()


# --- Files and sessions ---------------------------------------------------------------------------------------


def test_files_go_there_and_back(b1: Remote, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(bytes(range(256)) * 4000)
    b1.put(source, "/root/it's here", mode=0o600)
    assert b1.run(["stat", "-c", "%a", "/root/it's here"]).stdout == "600\n"
    b1.get("/root/it's here", back)
    assert back.read_bytes() == source.read_bytes()
    b1.run(["rm", "/root/it's here"], check=True)


def test_fetching_what_is_not_there_names_it(b1: Remote, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="/nowhere"):
        b1.get("/nowhere", tmp_path / "x")


def test_a_session_carries_lines_both_ways(b1: Remote) -> None:
    session = b1.open_channel(["cat"])
    session.send_line(b"one")
    session.send_line(b"two")
    assert [session.receive_line(), session.receive_line()] == [b"one", b"two"]
    with pytest.raises(TimeoutError):
        session.receive_line(timeout=0.05)
    session.close()


def test_a_session_that_ends_tells_its_last_words(b1: Remote) -> None:
    session = b1.open_channel("echo cannot go on >&2; exit 1")
    with pytest.raises(ConnectionLost, match="cannot go on"):
        session.receive_line()


# --- Trouble --------------------------------------------------------------------------------------------------


def test_a_refused_connection(b1: Remote) -> None:
    with pytest.raises(Unreachable, match=r"b1 \(10.77.0.12\): connection refused on port 23\n    start sshd"):
        variant(b1, port=23).connect()


def test_an_address_nobody_has(b1: Remote) -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"no answer on port 22 within 0\.5 s|there is no way to it"):
        variant(b1, address="10.77.0.99").connect(timeout=0.5)
    assert time.monotonic() - began < 5


def test_a_name_without_an_address(b1: Remote) -> None:
    with pytest.raises(Unreachable, match="set ansible_host"):
        variant(b1, address="nowhere.invalid").connect()


def test_a_port_where_something_else_listens(b1: Remote) -> None:
    server = "import socket; s = socket.create_server(('', 2323)); print(1, flush=True)"
    greeting = "s.accept()[0].send(b'220 hi\\n' * 200)"
    other = b1.open_channel([b1.spec.python, "-c", f"{server}; {greeting}"])
    other.receive_line()
    with pytest.raises(Unreachable, match=naming("SSH", "port 2323")):
        variant(b1, port=2323).connect(timeout=2)
    other.close()


def test_a_wrong_key(b1: Remote, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    with pytest.raises(NotLetIn, match=r"user root was not let in with key .*other\n    add the public key"):
        variant(b1, key_file=tmp_path / "other").connect()


def test_an_unknown_user(b1: Remote) -> None:
    with pytest.raises(NotLetIn, match=naming("user nobody-here")):
        variant(b1, user="nobody-here").connect()


def test_a_key_file_that_holds_no_key(b1: Remote) -> None:
    with pytest.raises(NotLetIn, match="is not a private key"):
        variant(b1, key_file=b1.spec.known_hosts).connect()


def with_known_hosts(remote: Remote, path: Path, text: str) -> Remote:
    path.write_text(text)
    return variant(remote, known_hosts=path)


def test_an_unknown_host_key_and_how_to_trust_it(b1: Remote, tmp_path: Path) -> None:
    remote = variant(b1, known_hosts=tmp_path / "known_hosts")
    with pytest.raises(HostKeyUnknown, match=naming("squall inventory trust b1")) as caught:
        remote.connect()
    fingerprint = trust(remote.spec, remote.network)
    assert fingerprint in str(caught.value)
    remote.connect()
    remote.close()


def test_a_changed_host_key_and_how_to_trust_the_new_one(b1: Remote, c1: Remote, tmp_path: Path) -> None:
    lines = dict(line.split(" ", 1) for line in b1.spec.known_hosts.read_text().splitlines())
    wrong = f"{b1.spec.address} {lines[c1.spec.address]}\n{c1.spec.address} {lines[c1.spec.address]}\n# kept\n"
    remote = with_known_hosts(b1, tmp_path / "known_hosts", wrong)
    with pytest.raises(HostKeyChanged) as caught:
        remote.connect()
    assert_names(str(caught.value), "b1", "10.77.0.12", "known_hosts", "squall inventory trust b1")
    trust(remote.spec, remote.network)
    remote.connect()
    remote.close()
    kept = (tmp_path / "known_hosts").read_text()
    assert f"{c1.spec.address} {lines[c1.spec.address]}" in kept and "# kept" in kept


def test_sudo_without_a_password_makes_an_ordinary_user_root(b1: Remote) -> None:
    with variant(b1, user=LAB_USER, sudo=True) as ordinary:
        assert ordinary.run(["id", "-un"]).stdout == f"{LAB_USER}\n"
        assert ordinary.run(["id", "-un"], sudo=True).stdout == "root\n"


def test_sudo_that_asks_for_a_password(b1: Remote) -> None:
    b1.run("cp -p /etc/sudoers /root/sudoers && sed -i '/NOPASSWD/d' /etc/sudoers", check=True)
    try:
        with variant(b1, user=LAB_USER, sudo=True) as ordinary, pytest.raises(SudoRefused, match="NOPASSWD"):
            ordinary.run(["id"], sudo=True)
    finally:
        b1.run("mv /root/sudoers /etc/sudoers", check=True)


def test_a_user_that_must_not_become_root(b1: Remote) -> None:
    ordinary = variant(b1, user=LAB_USER, sudo=False)
    with pytest.raises(SudoRefused, match="ansible_become: false"):
        ordinary.run(["id"], sudo=True)


def test_trouble_on_several_hosts_is_told_together(b1: Remote, c1: Remote) -> None:
    broken = [variant(b1, port=23), variant(c1, port=24)]
    with pytest.raises(UsageError) as caught:
        on_all(broken, lambda remote: remote.connect())
    assert "port 23" in str(caught.value) and "port 24" in str(caught.value)


def test_work_on_all_hosts_answers_by_name(b1: Remote, c1: Remote) -> None:
    assert on_all([b1, c1], lambda remote: remote.run(["hostname"]).stdout.strip()) == {"b1": "b1", "c1": "c1"}


def test_a_spec_without_a_key_file_offers_the_users_own(
    b1: Remote, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(NotLetIn):
        Remote(dataclasses.replace(b1.spec, key_file=None), b1.network).connect()


def test_specs_are_values() -> None:
    assert HostSpec("a", "a", ()) == HostSpec("a", "a", ())
