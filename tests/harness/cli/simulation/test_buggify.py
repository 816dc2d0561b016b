"""`squall buggify` lists and counts; `--buggify` of `squall simulate` stands alone or with a value."""

from __future__ import annotations

import re

import pytest
from rich.console import Console
from typer.testing import CliRunner

from squall.harness.cli.main import app, status_of
from squall.harness.cli.simulation.buggify import counted, with_drawn
from squall.harness.cli.simulation.simulate import simulate, told
from squall.harness.errors import UsageError
from squall.harness.scenario.buggify_places import PLACES
from squall.harness.simulation.run.run import SimOptions, SimResult


def test_the_catalogue_has_a_line_for_each_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["buggify"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [line[0] for line in lines] == list(PLACES)
    assert all(f"({PLACES[line[0]].requirement}):" in " ".join(line) for line in lines)


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        (["swarm", "--buggify"], ["swarm", "--buggify", "drawn"]),
        (["swarm", "--buggify", "--seeds", "2"], ["swarm", "--buggify", "drawn", "--seeds", "2"]),
        (["swarm", "--buggify", "turn-late,fetch-empty"], ["swarm", "--buggify", "turn-late,fetch-empty"]),
        (["swarm", "--seeds", "2"], ["swarm", "--seeds", "2"]),
    ],
)
def test_the_option_stands_alone_or_with_places(given: list[str], filled: list[str]) -> None:
    assert with_drawn(given) == filled


def test_an_unknown_place_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean `fetch-empty`"):
        simulate("swarm", seeds=1, first_seed=1, console=Console(), buggify="turn-late,fetch-emty")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [("", ""), ("drawn", " --buggify"), ("none", " --buggify none"), ("turn-late", " --buggify turn-late")],
)
def test_a_failing_seed_is_repeated_with_what_could_happen(wanted: str, words: str) -> None:
    failed = SimResult(seed=4, verdict="invalid", digest="", broken=("ACK",), problem="offset 3 is gone")
    lines = told(failed, "some", SimOptions(buggify=wanted)).splitlines()
    assert lines[-1] == f"  Repeat with: squall simulate some --seed 4{words}"
    assert any("squall shrink" in line for line in lines) == (not wanted)


def test_a_place_that_never_happened_is_shown_as_such() -> None:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(counted([{"fetch-empty": 3, "turn-late": 0}, {"fetch-empty": 0}, {"fetch-empty": 1}]))
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in captured.get().splitlines()[1:]}
    assert list(rows) == list(PLACES)
    assert rows["fetch-empty"] == "3 2 4"
    assert rows["turn-late"] == "1 0 0 never happened"
    assert rows["fsync-slow"] == "0 0 0 never active"


def test_a_count_simulates_the_scenario_with_drawn_places() -> None:
    outcome = CliRunner().invoke(app, ["buggify", "--count", "suites/schedules/one-kill.yaml", "--processes", "1"])
    assert outcome.exit_code in (0, 1), outcome.output
    active = [line for line in outcome.output.splitlines() if re.match(r"[a-z-]+ +[1-9]", line)]
    assert active
