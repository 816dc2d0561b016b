"""Shrinking a failing seed: few events, the same failure, three replays out of three, and an account to look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from squall.harness.cli.simulation.shrink import ShrinkOptions, shrink
from squall.harness.scenario.suite import Scenario, load_suite
from squall.harness.simulation.run.run import simulate
from squall.harness.simulation.shrink.schedule_recorder import event_count
from squall.harness.simulation.shrink.shrink import Budget, FailureSignature, Shrinker, Trial, Trials, try_out

pytestmark = pytest.mark.xdist_group("shrink")  # one worker, so that the seed is shrunk once

SUITES = Path(__file__).resolve().parents[4] / "suites"
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Shrunk:
    status: int
    said: str
    schedule: Path

    @property
    def scenario(self) -> Scenario:
        return load_suite(self.schedule).scenarios[0]


N06 = {"ELECT", "ISR"}
"""As what it shows: a leader without a committed record, or a member of the ISR without it."""


def run(out: Path, suite: Path, seed: int, *mutants: str, runs: int = 40) -> Shrunk:
    said = StringIO()
    asked = ShrinkOptions(seed, str(suite), mutants, out=out, seconds=600, runs=runs, processes=1)
    status = shrink(asked, Console(file=said, width=200, soft_wrap=True))
    return Shrunk(status, said.getvalue(), out)


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shrunk]:
    """N06 on a seed where it shows, within a small budget; about half a minute."""
    out = tmp_path_factory.mktemp("shrunk") / "n06.yaml"
    yield run(out, SUITES / "two-hop-failover.yaml", 2, "truncate-to-hw")


def test_a_failing_n06_seed_shrinks_to_a_dozen_events_that_fail_thrice(shrunk: Shrunk) -> None:
    """The command itself replays the saved file in three processes, under three hash seeds."""
    assert shrunk.status == 0, shrunk.said
    assert "3 of 3 replays fail" in shrunk.said
    assert event_count(shrunk.scenario) <= 12, shrunk.said


def test_the_saved_schedule_fails_with_the_seed_that_stands_in_it(shrunk: Shrunk) -> None:
    (seed,) = shrunk.scenario.seeds
    (broken,) = simulate(shrunk.scenario, seed).broken
    assert broken in N06


def test_the_account_tells_what_was_lost_how(shrunk: Shrunk) -> None:
    """DP-13: committed, then cut away by a replica that goes by its own high watermark."""
    story = shrunk.schedule.with_suffix(".txt").read_text()
    assert story in shrunk.said
    told = [story.index(word) for word in ("send 0·", "appends offset", "truncates from", "✘ ")]
    assert told == sorted(told), story
    assert "→" in story and "⚡ kill" in story and "leader b" in story


def test_the_picture_stands_for_itself_and_marks_the_breach(shrunk: Shrunk) -> None:
    text = shrunk.schedule.with_suffix(".svg").read_text()
    picture = ElementTree.fromstring(text)
    assert picture.tag == f"{SVG}svg"
    written = [element.text or "" for element in picture.iter(f"{SVG}text")]
    assert {"clients", "b1", "b2", "b3"} <= set(written)
    assert any(line.startswith(("ELECT: ", "ISR: ")) for line in written)
    assert any(line.startswith("truncates from") for line in written)
    assert "href" not in text and text.count("http") == 1, "nothing is fetched from anywhere"


def test_no_two_texts_of_the_picture_overlap(shrunk: Shrunk) -> None:
    """Labels have a box of their own; two boxes never share more than a hair."""
    picture = ElementTree.parse(shrunk.schedule.with_suffix(".svg")).getroot()
    boxes = [
        tuple(float(element.get(key, "0")) for key in ("x", "y", "width", "height"))
        for element in picture.iter(f"{SVG}rect")
        if element.get("fill-opacity") == "0.9"
    ]
    assert len(boxes) > 10
    for index, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[index + 1 :]:
            across = min(x + width, other_x + other_width) - max(x, other_x)
            down = min(y + height, other_y + other_height) - max(y, other_y)
            assert across <= 1 or down <= 1, (x, y, other_x, other_y)


def test_a_seed_that_does_not_fail_is_told_and_ends_with_2(tmp_path: Path) -> None:
    quiet = tmp_path / "quiet.yaml"
    quiet.write_text("scenario: quiet\nfault_free: true\nworkload: {rate: 100/s}\ntime: {load: 2s}\n")
    outcome = run(tmp_path / "none.yaml", quiet, 1)
    assert outcome.status == 2
    assert "seed 1 is valid: there is no failure to shrink" in outcome.said
    assert not outcome.schedule.exists()


# --- without a simulation ------------------------------------------------------------------------------------------


def made_of(scenario: Scenario) -> Trial:
    """A failure that needs one send to events/1 and one kill, whatever the rest."""
    sends = [one for one in scenario.workload.operations or () if one.topic_partition == ("events", 1)]
    kills = [fault for fault in scenario.nemesis if fault.fault == "kill"]
    return Trial(("MADE",), "MADE: up", 20.0) if sends and kills else Trial(("OTHER",), "OTHER: thing", 20.0)


class Pretended(Trials):
    """Trials of a failure that is made up, counted like others."""

    def _begin(self, scenario: Scenario, seed: int) -> Trial:
        self.budget.used += 1
        return made_of(scenario)


def big() -> Scenario:
    operations = [{"at": n / 10, "process": n % 4, "send": f"events/{n % 4 // 2}"} for n in range(150)]
    return Scenario.model_validate(
        {
            "scenario": "big",
            "cluster": {"topics": {"events": {"partitions": 2}}},
            "workload": {"producers": 1, "consumers": 0, "in_flight": 2, "operations": operations},
            "nemesis": [
                {"fault": fault, "target": "b1", "at": at, "for": 1.5}
                for at, fault in enumerate(("pause", "kill", "isolate", "kill", "pause"), 3)
            ],
            "time": {"load": 30},
        }
    )


def test_shrinking_keeps_what_the_failure_needs_in_its_simplest_form() -> None:
    with Pretended(Budget(), 1) as trials:
        shrinker = Shrinker(trials, FailureSignature(("MADE",)), lambda best: None)
        best = shrinker.shrink(big(), 1, Trial(("MADE",), "MADE: up", 20.0))
    assert best.events == 2
    assert best.events_before == 155
    scenario = best.scenario
    assert [fault.fault for fault in scenario.nemesis] == ["kill"]
    assert scenario.nemesis[0].length() == 0.1
    assert scenario.topics == {"events": 2}, "the failure needs events/1"
    assert (scenario.workload.producers, scenario.workload.in_flight, scenario.cluster.controllers) == (1, 1, 1)


def test_another_failure_is_not_taken_for_the_same_unless_any_will_do() -> None:
    with Pretended(Budget(), 1) as trials:
        best = Shrinker(trials, FailureSignature(), lambda best: None).shrink(big(), 1, made_of(big()))
    assert best.events == 0
    assert best.trial.broken == ("OTHER",)


def test_a_spent_budget_ends_with_the_best_so_far() -> None:
    with Pretended(Budget(runs=7), 1) as trials:
        best = Shrinker(trials, FailureSignature(("MADE",)), lambda best: None).shrink(big(), 1, made_of(big()))
    assert trials.budget.used == 7
    assert made_of(best.scenario).broken == ("MADE",)
    assert best.events < 155


class Interrupted(Pretended):
    """Ctrl-C comes when `trials` have run."""

    trials = 30

    def _begin(self, scenario: Scenario, seed: int) -> Trial:
        if self.budget.used >= self.trials:
            raise KeyboardInterrupt
        return super()._begin(scenario, seed)


def test_an_interruption_keeps_the_smallest_schedule_found_so_far() -> None:
    with Interrupted(Budget(), 1) as trials:
        shrinker = Shrinker(trials, FailureSignature(("MADE",)), lambda best: None)
        best = shrinker.shrink(big(), 1, made_of(big()))
    assert shrinker.interrupted
    assert made_of(best.scenario).broken == ("MADE",)
    assert best.events < 155


def test_an_interrupted_command_saves_the_smallest_schedule_and_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def until_interrupted(self: Shrinker, *_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Shrinker, "_until_nothing_helps", until_interrupted)
    said, out = StringIO(), tmp_path / "n06.yaml"
    asked = ShrinkOptions(2, str(SUITES / "two-hop-failover.yaml"), ("truncate-to-hw",), out=out, processes=1)
    with pytest.raises(KeyboardInterrupt):
        shrink(asked, Console(file=said, width=200, soft_wrap=True))
    assert "interrupted: " in said.getvalue()
    assert event_count(load_suite(out).scenarios[0]) > 12


def test_a_schedule_that_cannot_be_run_has_not_failed() -> None:
    scenario = big()
    orphan = scenario.nemesis[0].model_copy(update={"target": "same as nobody"})
    assert try_out(scenario.model_copy(update={"nemesis": (orphan,)}), 1).broken == ()
