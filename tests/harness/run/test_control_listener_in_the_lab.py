"""A listener for the controller's requests, in the lab: real brokers, and a real ensemble of one or three servers.

P20 and P21; what they are in virtual time is in `tests/harness/simulation/run/test_control_plane_listener.py`. P22 is
one of `test_control_plane_scenarios.py`. Each broker traces the controller's requests that it takes: when, on which
listener, and how long they waited in its queue.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from squall.results.history.history import read_faults
from squall.results.history.segments import FaultWindow
from tests.harness.conftest import CommandLine
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.timeout(1200), pytest.mark.xdist_group("power-loss")]

SUITES = Path(__file__).parents[3] / "suites"
COMMAND_SECONDS = 500
LISTENER, SHARED = "CONTROLLER", "PLAINTEXT"
SECOND_S = 56
"""How long the second roll's settings last in `control-listener-migration`."""
ROLLS, FLOOD = "reconfigure", "disk-slow"
TIMES_SHORTER = 4
"""By which the listener shortens the slowest wait of a controller's request, at least; 10 and more were seen."""


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


@dataclass(frozen=True)
class Taken:
    """A controller's request that a broker has taken out of its queue."""

    at_ns: int
    broker: int
    listener: str
    waited_ms: float


@dataclass(frozen=True)
class Run:
    """A run that ended as its suite expects."""

    directory: Path
    taken: tuple[Taken, ...]

    def windows(self, fault: str) -> list[FaultWindow]:
        return [one for one in read_faults(self.directory) if one.fault == fault]

    def listeners(self, since_ns: int | None, until_ns: int | None) -> set[str]:
        assert since_ns is not None and until_ns is not None
        return {one.listener for one in self.taken if since_ns < one.at_ns < until_ns}


def run(squall: CommandLine, suite: str, scenario: str) -> Run:
    said = squall.patiently(COMMAND_SECONDS)(
        "run", SUITES / f"{suite}.yaml", "--only", scenario, "--seed", "7", "--in-process"
    )
    assert said.status == 0, said.all
    directory = squall.directory / "runs" / "latest"
    verdict: dict[str, Any] = json.loads((directory / "verdict.json").read_text())
    assert verdict["as_expected"] and all(one["holds"] for one in verdict["statements"]), verdict["statements"]
    assert all(window.took and window.undone for window in read_faults(directory)), read_faults(directory)
    return Run(directory, tuple(taken_of(directory)))


def taken_of(directory: Path) -> list[Taken]:
    lines = [line for trace in directory.glob("nodes/b*/trace.jsonl") for line in trace.read_text().splitlines()]
    events = [json.loads(line) for line in lines if "zk_request_taken" in line]
    return [Taken(one["t"] * 1000, one["node"], one["listener"], one["waited"] / 1000) for one in events]


@pytest.mark.parametrize("servers", ["", "-three-servers"], ids=["one-server", "three-servers"])
def test_under_a_flood_the_controllers_requests_wait_unless_they_have_a_listener(
    squall: CommandLine, servers: str
) -> None:
    """P20, CL-01, CL-03, CL-16, CL-17: in a run with the listener, and in one without."""
    suite = "control-listener-backlog"
    own, shared = (run(squall, suite, f"{suite}{one}") for one in (servers, "-off"))
    assert {one.listener for one in own.taken} == {LISTENER}
    assert {one.listener for one in shared.taken} == {SHARED}
    slowest = [max(one.waited_ms for one in each.taken) for each in (own, shared)]
    assert slowest[1] > TIMES_SHORTER * slowest[0], f"the slowest waited, own and shared, {slowest} ms"
    assert "calls slower" in own.windows(FLOOD)[0].during


@pytest.mark.parametrize("servers", ["", "-three-servers"], ids=["one-server", "three-servers"])
def test_two_rolls_move_a_controllers_requests_to_the_listener_and_back(squall: CommandLine, servers: str) -> None:
    """P21, CL-14, CL-15, CL-21: requests switch in the second roll only, and a mixed cluster loses nothing."""
    migrated = run(squall, "control-listener-migration", f"control-listener-migration{servers}")
    first, second = sorted(migrated.windows(ROLLS), key=lambda one: one.injected or 0)
    assert first.injected is not None and second.injected is not None
    goes_back = second.injected + SECOND_S * 10**9
    assert migrated.listeners(0, second.injected) == {SHARED}, "the first roll adds an endpoint and changes nothing"
    assert migrated.listeners(second.injected, second.shown) >= {LISTENER}
    assert migrated.listeners(second.shown, goes_back) == {LISTENER}
    assert {one.broker for one in migrated.taken if one.listener == LISTENER} == {1, 2, 3}
    assert migrated.listeners(second.healed, first.healed) == {SHARED}
