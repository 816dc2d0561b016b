"""What exploration counts: behaviour, the corpus of runs that showed something new, and what is left (Chao1)."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.harness.simulation.exploration import explorer as explorer_module
from squall.harness.simulation.exploration.behaviour import MOST, Behaviour, bucket, coarse
from squall.harness.simulation.exploration.corpus import Corpus
from squall.harness.simulation.exploration.estimate import chao1
from squall.harness.simulation.exploration.explorer import Explorer, run_seed
from squall.harness.simulation.run.run import SimResult


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


def test_only_runs_with_something_new_are_kept_and_two_explorers_share_a_directory(tmp_path: Path) -> None:
    one, other = Corpus(tmp_path), Corpus(tmp_path)
    assert one.add("swarm", 1, {"a"}) == 1
    assert one.add("swarm", 2, {"a"}) == 0
    assert other.add("swarm", 3, {"a", "b"}) == 2
    both = Corpus(tmp_path)
    assert sorted((kept.scenario, kept.seed) for kept in both.kept) == [("swarm", 1), ("swarm", 3)]
    assert both.seen == {"a": 2, "b": 1}


def test_a_half_written_run_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "aa.1.partial").write_text(json.dumps({"scenario": "swarm"})[:9])
    assert Corpus(tmp_path).kept == []


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
    result, features = run_seed("barren-epoch", 3)
    assert simulate(scenario, 3).digest == result.digest
    assert run_seed("barren-epoch", 3)[1] == features
    assert run_seed("barren-epoch", 3, ("ack-before-replication",))[1] != features
    assert {"pair", "quorum", "client", "lead", "log_opened"} <= {feature.split()[0] for feature in features}


def test_counts_are_noted_in_buckets() -> None:
    behaviour = Behaviour()
    for _ in range(9):
        behaviour._note(("pair", "a"))
    assert behaviour.features == {"pair a ×1", "pair a ×2", "pair a ×3", "pair a ×4", "pair a ×8"}


def test_scenarios_take_turns_with_one_seed_after_the_other_and_a_seed_shows_nothing_new_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown(scenario: str, seed: int) -> tuple[SimResult, set[str]]:
        return SimResult(seed, "valid", "", processor_s=2.0), {"common", f"own {scenario} {seed}"}

    def explored(corpus: Corpus) -> list[tuple[str, int, int]]:
        explorer = Explorer(["x", "y"], 5, corpus)
        runs = list(explorer.explore(lambda progress: progress.runs < 3))
        assert (explorer.progress.runs, explorer.progress.processor_s) == (3, 6.0)
        return [(one.scenario, one.result.seed, one.new) for one in runs]

    monkeypatch.setattr(explorer_module, "run_seed", shown)
    corpus = Corpus()
    assert explored(corpus) == [("x", 5, 2), ("y", 6, 1), ("x", 7, 1)]
    assert explored(corpus) == [("x", 5, 0), ("y", 6, 0), ("x", 7, 0)]
    assert corpus.seen["common"] == 6
