"""The parts that guide exploration: estimate, corpus, bandit, energy, and what behaviour is."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from squall.harness.simulation.exploration.behaviour import MOST, Behaviour, bucket, coarse
from squall.harness.simulation.exploration.comparison import Arm, Compared, summary
from squall.harness.simulation.exploration.corpus import Corpus, cover
from squall.harness.simulation.exploration.estimate import chao1
from squall.harness.simulation.exploration.explorer import run_recipe
from squall.harness.simulation.exploration.scheduler import Bandit, Kept, Scheduler, energy
from squall.harness.simulation.run.recipe import Recipe

FEATURES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9), max_size=8)


@given(st.lists(st.integers(0, 5)))
def test_the_estimate_lies_in_its_interval_and_is_never_below_what_was_seen(counts: list[int]) -> None:
    found = chao1(counts)
    assert found.seen == sum(count > 0 for count in counts)
    assert found.seen <= found.low <= found.estimated <= found.high


def test_chao1_by_hand() -> None:
    found = chao1([1, 1, 1, 1, 2, 2, 7])
    assert (found.seen, found.estimated) == (7, 7 + 16 / 4)


def test_the_estimate_finds_the_size_of_a_known_population() -> None:
    rng = Random(1)
    counts = [0] * 500
    for _ in range(700):
        counts[rng.randrange(500)] += 1
    found = chao1(counts)
    assert found.seen < 400
    assert found.low < 500 < found.high


def test_nothing_is_unseen_when_nothing_was_seen_only_once() -> None:
    assert chao1([3, 2, 2]).estimated == 3


@given(st.lists(FEATURES, max_size=6))
def test_a_cover_shows_everything_and_every_run_of_it_adds_something(shown: list[dict[str, int]]) -> None:
    kept = [Kept(Recipe("swarm", number), first) for number, first in enumerate(shown)]
    chosen = cover(kept)
    seen: set[str] = set()
    for one in chosen:
        assert not seen.issuperset(one.first)
        seen |= one.first.keys()
    assert seen == {feature for first in shown for feature in first}


def test_only_runs_with_something_new_are_kept_and_two_explorers_share_a_directory(tmp_path: Path) -> None:
    one, other = Corpus(tmp_path), Corpus(tmp_path)
    assert one.add(Recipe("swarm", 1), {"a": 5}) == 1
    assert one.add(Recipe("swarm", 2), {"a": 6}) == 0
    assert other.add(Recipe("swarm", 3), {"a": 5, "b": 9}) == 2
    both = Corpus(tmp_path)
    assert sorted(kept.recipe.seed for kept in both.kept) == [1, 3]
    assert both.seen == {"a": 2, "b": 1}
    assert [kept.recipe.seed for kept in cover(both.kept)] == [3]


def test_a_half_written_run_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "aa.1.partial").write_text(json.dumps({"scenario": "swarm"})[:9])
    assert Corpus(tmp_path).kept == []


def test_the_bandit_finds_the_better_arm() -> None:
    rng, bandit = Random(3), Bandit()
    chosen = {"good": 0, "poor": 0}
    for _ in range(300):
        arm = bandit.choose(("poor", "good"), rng)
        chosen[arm] += 1
        bandit.report((arm,), float(rng.random() < (0.7 if arm == "good" else 0.1)), 1.0)
    assert chosen["good"] > 4 * chosen["poor"]


def test_rare_features_give_energy_and_continuations_take_it() -> None:
    rare, common = Kept(Recipe("swarm", 1), {"a": 1}), Kept(Recipe("swarm", 2), {"b": 1})
    seen = {"a": 1, "b": 50}
    assert energy(rare, seen) > energy(common, seen)
    rare.continued = 100
    assert energy(rare, seen) < energy(common, seen)


def test_choices_repeat_by_seed_and_continue_inside_the_first_half() -> None:
    kept = [Kept(Recipe("swarm", 1), {"early": 10_000_000, "late": 60_000_000})]
    seen = {"early": 1, "late": 1}
    drawn = [[Scheduler(["swarm"], seed).choose(kept, seen) for seed in range(60)] for _ in range(2)]
    assert drawn[0] == drawn[1]
    continued = [choice.recipe for choice in drawn[0] if choice.parent is not None]
    assert continued
    assert all(1 <= recipe.continuations[-1].at <= 30_000_000 for recipe in continued)


def test_random_exploration_takes_plain_seeds_of_the_scenarios_in_turn() -> None:
    scheduler = Scheduler(["x", "y"], 5, guided=False)
    kept = [Kept(Recipe("x", 1), {"a": 1})]
    drawn = [scheduler.choose(kept, {"a": 1}).recipe for _ in range(3)]
    assert drawn == [Recipe("x", 5), Recipe("y", 6), Recipe("x", 7)]


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_buckets_are_monotonic_and_few(first: int, second: int) -> None:
    low, high = sorted((first, second))
    assert bucket(low) <= bucket(high) <= MOST
    assert coarse(low) <= coarse(high) <= 64
    assert coarse(-1) == -1


def test_behaviour_does_not_change_a_run_and_tells_runs_apart() -> None:
    from squall.harness.simulation.run.run import simulate
    from squall.harness.simulation.run.scenarios import find_scenario

    scenario, _ = find_scenario("barren-epoch")
    result, first = run_recipe(Recipe("barren-epoch", 3), ())
    assert simulate(scenario, 3).digest == result.digest
    _, mutated = run_recipe(Recipe("barren-epoch", 3), ("ack-before-replication",))
    assert first.keys() != mutated.keys()
    assert {"pair", "quorum", "client", "lead", "log_opened"} <= {feature.split()[0] for feature in first}


def test_counts_are_noted_in_buckets_with_their_first_instant() -> None:
    class Clock:
        now = 0

    behaviour = Behaviour()
    behaviour._kernel = Clock()  # type: ignore[assignment]
    for instant in range(1, 10):
        Clock.now = instant
        behaviour._note(("pair", "a"))
    assert behaviour.first == {"pair a ×1": 1, "pair a ×2": 2, "pair a ×3": 3, "pair a ×4": 4, "pair a ×8": 8}


def test_the_comparison_says_plainly_when_guidance_does_not_win() -> None:
    found, missed = Arm("ACK", 3, 9.0), Arm("", 12, 60.0)
    level = summary([Compared("one", found, found), Compared("two", missed, missed)])
    assert "ratio 1.00" in level and "must change" in level
    better = summary([Compared("one", found, found), Compared("two", found, missed)])
    assert "ratio 2.00" in better and "as required" in better
