"""`squall inventory check`: what is found, and what is said of a host that cannot take part."""

from __future__ import annotations

import dataclasses
import subprocess
from types import SimpleNamespace

import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts.preflight import (
    COLUMNS,
    HostReport,
    check,
    check_host,
    check_java,
    refuse_unable,
    refuse_unwatchable_disks,
)
from squall.harness.hosts.ssh import Remote, Result
from squall.harness.lab.lab import Lab
from squall.harness.lab.lab_files import LAB_USER
from squall.harness.scenario.inventory import HostSpec


def report(remote: Remote, least_free: int = 1, **changes: object) -> HostReport:
    spec = dataclasses.replace(remote.spec, **changes)  # type: ignore[arg-type]
    return check_host(Remote(spec, remote.network), least_free=least_free)


def last_said(found: HostReport) -> tuple[str, str, str | None]:
    last = next(one for one in found.findings if not one.ok)
    return last.what, last.said, last.remedy


@pytest.mark.lab
@pytest.mark.xdist_group("hosts")
class TestHosts:
    def test_a_fit_host_has_a_good_finding_in_every_column(self, lab: Lab) -> None:
        found = check(lab.inventory(), lab.network)
        assert [row.host.name for row in found.rows] == ["c1", "b1", "b2"]
        for row in found.rows:
            assert tuple(one.what for one in row.findings) == COLUMNS
            assert row.ok

    def test_an_ordinary_user_with_sudo_is_fit(self, b1: Remote) -> None:
        found = report(b1, user=LAB_USER, sudo=True, python="/usr/bin/python3")
        root = found.find("root")
        assert found.ok and root is not None and root.said == "sudo"

    def test_a_host_that_is_not_reached_has_no_further_findings(self, b1: Remote) -> None:
        found = report(b1, port=23)
        assert len(found.findings) == 1
        assert last_said(found) == ("ssh", "connection refused on port 23", "start sshd there, or set ansible_port")

    def test_an_unfit_python(self, b1: Remote) -> None:
        what, said, remedy = last_said(report(b1, python="/usr/bin/python9"))
        assert what == "python" and "python9" in said and remedy is not None and "3.11" in remedy

    def test_too_little_disk(self, b1: Remote) -> None:
        what, said, remedy = last_said(report(b1, least_free=1 << 60))
        assert what == "disk" and "GiB free in /root" in said and remedy is not None and "data_dirs" in remedy

    def test_a_data_directory_that_is_not_there(self, b1: Remote) -> None:
        what, said, _ = last_said(report(b1, data_dirs=("/nowhere",)))
        assert what == "disk" and "/nowhere" in said

    def test_a_user_that_may_not_become_root(self, b1: Remote) -> None:
        what, said, _ = last_said(report(b1, user=LAB_USER, sudo=False, python="/usr/bin/python3"))
        assert what == "root" and "ansible_become" in said

    def test_a_port_in_use(self, b1: Remote) -> None:
        listen = "import socket; s = socket.create_server(('', 9092)); print(1, flush=True); input()"
        server = b1.open_channel([b1.spec.python, "-c", listen])
        server.receive_line()
        try:
            what, said, remedy = last_said(report(b1))
            assert (what, said) == ("ports", "port 9092 in use") and remedy is not None and "ss -ltnp" in remedy
        finally:
            server.close()

    def test_disk_calls_can_be_watched_by_root_and_by_an_ordinary_user(self, b1: Remote) -> None:
        ordinary = dataclasses.replace(b1.spec, user=LAB_USER, sudo=False, python="/usr/bin/python3")
        refuse_unwatchable_disks([b1])
        refuse_unwatchable_disks([Remote(ordinary, b1.network)])

    def test_it_is_told_by_what_links_can_be_shaped(self, b1: Remote) -> None:
        able = report(b1).find("links")
        assert able is not None and able.said in ("NFQUEUE by nft", "NFQUEUE by iptables")

    def test_all_that_is_bad_makes_one_error(self, lab: Lab, b1: Remote) -> None:
        wrong = tuple(dataclasses.replace(host, port=23) for host in lab.hosts)
        found = check(dataclasses.replace(lab.inventory(), hosts=wrong), lab.network)
        error = found.error()
        assert not found.ok and error is not None
        assert str(error).count("connection refused on port 23") == 3


def test_hosts_without_watchable_disk_calls_are_refused_with_the_reason() -> None:
    class Unfit:
        def __init__(self, number: int) -> None:
            self.spec = HostSpec(name=f"b{number}", address=f"10.0.0.{number}", groups=("brokers",))
            self.name = self.spec.name

        def run(self, argv: list[str], *, stdin: bytes, sudo: bool) -> Result:
            assert argv == [self.spec.python, "-"] and b"def why_not" in stdin
            return Result(1, "kernel 4.19 refuses it\n", "")

    with pytest.raises(UsageError) as refused:
        refuse_unwatchable_disks([Unfit(1), Unfit(2)])  # type: ignore[list-item]
    assert str(refused.value).count("disk calls: kernel 4.19 refuses it") == 2


def test_hosts_that_cannot_carry_out_a_verb_are_refused_where_it_is_needed() -> None:
    without = dict.fromkeys(("rpc.hold", "rpc.cut"), "no nft_tproxy")
    found = {"b1": {"unable": without}, "b2": {"unable": {}}, "b3": {}}
    refuse_unable(found, ["net.drop"])
    refuse_unable(found, [])
    with pytest.raises(UsageError) as refused:
        refuse_unable(found, ["net.drop", "rpc.hold"])
    assert "b1: rpc.hold: no nft_tproxy" in str(refused.value)
    assert "b2" not in str(refused.value) and "rpc.cut" not in str(refused.value)


@pytest.mark.parametrize(
    ("printed", "good", "said"),
    [
        ('openjdk version "17.0.12" 2024-07-16', True, "17 (/usr/bin/java)"),
        ('openjdk version "21" 2023-09-19', True, "21 (/usr/bin/java)"),
        ('java version "1.8.0_402"', False, "/usr/bin/java is version 8"),
        ("nonsense", False, "/usr/bin/java is version unknown"),
    ],
)
def test_java_must_be_17_or_later(monkeypatch: pytest.MonkeyPatch, printed: str, good: bool, said: str) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    answer = SimpleNamespace(stderr=printed, stdout="")
    found = check_java(which=lambda _: "/usr/bin/java", run=lambda *_, **__: answer)
    assert (found.ok, found.said) == (good, said)


def test_a_missing_java_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    found = check_java(which=lambda _: None)
    assert not found.ok and found.remedy is not None and "openjdk-17" in found.remedy


def test_a_java_that_does_not_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def broken(*_: object, **__: object) -> object:
        raise subprocess.CalledProcessError(127, "java")

    assert "does not run" in check_java(which=lambda _: "/usr/bin/java", run=broken).said
