"""Where runs lie, and how they are found again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import Manifest, TopicFacts
from squall.results.history.store import NoSuchRun, checked_alone, claim_run, discard_run, find_run, point_latest

NOON, ONE = "2026-11-20T12-00-00", "2026-11-20T13-00-00"
WRITERS, ROUNDS = 4, 50
MANIFEST = Manifest(run_id="r", scenario="quickstart", seed=7, topics={"events": TopicFacts(partitions=2)})


def new_run(runs: Path, time: str = NOON) -> Path:
    run = claim_run(runs / "quickstart" / time)
    point_latest(runs, run)
    return run


def test_a_run_lies_under_its_scenario_and_time_and_latest_points_at_it(tmp_path: Path) -> None:
    first, second = new_run(tmp_path), new_run(tmp_path)
    assert first == tmp_path / "quickstart" / NOON
    assert second.name == f"{NOON}-1"
    assert (tmp_path / "latest").resolve() == second.resolve()


CLAIMER = """
import sys
from pathlib import Path
from squall.results.history.store import claim_run, point_latest
runs = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    run = claim_run(runs / "quickstart" / "now")
    point_latest(runs, run)
    print(run.name)
"""


def test_runs_that_begin_at_once_never_share_a_directory(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", CLAIMER, str(tmp_path), str(ROUNDS)]
    claimers = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(WRITERS)]
    names = [name for one in claimers for name in one.communicate()[0].split()]
    assert [one.returncode for one in claimers] == [0] * WRITERS
    assert len(names) == len(set(names)) == WRITERS * ROUNDS
    assert (tmp_path / "latest").resolve().name in names
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "quickstart"]


def test_a_run_that_never_began_takes_nothing_of_others_with_it(tmp_path: Path) -> None:
    other = claim_run(tmp_path / "quickstart" / NOON)
    MANIFEST.save(other)
    discard_run(claim_run(tmp_path / "quickstart" / NOON))
    assert Manifest.load(other) == MANIFEST
    assert list((tmp_path / "quickstart").iterdir()) == [other]


CHECKER = """
import os, sys
from pathlib import Path
from squall.results.history.store import checked_alone
runs = [Path(name) for name in sys.argv[1:]]
for _ in range(200):
    with checked_alone(runs, lambda run: None):
        for run in runs:
            os.close(os.open(run / "being-checked", os.O_CREAT | os.O_EXCL))
        for run in runs:
            os.unlink(run / "being-checked")
"""


def test_two_checks_of_the_same_runs_take_turns_in_whatever_order_they_are_named(tmp_path: Path) -> None:
    runs = [str(claim_run(tmp_path / "quickstart" / name)) for name in (NOON, ONE)]
    orders = (runs, runs[::-1], [*runs, runs[0]][1:])
    checkers = [subprocess.Popen([sys.executable, "-c", CHECKER, *order]) for order in orders]
    assert [one.wait(60) for one in checkers] == [0] * len(orders)


def test_who_has_to_wait_for_another_check_hears_of_it(tmp_path: Path) -> None:
    run, told = claim_run(tmp_path / "quickstart" / NOON), []

    class Told(Exception):
        pass

    def waiting(path: Path) -> None:
        told.append(path)
        raise Told

    with checked_alone([run, run], waiting), pytest.raises(Told), checked_alone([run], waiting):
        pytest.fail("checked twice at once")
    assert told == [run.resolve()]


def test_a_run_is_found_by_path_latest_scenario_or_time(tmp_path: Path) -> None:
    old, new = new_run(tmp_path), new_run(tmp_path, ONE)
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
    MANIFEST.save(new_run(tmp_path))
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
