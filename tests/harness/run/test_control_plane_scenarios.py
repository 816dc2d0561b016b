"""The scenarios of the control plane on hosts of the lab, each with the verdict that its suite expects (P06 to P22).

The same files as in simulation, in real time, with real processes, sockets and disks. Where a scenario needs what hosts
do not do yet (slow links, messages held back), the suite has another one for them, `…-on-hosts`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from squall.results.history.history import read_faults
from tests.harness.conftest import CommandLine
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.timeout(1200), pytest.mark.xdist_group("power-loss")]

COMMAND_SECONDS = 900
SUITES = Path(__file__).parents[3] / "suites"


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


@pytest.mark.parametrize(
    ("suite", "scenario"),
    [
        pytest.param("control-plane-blackout", "control-plane-blackout", id="P06"),
        pytest.param("minority-active-controller", "minority-active-controller", id="P07"),
        pytest.param("voter-crash-storm", "voter-crash-storm-on-hosts", id="P08"),
        pytest.param("figure8-metadata", "figure8-metadata-on-hosts", id="P09"),
        pytest.param("snapshot-rejoin", "snapshot-rejoin", id="P10"),
        pytest.param("clock-skew", "clock-skew", id="P12"),
        pytest.param("rolling-controlled-shutdown", "rolling-controlled-shutdown", id="P14"),
        pytest.param("rolling-controlled-shutdown", "rolling-controlled-shutdown-10k", id="P14-10k"),
        pytest.param("reassign-chaos", "reassign-chaos", id="P16"),
        pytest.param("removed-voter-disruption", "removed-voter-disruption", id="P19"),
        pytest.param("removed-voter-disruption", "removed-active-controller", id="P19-active"),
        pytest.param("zk-baseline-safety", "zookeeper-one-server", id="P22"),
        pytest.param("zk-baseline-safety", "zookeeper-three-servers", id="P22-three"),
        pytest.param("zk-baseline-safety", "zookeeper-reordered-requests", id="P22-reordered"),
        pytest.param("zk-baseline-safety", "zookeeper-reordered-requests-three-servers", id="P22-reordered-three"),
    ],
)
def test_the_scenario_ends_as_its_suite_expects(squall: CommandLine, suite: str, scenario: str) -> None:
    """What a suite requires of rates, silence, gaps and elections is part of the verdict."""
    said = squall.patiently(COMMAND_SECONDS)(
        "run", SUITES / f"{suite}.yaml", "--only", scenario, "--seed", "7", "--in-process"
    )
    assert said.status == 0, said.all
    directory = squall.directory / "runs" / "latest"
    verdict: dict[str, Any] = json.loads((directory / "verdict.json").read_text())
    assert verdict["as_expected"], said.all
    assert all(one["holds"] for one in verdict["statements"]), verdict["statements"]
    assert all(window.took for window in read_faults(directory))
