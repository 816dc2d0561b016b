"""Which rare but legal things may happen in a run, and that a run with them repeats, counts, and stays valid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.scenario.buggify_places import PLACES
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.buggified import buggified, named_places
from squall.harness.simulation.run.drawn_world import draw_world, world_lines
from squall.harness.simulation.run.run import BUGGIFY, SimOptions, Simulation, judged, simulate, what_broke
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.shrink.schedule_file import reread
from squall.harness.simulation.shrink.shrink import record
from squall.harness.simulation.world.buggify import draw_places

SUITES = Path(__file__).resolve().parents[4] / "suites"


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return find_scenario("voter-crash-storm", SUITES)[0]


@pytest.fixture(scope="module")
def worlds() -> Scenario:
    return find_scenario("worlds", SUITES)[0]


def test_nothing_rare_happens_unless_it_is_asked_for(scenario: Scenario) -> None:
    assert scenario.cluster.buggify == ()
    assert buggified(scenario, 7) is scenario


def test_what_is_asked_for_decides_which_places_are_active(scenario: Scenario) -> None:
    assert buggified(scenario, 7, "drawn").cluster.buggify == draw_places(7)
    assert buggified(scenario, 7, "turn-late,fetch-empty").cluster.buggify == ("turn-late", "fetch-empty")
    stated = buggified(scenario, 7, "turn-late")
    assert buggified(stated, 7).cluster.buggify == ("turn-late",)
    assert buggified(stated, 7, "none").cluster.buggify == ()


def test_an_unknown_place_is_refused_in_options_and_suites(scenario: Scenario) -> None:
    with pytest.raises(UsageError, match="fetch-empty"):
        named_places("fetch-emty")
    stated = scenario.model_dump(by_alias=True)
    stated["cluster"]["buggify"] = ["fetch-emty"]
    with pytest.raises(ValueError, match="fetch-empty"):
        Scenario.model_validate(stated)


def test_half_of_the_worlds_draw_places_and_say_so(worlds: Scenario) -> None:
    drawn = [draw_world(worlds, seed) for seed in range(1, 201)]
    buggy = [world for world in drawn if world.cluster.buggify]
    assert 80 < len(buggy) < 120
    assert all(world_lines(world)[-1] == f"buggify {', '.join(world.cluster.buggify)}" for world in buggy)


def test_a_schedule_names_the_places_of_the_run_it_was_recorded_from() -> None:
    failing = find_scenario("leader-kill-lagging", SUITES)[0]
    options = SimOptions(mutants=("ack-before-replication",), buggify="turn-late,fetch-part")
    listed, _ = record(failing, 7, options)
    assert reread(listed).cluster.buggify == ("turn-late", "fetch-part")


def test_a_run_repeats_with_what_happened_in_it(worlds: Scenario) -> None:
    seed = next(seed for seed in range(1, 100) if draw_world(worlds, seed).cluster.buggify)
    first, second = simulate(worlds, seed), simulate(worlds, seed)
    assert (first.digest, first.counts) == (second.digest, second.counts)
    without = simulate(worlds, seed, SimOptions(buggify="none"))
    assert without.digest != first.digest
    assert not any(key.startswith(BUGGIFY) for key in without.counts)


@pytest.fixture(scope="module")
def all_at_once(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Simulation, str]]:
    """A run in which every place is active, at its end, and its verdict."""
    simulation = Simulation(scenario, 3, SimOptions(buggify=",".join(PLACES)), tmp_path_factory.mktemp("all"))
    assert what_broke(simulation) == ((), "")
    yield simulation, judged(simulation)[0]


@pytest.mark.xdist_group("all-places")
def test_all_places_at_once_leave_a_run_valid(all_at_once: tuple[Simulation, str]) -> None:
    simulation, verdict = all_at_once
    assert verdict == "valid"
    counts = simulation.counts()
    happened = {key.removeprefix(BUGGIFY): number for key, number in counts.items() if key.startswith(BUGGIFY)}
    assert list(happened) == list(PLACES)
    assert sum(number > 0 for number in happened.values()) > len(PLACES) // 2


@pytest.mark.xdist_group("all-places")
def test_nothing_rare_happens_once_the_load_is_over(all_at_once: tuple[Simulation, str]) -> None:
    places = all_at_once[0].world.buggify
    assert places.quiet
    assert not places.of("b1", lambda name: None).happens("turn-late")
