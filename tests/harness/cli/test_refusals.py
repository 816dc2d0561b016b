"""What a suite asks for and cannot have is told before anything is injected: file, fault, value, and what would be
right. Exit status 254.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.cli.main import status_of
from squall.harness.errors import UsageError
from squall.harness.hosts.preflight import refuse_unable
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.scenario.suite import load_suite
from squall.harness.scenario.targets import Nodes, refuse_bad_targets, why_nobody
from squall.nemesis.exclusion import DOES
from squall.nemesis.registry import FAULT_NAMES
from squall.nemesis.schedule import build_schedule

CLUSTER = (
    "{brokers: 3, controllers: 3,"
    " topics: {events: {partitions: 2}, alone: {replication_factor: 1, min_insync_replicas: 1}}}"
)


def written(path: Path, *faults: str) -> Path:
    file = path / "suite.yaml"
    file.write_text(f"scenario: a\ncluster: {CLUSTER}\nnemesis:\n" + "".join(f"  - {{{one}}}\n" for one in faults))
    return file


def said(file: Path, command: str, capsys: pytest.CaptureFixture[str]) -> str:
    words = {"plan": ["plan", str(file), "--dry-run"], "simulate": ["simulate", str(file)]}[command]
    assert status_of(words) == 254
    return capsys.readouterr().err


@pytest.mark.parametrize("command", ["plan", "simulate"])
class TestBeforeAnythingStarts:
    def test_a_fault_on_a_host_that_is_not_listed(
        self, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """HX-01: no host is touched that the inventory does not list."""
        file = written(tmp_path, "fault: kill, target: b9, at: 1s, for: 1s")
        assert f"{file}: nemesis: kill: target: no node is called b9" in said(file, command, capsys)

    @pytest.mark.parametrize(
        ("target", "why"),
        [
            ("minority third of brokers", "3 brokers have no minority third"),
            ("followers of alone/0", "alone has one replica"),
            ("b1 but all brokers", "no host is left"),
            ("leader of nothing/0", "there is no topic"),
        ],
    )
    def test_a_target_that_is_nobody(
        self, target: str, why: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = written(tmp_path, f"fault: kill, target: {target}, at: 1s, for: 1s")
        told = said(file, command, capsys)
        assert str(file) in told and why in told

    def test_a_fault_that_lasts_no_time(self, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = written(tmp_path, "fault: kill, target: b1, at: 1s, for: 0s")
        assert "suite.yaml:4: nemesis[0].for" in (told := said(file, command, capsys))
        assert "must be longer than 0 s" in told

    def test_two_faults_that_exclude_each_other(
        self, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = written(
            tmp_path, "fault: kill, target: b1, at: 5s, for: 5s", 'fault: pause, target: "b2, b1", at: 8s, for: 5s'
        )
        told = said(file, command, capsys)
        assert "1-kill (5s to 10s) and 2-pause (8s to 13s) exclude each other on b1" in told
        assert "let the first end before the second begins" in told


def refused(path: Path, *faults: str) -> str:
    scenario = load_suite(written(path, *faults)).scenarios[0]
    try:
        refuse_bad_targets("suite.yaml", scenario, build_schedule(scenario.nemesis, 60, 1), Nodes.of_lab(scenario))
    except UsageError as wrong:
        return str(wrong)
    return ""


@pytest.mark.parametrize(
    "other",
    [
        "fault: restart, target: b1, at: 5s, for: 5s",
        "fault: power-loss, target: b1, at: 9s, for: 1s",
        "fault: pause, target: b1, at: 1s, for: 5s",
    ],
)
def test_a_process_that_is_killed_cannot_be_ended_or_stopped_meanwhile(other: str, tmp_path: Path) -> None:
    assert "exclude each other on b1" in refused(tmp_path, "fault: kill, target: b1, at: 5s, for: 5s", other)


def test_a_process_has_one_wall_clock(tmp_path: Path) -> None:
    clock = "fault: clock, target: b1, at: 5s, for: 5s"
    assert "one wall clock" in refused(tmp_path, clock, "fault: clock-strobe, target: b1, at: 6s, for: 2s")


@pytest.mark.parametrize(
    "other",
    [
        "fault: pause, target: b1, at: 10s, for: 5s",  # one after the other
        "fault: pause, target: b2, at: 5s, for: 5s",  # on another host
        "fault: isolate, target: b1, at: 5s, for: 5s",  # of another sort
        "fault: pause, target: leader of events/0, at: 5s, for: 5s",  # whoever that is then
    ],
)
def test_what_does_not_exclude_each_other_is_let_be(other: str, tmp_path: Path) -> None:
    assert refused(tmp_path, "fault: kill, target: b1, at: 5s, for: 5s", other) == ""


def test_faults_that_exclude_each_other_are_faults_that_there_are() -> None:
    assert set(DOES) <= set(FAULT_NAMES)


def test_an_inventory_s_own_names_and_numbers_count() -> None:
    hosts = [HostSpec(name=name, address="10.0.0.1", groups=("brokers",)) for name in ("one", "two")]
    nodes = Nodes.of_inventory(Inventory("inventory.yaml", tuple(hosts)))
    assert nodes.of("nodes") == ("one", "two")
    assert why_nobody("minority of brokers", nodes, {}) == "2 brokers have no minority"
    assert why_nobody("majority of brokers", nodes, {}) == ""
    assert why_nobody("active controller", nodes, {}) == ""


def test_what_a_host_cannot_do_is_told_with_host_verb_and_reason() -> None:
    found = {"b1": {"unable": {"net.shape": "no NFQUEUE"}}, "b2": {"unable": {}}}
    refuse_unable(found, ["proc.kill"])
    with pytest.raises(UsageError, match=r"b1: net\.shape: no NFQUEUE\n    leave out faults that need net\.shape"):
        refuse_unable(found, ["proc.kill", "net.shape"])
