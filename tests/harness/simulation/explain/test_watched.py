"""A seed and a run's directory become a page to watch."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from squall.harness.cli.run.watch import WatchOptions, watch
from squall.harness.errors import UsageError
from squall.harness.simulation.explain.traced import WatchedNetwork, trace_of
from squall.harness.simulation.explain.watched import WatchTracer, watch_seed
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.results.history.history import HISTORY_FILE
from squall.results.history.manifest import Manifest
from squall.results.watch.model import LogState, Watched, states_at
from squall.results.watch.of_run import ENDS_NOTE, MESSAGES_NOTE, NO_TRACES_NOTE, watch_run

pytestmark = pytest.mark.xdist_group("watch")  # one worker, so that the seed runs once

ONE_KILL = Path(__file__).resolve().parents[4] / "suites" / "schedules" / "one-kill.yaml"


@pytest.fixture(scope="module")
def watched() -> Watched:
    scenario, _ = find_scenario(str(ONE_KILL))
    return watch_seed(scenario, 1, SimOptions())


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the same run, as a run on hosts leaves one, but for the nodes' traces."""
    directory = tmp_path_factory.mktemp("kept")
    scenario, _ = find_scenario(str(ONE_KILL))
    simulate(scenario, 1, SimOptions(keep=directory))
    return directory / "seed-1"


def test_the_lost_record_is_acknowledged_and_gone_at_the_new_leader(watched: Watched) -> None:
    (sent,) = [one for one in watched.operations if one.value == "0·0"]
    assert (sent.outcome, sent.offset) == ("ok", 0)
    states = states_at(watched.steps, watched.ends + 1, watched.states)
    assert (states["b1"].up, states["b1"].end) == (False, 1)
    assert (states["b2"].end, states["b2"].high_watermark) == (1, 0)
    assert (states["b3"].role, states["b3"].epoch, states["b3"].end) == ("leader", 1, 0)


def test_the_page_begins_with_the_load_and_the_state_of_that_time(watched: Watched) -> None:
    assert watched.begins == 0
    assert watched.states["b1"].role == "leader" and watched.states["b2"].role == "follower"
    assert all(step.at >= 0 for step in watched.steps)


def test_steps_and_messages_are_those_of_the_trace_in_words(watched: Watched) -> None:
    scenario, _ = find_scenario(str(ONE_KILL))
    trace = trace_of(scenario, 1)
    told = {(one.at, one.lane, one.text) for one in trace.happenings}
    assert {(step.at, step.lane, step.text) for step in watched.steps} <= told
    assert watched.messages is not None and len(watched.messages) == len(trace.messages)
    assert watched.broken == trace.problem.partition("\n")[0]


def at_the_breach(name: str, mutant: str) -> tuple[Watched, dict[str, LogState]]:
    scenario, _ = find_scenario(name)
    watched = watch_seed(scenario, 1, SimOptions(mutants=(mutant,)))
    return watched, states_at(watched.steps, watched.ends + 1, watched.states)


def test_the_metadata_log_has_ends_and_high_watermarks_too() -> None:
    watched, states = at_the_breach("lagging-voter", "vote-ignores-log")
    assert watched.log == "__cluster_metadata-0" and watched.operations == ()
    assert states["c2"].end < states["c1"].high_watermark == states["c1"].end
    assert not states["c3"].up


def test_the_metadata_log_has_roles_too() -> None:
    _, states = at_the_breach("removed-voter-with-its-leader", "removed-voter-counted")
    assert (states["c2"].role, states["c2"].epoch) == ("leader", 1)
    assert states["c1"].end < states["c2"].high_watermark == states["c2"].end


def test_appends_of_several_epochs_are_told_apart() -> None:
    tracer = WatchTracer(("events", 0))
    tracer.watch(SimWorld(ClusterShape(), seed=1, topics={"events": 1}, network=WatchedNetwork))
    place: dict[str, object] = {"broker": 2, "topic": "events", "partition": 0}
    tracer.traced("epoch", {"log": "events-0", "epoch": 0, "start": 0})
    tracer.traced("epoch", {"log": "events-0", "epoch": 3, "start": 5})
    tracer.traced("append", {**place, "first": 0, "last": 9, "epoch": 3})
    tracer.traced("epoch", {"log": "events-0", "epoch": 4, "start": 12})
    tracer.traced("append", {**place, "first": 10, "last": 14, "epoch": 4})
    assert [step.numbers for step in tracer.steps] == [(0, 4, 0), (5, 9, 3), (10, 11, 3), (12, 14, 4)]


