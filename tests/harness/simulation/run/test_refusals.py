"""What only hosts can do is refused by the simulation before anything runs, by file, entry, fault and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.cli.main import status_of
from squall.harness.errors import UsageError
from squall.harness.simulation.run.scenarios import find_scenario

SUITE = """
scenario: late
nemesis:
  - {fault: kill, target: b1, at: 1s, for: 1s}
  - at: 5s
    sequence:
      - {fault: kill, target: b1, for: 1s}
      - {fault: interface-down, target: b2, for: 1s}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite with a fault that only hosts can have: simulated ones have no network interface to take down."""
    path = tmp_path / "late.yaml"
    path.write_text(SUITE)
    return path


@pytest.mark.parametrize("command", [["simulate"], ["shrink", "1", "--suite"]])
def test_a_fault_of_hosts_only_is_bad_usage(
    command: list[str], suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of([*command, str(suite)]) == 254
    said = capsys.readouterr().err
    assert f"{suite}: scenario late: nemesis[1].sequence[1]: interface-down needs net.interface_down" in said
    assert f"squall run {suite}" in said


def test_a_scenario_found_by_its_name_is_refused_with_its_file(suite: Path) -> None:
    with pytest.raises(UsageError, match=str(suite)):
        find_scenario("late", suite.parent)


def test_a_swarm_takes_the_place_of_such_faults(suite: Path) -> None:
    assert find_scenario(str(suite), swarm=True)[0].scenario == "late"


def test_a_plan_says_which_faults_only_hosts_can_do(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["plan", str(suite)]) == 0
    assert "hosts only interface-down needs net.interface_down" in " ".join(capsys.readouterr().out.split())
