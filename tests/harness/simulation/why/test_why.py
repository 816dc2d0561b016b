"""`squall why`: a known mutant's failure is located, continuations equal their parent, and equal options repeat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from squall.harness.cli.simulation.why import WhyOptions, why
from squall.harness.errors import UsageError
from squall.harness.simulation.run.recipe import Recipe
from squall.harness.simulation.run.run import SimOptions, Simulation, what_broke
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.run.witness import Witness
from squall.harness.simulation.shrink.shrink import FailureSignature
from squall.harness.simulation.why.continuations import Continuations, Parent, fails_alike, find_parent
from squall.harness.simulation.why.search import Request
from squall.harness.simulation.world.world import SimWorld

pytestmark = pytest.mark.xdist_group("why")  # one worker, so that the seed is explained once

ONE_KILL = Path(__file__).resolve().parents[4] / "suites" / "schedules" / "one-kill.yaml"


@dataclass(frozen=True)
class Explained:
    status: int
    said: str
    svg: str
    words: str


def explain(out: Path, asked: WhyOptions) -> Explained:
    said = StringIO()
    status = why(replace(asked, out=out), Console(file=said, width=200, soft_wrap=True))
    return Explained(status, said.getvalue(), out.read_text(), out.with_suffix(".txt").read_text())


SMALL = WhyOptions("1", str(ONE_KILL), continuations=10, instants=8)


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Explained:
    return explain(tmp_path_factory.mktemp("why") / "one-kill.svg", SMALL)


@pytest.fixture(scope="module")
def parent() -> Parent:
    scenario, _ = find_scenario(str(ONE_KILL))
    return find_parent(scenario, Recipe(str(ONE_KILL), 1), SimOptions())


def test_the_truncating_leader_is_named_where_the_failure_was_decided(explained: Explained) -> None:
    """The follower that leads next has no high watermark yet: which one that is decides over the record."""
    assert explained.status == 0
    (decided,) = [line for line in explained.said.splitlines() if line.startswith("baked in")]
    assert "the probability rises from" in decided and "to 100 %" in decided
    assert "b3 truncates from 1 to 0" in decided
    assert "b3 leads epoch 1" in decided


def test_picture_and_words_say_the_same(explained: Explained) -> None:
    ElementTree.fromstring(explained.svg)
    assert "kill" in explained.svg and "b3 truncates from 1 to 0" in explained.svg
    assert "b3 truncates from 1 to 0" in explained.words


def test_how_many_clean_seeds_a_fix_needs_is_one_line(explained: Explained) -> None:
    lines = [line for line in explained.said.splitlines() if line.startswith("findable")]
    assert len(lines) == 1 and "ELECT in" in lines[0] and "clean seed" in lines[0]


def test_the_outcome_does_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    least = replace(SMALL, continuations=2, instants=3)
    one = explain(tmp_path / "1.svg", least)
    two = explain(tmp_path / "2.svg", replace(least, processes=2))
    assert (one.svg, one.words) == (two.svg, two.words)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_seed_of_a_swarm_is_explained_by_what_happened_to_it(tmp_path: Path) -> None:
    asked = WhyOptions("2", "swarm", mutants=("truncate-to-hw",), continuations=5, instants=4, processes=2)
    found = explain(tmp_path / "swarm.svg", asked)
    assert found.status == 0
    (decided,) = [line for line in found.said.splitlines() if line.startswith("baked in")]
    assert "the probability rises from" in decided and "to 100 %" in decided
    assert "squall simulate swarm --recipe 2@" in found.said and "one-way b2, b3 begins" in found.words


class DigestAt(Witness):
    """Keeps the hash of everything delivered up to an instant."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.digest = ""

    def watch(self, world: SimWorld) -> None:
        def keep() -> None:
            self.digest = world.network.digest

        world.kernel.at(self._at, keep)


def digests(parent: Parent, recipe: Recipe, at: int, directory: Path) -> tuple[str, str]:
    witness = DigestAt(at)
    options = replace(parent.options, continuations=recipe.continuations)
    directory.mkdir()
    simulation = Simulation(parent.scenario, recipe.seed, options, directory, witness)
    what_broke(simulation)
    return witness.digest, simulation.digest


def test_a_continuation_is_its_parent_until_the_instant(parent: Parent, tmp_path: Path) -> None:
    at = parent.load_started + 1_200_000
    until, whole = digests(parent, parent.recipe, at, tmp_path / "parent")
    continued = [digests(parent, parent.continued(at, number), at, tmp_path / str(number)) for number in range(3)]
    assert until and {one for one, _ in continued} == {until}
    assert len({whole, *(one for _, one in continued)}) == 4


def test_continuations_leave_out_the_seed_of_their_parent(parent: Parent) -> None:
    seeds = [parent.continued(5, number).continuations[0].seed for number in range(4)]
    assert seeds == [2, 3, 4, 5]


def test_a_continuation_ends_at_its_horizon(parent: Parent) -> None:
    assert parent.horizon is not None and parent.horizon == parent.ended + 5_000_000
    recipe = parent.continued(parent.ended, 0)
    assert fails_alike(parent, recipe)
    assert not fails_alike(replace(parent, horizon=parent.ended - 1), recipe)


def test_another_failure_is_not_the_same(parent: Parent) -> None:
    recipe = parent.continued(parent.ended, 0)
    assert not fails_alike(replace(parent, same=FailureSignature(("LIVENESS",))), recipe)
    assert fails_alike(replace(parent, same=FailureSignature()), recipe)


def test_a_seed_that_does_not_fail_has_exit_status_2(tmp_path: Path) -> None:
    healthy = tmp_path / "healthy.yaml"
    healthy.write_text(ONE_KILL.read_text().replace("mutants: [truncate-to-hw]", "mutants: []"))
    said = StringIO()
    assert why(WhyOptions("1", str(healthy), out=tmp_path / "none.svg"), Console(file=said, width=200)) == 2
    assert said.getvalue().startswith("nothing    seed 1 is valid")
    assert not (tmp_path / "none.svg").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"budget": "soon"}, "--budget"),
        ({"seed": "one"}, "recipe"),
        ({"mutants": ("no-such-mutant",)}, "no-such-mutant"),
        ({"suite": "no-such-scenario"}, "no-such-scenario"),
    ],
)
def test_bad_arguments_are_refused_by_name(change: dict[str, object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        why(replace(SMALL, **change), Console(file=StringIO()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rounds", "said", "drawn"), [(1, "ended early", True), (0, "before the first round of continuations", False)]
)
def test_interrupted_it_explains_what_it_has_found(
    rounds: int, said: str, drawn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, begun = Continuations.outcomes, 0

    def outcomes(self: Continuations, requests: Sequence[Request]) -> Iterator[tuple[int, bool]]:
        nonlocal begun
        begun += 1
        if begun > rounds:
            raise KeyboardInterrupt
        yield from whole(self, requests)

    monkeypatch.setattr(Continuations, "outcomes", outcomes)
    console = Console(file=StringIO(), width=200, record=True)
    with pytest.raises(KeyboardInterrupt):
        why(replace(SMALL, continuations=2, out=tmp_path / "a.svg"), console)
    assert said in console.export_text()
    assert (tmp_path / "a.svg").exists() == drawn


def test_a_spent_budget_leaves_what_is_known(tmp_path: Path) -> None:
    said = StringIO()
    asked = replace(SMALL, budget="1ms", out=tmp_path / "a.svg")
    assert why(asked, Console(file=said, width=200)) == 2
    assert "before the first round of continuations; nothing is known" in said.getvalue()