def test_a_seed_becomes_a_page(tmp_path: Path) -> None:
    said, out = StringIO(), tmp_path / "page.html"
    asked = WatchOptions("1", str(ONE_KILL), since="1s", until="2.9s", out=out)
    assert watch(asked, Console(file=said, width=200)) == 0
    assert "events-0: ELECT" in said.getvalue() and "messages: " in said.getvalue()
    assert "1.000 s to 2.900 s" in out.read_text()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"log": "events-7"}, "no topic-partition events-7"),
        ({"log": "events"}, "--log"),
        ({"since": "soon"}, "--from"),
        ({"since": "3s", "until": "2s"}, "is not before"),
        ({"since": "900s"}, "leave nothing"),
        ({"what": "no-such-run", "suite": None}, "no-such-run"),
        ({"what": "runs/latest"}, "belong to a seed"),
    ],
)
def test_bad_arguments_are_refused_by_name(change: dict[str, str], named: str, tmp_path: Path) -> None:
    asked = replace(WatchOptions("1", str(ONE_KILL), out=tmp_path / "page.html"), **change)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=named):
        watch(asked, Console(file=StringIO()))
    assert not (tmp_path / "page.html").exists()


def test_a_run_without_traces_shows_the_watched_leaders_and_says_so(kept: Path) -> None:
    shown = watch_run(kept)
    assert shown.messages is None and not shown.complete
    assert shown.notes == (MESSAGES_NOTE, NO_TRACES_NOTE)
    assert [one.outcome for one in shown.operations if one.value == "0·0"] == ["ok"]
    assert [(one.kind, one.hosts) for one in shown.faults] == [("kill -9", ("b1",))]


def test_control_traces_on_the_clock_of_the_history_give_roles_and_ends(kept: Path) -> None:
    started = Manifest.load(kept).load_started
    assert started is not None
    led = {"event": "leader", "topic": "events", "partition": 0, "end": 0, "high_watermark": 0}
    b1 = [{"t": started // 1000 - 2_000, "node": 1, **led, "epoch": 0}]
    b3 = [{"t": started // 1000 + 2_994_807, "node": 3, **led, "epoch": 1}]
    for name, lines in (("b1", b1), ("b3", b3)):
        (kept / "nodes" / name).mkdir(parents=True)
        (kept / "nodes" / name / "trace.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"t": 12, "no')
    shown = watch_run(kept)
    assert ENDS_NOTE in shown.notes
    states = states_at(shown.steps, shown.ends + 1, shown.states)
    assert (states["b1"].end, states["b1"].high_watermark) == (1, 1), "as it acknowledged offset 0"
    assert (states["b3"].role, states["b3"].end) == ("leader", 0)


def test_control_traces_on_another_clock_are_left_out(kept: Path) -> None:
    path = kept / "nodes" / "b1" / "trace.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    line = {"t": 10**15, "node": 1, "event": "leader", "topic": "events", "partition": 0}
    path.write_text(json.dumps(line | {"epoch": 0, "end": 0, "high_watermark": 0}) + "\n")
    assert NO_TRACES_NOTE in watch_run(kept).notes


def test_a_history_that_cannot_be_read_is_unknown(kept: Path, tmp_path: Path) -> None:
    run, said = tmp_path / "run", StringIO()
    shutil.copytree(kept, run)
    (run / HISTORY_FILE).write_bytes(b"PAR1 and nothing more")
    assert watch(WatchOptions(str(run), out=tmp_path / "page.html"), Console(file=said, width=200)) == 2
    assert said.getvalue().startswith("UNKNOWN") and HISTORY_FILE in said.getvalue()
    assert not (tmp_path / "page.html").exists()
