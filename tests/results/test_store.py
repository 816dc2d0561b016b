"""Where runs lie, and how they are found again."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from squall.results.manifest import Manifest, TopicFacts
from squall.results.segments import IllFormedHistory
from squall.results.store import NoSuchRun, find_run, new_run

NOON = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
MANIFEST = Manifest(run_id="r", scenario="quickstart", seed=7, topics={"events": TopicFacts(partitions=2)})


def test_a_run_lies_under_its_scenario_and_time_and_latest_points_at_it(tmp_path: Path) -> None:
    first = new_run(tmp_path, "quickstart", NOON)
    second = new_run(tmp_path, "quickstart", NOON)
    assert first == tmp_path / "quickstart" / "2026-11-20T12-00-00"
    assert second.name == "2026-11-20T12-00-00-1"
    assert (tmp_path / "latest").resolve() == second.resolve()


def test_a_run_is_found_by_path_latest_scenario_or_time(tmp_path: Path) -> None:
    old, new = new_run(tmp_path, "quickstart", NOON), new_run(tmp_path, "quickstart", NOON.replace(hour=13))
    for one in (old, new):
        MANIFEST.save(one)
    assert find_run("latest", tmp_path) == new.resolve()
    assert find_run("quickstart", tmp_path) == new.resolve()
    assert find_run("quickstart/2026-11-20T12-00-00", tmp_path) == old.resolve()
    assert find_run(old, tmp_path) == old.resolve()


def test_of_several_runs_that_are_no_scenarios_nobody_guesses_which_is_meant(tmp_path: Path) -> None:
    """A verdict on another run than the one that was meant is worth nothing."""
    for name in ("mine", "yours"):
        MANIFEST.save(tmp_path / "kept" / name)
    with pytest.raises(NoSuchRun, match=r"kept: holds 2 runs; name one, such as .*kept/yours"):
        find_run(tmp_path / "kept", tmp_path / "runs")
    shutil.rmtree(tmp_path / "kept" / "yours")
    assert find_run(tmp_path / "kept", tmp_path / "runs") == (tmp_path / "kept" / "mine").resolve()


def test_a_run_that_is_not_there_is_named_with_what_is(tmp_path: Path) -> None:
    MANIFEST.save(new_run(tmp_path, "quickstart", NOON))
    with pytest.raises(NoSuchRun, match=r"nonsense: no run .* the newest are quickstart/2026-11-20T12-00-00"):
        find_run("nonsense", tmp_path)


def test_a_manifest_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    MANIFEST.save(tmp_path)
    assert Manifest.load(tmp_path) == MANIFEST
    assert MANIFEST.topic_partitions == [("events", 0), ("events", 1)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"run_id": "r"}', "missing required field `scenario`"),
        ('{"run_id": "r", "scenario": "s", "seed": "x", "topics": {}}', r"Expected `int`, got `str` - at `\$\.seed`"),
        (
            '{"run_id": "r", "scenario": "s", "seed": 1, "topics": {}, "load_started": 5, "load_ended": 4}',
            "load_ended is 4, before load_started, 5",
        ),
        ("not json", "is not JSON"),
    ],
)
def test_a_broken_manifest_is_named_with_file_and_field(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(IllFormedHistory, match=problem):
        Manifest.load(tmp_path)
