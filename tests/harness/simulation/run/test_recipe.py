"""A continued run: equal to the first seed's until the instant, another one after it, and repeatable (HX-18)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.harness.errors import UsageError
from squall.harness.simulation.run.recipe import (
    Continuation,
    Recipe,
    parse_recipe,
    recipe_text,
    spliced,
)
from squall.harness.simulation.run.run import SimOptions, Simulation, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.kinds import KINDS
from squall.harness.simulation.world.streams import Streams

SCENARIO = "barren-epoch"
KIND_LISTS = st.lists(st.sampled_from(sorted(KINDS)), max_size=3, unique=True).map(tuple)


@given(
    st.integers(0, 10**9),
    KIND_LISTS,
    st.dictionaries(st.integers(1, 10**9), st.tuples(st.integers(0, 10**9), KIND_LISTS), max_size=3),
)
def test_the_text_of_a_recipe_can_be_read_back(
    seed: int, kinds: tuple[str, ...], later: dict[int, tuple[int, tuple[str, ...]]]
) -> None:
    continuations = tuple(Continuation(at, *later[at]) for at in sorted(later))
    recipe = Recipe("swarm", seed, kinds, continuations)
    assert parse_recipe("swarm", recipe_text(seed, kinds, continuations)) == recipe


@pytest.mark.parametrize("text", ["", "x", "7@99", "7@2s:1@1s:2", "7@1s:1@1s:2", "7+no-such-kind", "1s:7"])
def test_a_wrong_recipe_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_recipe("swarm", text)


def test_a_continuation_drops_later_ones_of_its_parent() -> None:
    parent = Recipe("swarm", 1).continued(5, 2).continued(9, 3)
    assert parent.continued(7, 4).continuations == (Continuation(5, 2), Continuation(7, 4))


def test_streams_draw_as_before_until_they_are_seeded_again() -> None:
    one, other = Streams(7), Streams(7)
    drawing, equal = one.stream("network"), other.stream("network")
    assert drawing.random() == equal.random()
    one.reseed(99)
    assert drawing.random() != equal.random()
    other.reseed(99)
    assert one.stream("b1/2").random() == other.stream("b1/2").random()


def test_faults_before_the_instant_are_the_first_seeds_and_later_ones_the_new_seeds() -> None:
    def draw(seed: int, kinds: tuple[str, ...]) -> list[SwarmFault]:
        return [SwarmFault(at, f"{seed}{''.join(kinds)}", ("b1",), 1.0) for at in (1.0, 2.0, 3.0)]

    faults = spliced(draw, 7, (), (Continuation(12_000_000, 8, ("-x",)),), 10_000_000)
    assert [(fault.at, fault.kind) for fault in faults] == [(1.0, "7"), (2.0, "8-x"), (3.0, "8-x")]


def _until(recipe: Recipe, instant: int, directory: Path) -> tuple[str, str]:
    """Run a recipe; return the trace's hash at the instant and at the end."""
    directory.mkdir()
    scenario, _ = find_scenario(recipe.scenario)
    options = SimOptions(kinds=recipe.kinds, continuations=recipe.continuations)
    simulation = Simulation(scenario, recipe.seed, options, directory)
    noted: list[str] = []
    world = simulation.world
    world.kernel.at(instant - 1, lambda: noted.append(world.network.digest))
    simulation.run()
    return noted[0], simulation.digest


def test_a_continued_run_equals_its_parent_until_the_instant(tmp_path: Path) -> None:
    instant = 8_000_000
    parent = Recipe(SCENARIO, 3)
    before, whole = _until(parent, instant, tmp_path / "parent")
    before_too, continued = _until(parent.continued(instant, 9), instant, tmp_path / "continued")
    assert before == before_too
    assert whole != continued


def test_a_recipe_repeats_under_any_hash_seed() -> None:
    scenario, _ = find_scenario(SCENARIO)
    options = SimOptions(continuations=Recipe(SCENARIO, 3).continued(8_000_000, 9).continuations)
    squall = Path(sys.executable).with_name("squall")
    command = [squall, "simulate", SCENARIO, "--recipe", "3@8s:9", "--no-lake"]
    environment = os.environ | {"PYTHONHASHSEED": "5"}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert simulate(scenario, 3, options).digest in told
