"""`squall timeline`: logs of nodes, phases of faults and what clients noticed, in one order of time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from squall.harness.cli.main import status_of
from squall.harness.hosts.clock_offsets import best_of, load_clocks, save_clocks
from squall.harness.hosts.clocks import ClockReading
from squall.harness.scenario.suite import load_suite
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.harness.timeline.log_alignment import LogAligner
from squall.harness.timeline.timeline import Excerpt, Timeline, log_entries, save_timeline
from squall.nemesis.options import ClockSkew, Kill
from squall.nemesis.schedule import Schedule, ScheduledFault
from squall.results.history.history import close_history
from squall.results.history.manifest import HostFacts, Manifest, TopicFacts
from squall.results.history.segments import (
    ClusterObservation,
    CompletionRow,
    EventWriter,
    FaultWindow,
    HistoryWriter,
    InvocationRow,
    SegmentHeader,
    segment_path,
)

SUITES = Path(__file__).resolve().parents[3] / "suites"
SECOND = 1_000_000_000
BEGAN = 1000 * SECOND
"""The load begins when the control process's clock shows this, and wall clocks 2026-11-21T21:00:00."""
WALL = 1_795_294_800 * SECOND
READING = ClockReading(offset=BEGAN - WALL, error=200_000, taken=BEGAN + 100 * SECOND)

CLOCK = FaultWindow(
    id="2-clock",
    fault="clock",
    targets=("b2",),
    summary="b2 (by name)",
    injected=BEGAN + 20 * SECOND,
    healed=BEGAN + 30 * SECOND,
    took=True,
    undone=True,
    during="offset +3600.0 s",
    after="b2 +0.0 s",
    shown=BEGAN + 20 * SECOND + 100,
    ended=BEGAN + 30 * SECOND + 100,
)
KILL = FaultWindow(
    id="1-kill",
    fault="kill -9",
    targets=("b1",),
    summary="b1 (leader of events/0)",
    injected=BEGAN + 5 * SECOND,
    healed=BEGAN + 9 * SECOND,
    took=True,
    undone=True,
    before="b1 running (pid 31)",
    during="process gone",
    after="b1 running (pid 58)",
    shown=BEGAN + 5 * SECOND + SECOND // 10,
    ended=BEGAN + 9 * SECOND + SECOND // 2,
)


def at(clock: str, text: str) -> str:
    return f"2026-11-21T{clock}+00:00 {text}\n"


B1 = at("20:59:58.000", "node 1 starts") + at("21:00:09.100", "node 1 starts") + "Traceback\n"
B2 = (
    at("20:59:58.500", "node 2 starts")
    + at("21:00:07.000", "node 2 leads events-0")
    + at("22:00:25.000", "node 2 says something an hour ahead")
    + at("21:00:40.000", "node 2 has stopped cleanly")
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with one kill, one clock that was set, and a wait of four seconds for an acknowledgement."""
    directory = tmp_path / "runs" / "made" / "now"
    for host, text in {"b1": B1, "b2": B2}.items():
        (directory / "nodes" / host).mkdir(parents=True)
        (directory / "nodes" / host / "node.log").write_text(text)
    topics = {"events": TopicFacts(partitions=1)}
    Manifest(
        run_id="r",
        scenario="made",
        seed=7,
        topics=topics,
        load_started=BEGAN,
        hosts=(HostFacts(name="b1"), HostFacts(name="b2")),
    ).save(directory)
    save_clocks(directory, {"b1": READING, "b2": READING})
    kill, clock = Kill(fault="kill", target="b1"), ClockSkew(fault="clock", target="b2", offset=3600)
    faults = (ScheduledFault("1-kill", 5, 4, kill, "s"), ScheduledFault("2-clock", 20, 10, clock, "s"))
    (directory / "schedule.json").write_text(json.dumps(Schedule(7, faults).to_json()))
    writer = EventWriter.faults(directory)
    for window in (KILL, CLOCK):
        writer.write(window)
    cluster = EventWriter.cluster(directory)
    cluster.write(ClusterObservation(time=BEGAN, kind="controller", node="c1", epoch=1))
    cluster.write(
        ClusterObservation(time=BEGAN + 7 * SECOND, kind="leader", node="b2", topic="events", partition=0, epoch=1)
    )
    acknowledged(directory, 1.0, 2.0, 4.5, 8.5, 10.0, failed=6.0)
    close_history(directory)
    return directory


def acknowledged(directory: Path, *seconds: float, failed: float) -> None:
    header = SegmentHeader(run_id="r", segment=0)
    with HistoryWriter(segment_path(directory, 0), header) as writer:
        for number, second in enumerate(sorted((*seconds, failed))):
            moment, process = BEGAN + round(second * SECOND), number
            writer.invoke(InvocationRow("send", process, 0, moment - 1000, moment - 1000, "events", 0, number + 1))
            if second == failed:
                writer.complete(CompletionRow(process, "info", moment, error="request_timed_out"))
            else:
                writer.complete(CompletionRow(process, "ok", moment, offset=number))


def lines(run: Path, excerpt: Excerpt | None = None) -> list[str]:
    return [" ".join(line.split()) for line in Timeline.of(run).lines(excerpt or Excerpt())]


def test_everything_stands_in_one_order_of_time(run: Path) -> None:
    assert lines(run) == [
        "run made, seed 7; second 0 is the start of the load",
        "clocks those of b1, b2 are known to 0.20 ms",
        "-2.000 s b1 node 1 starts",
        "-1.500 s b2 node 2 starts",
        "0.000 s cluster c1 is the active controller, epoch 1",
        "5.000 s fault 1-kill kill -9 b1 (leader of events/0): injected; before: b1 running (pid 31)",
        "5.100 s fault 1-kill kill -9 b1 (leader of events/0): proven: process gone",
        "6.000 s clients first trouble: send to events-0, request_timed_out, under 1-kill",
        "7.000 s cluster b2 leads events-0, epoch 1",
        "7.000 s b2 node 2 leads events-0",
        "8.500 s clients events-0 acknowledges again after 4.00 s, the longest wait, under 1-kill",
        "9.000 s fault 1-kill kill -9 b1 (leader of events/0): healed",
        "9.100 s b1 node 1 starts",
        "9.100 s b1 Traceback",
        "9.500 s fault 1-kill kill -9 b1 (leader of events/0): seen to be over: b1 running (pid 58)",
        "20.000 s fault 2-clock clock b2 (by name): injected",
        "20.000 s fault 2-clock clock b2 (by name): proven: offset +3600.0 s",
        "≈ 25.000 s b2 node 2 says something an hour ahead (stamped 2026-11-21T22:00:25.000+00:00)",
        "30.000 s fault 2-clock clock b2 (by name): healed",
        "30.000 s fault 2-clock clock b2 (by name): seen to be over: b2 +0.0 s",
        "40.000 s b2 node 2 has stopped cleanly",
    ]


def test_a_fault_that_was_not_proven_says_so_and_one_that_never_was_stands_above(run: Path) -> None:
    writer = EventWriter.faults(run)
    unproven = FaultWindow(
        id="3-isolate",
        fault="isolate",
        targets=("b1",),
        summary="b1",
        injected=BEGAN + 50 * SECOND,
        healed=BEGAN + 60 * SECOND,
        took=False,
        undone=False,
        during="still answered 3 of 5",
        trouble="not healed: b1 is deaf",
        shown=BEGAN + 52 * SECOND,
        ended=BEGAN + 75 * SECOND,
    )
    writer.write(unproven)
    never = FaultWindow(id="4-kill", fault="kill -9", targets=(), summary="nobody", took=False, trouble="no target")
    writer.write(never)
    told = lines(run)
    assert "52.000 s fault 3-isolate isolate b1: NOT proven: still answered 3 of 5" in told
    assert "75.000 s fault 3-isolate isolate b1: NOT seen to end: not healed: b1 is deaf" in told
    assert "fault 4-kill kill -9: did not take place; no target" in told


def test_a_log_whose_hosts_clock_is_not_known_is_left_out_and_that_is_said(run: Path) -> None:
    """Rather than shuffled in by a clock of which nothing is known."""
    save_clocks(run, {"b2": READING})
    (run / "nodes" / "b3").mkdir()
    told = lines(run)
    assert "log b1: left out, its clock was not read; see nodes/b1/node.log" in told
    assert "log b3: none was fetched" in told
    assert not [line for line in told if " b1 node 1" in line] and [line for line in told if " b2 node 2" in line]


@pytest.mark.parametrize("half", ["its columns", "its footer"])
def test_a_history_that_is_damaged_costs_what_clients_noticed_and_nothing_else(run: Path, half: str) -> None:
    history = run / "history.parquet"
    content = history.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    kept = content[-footer:] if half == "its columns" else b""
    history.write_bytes(bytes(len(content) - len(kept)) + kept)
    told = lines(run)
    assert [line for line in told if line.startswith(f"clients left out: {history}: cannot be read as Parquet")]
    assert [line for line in told if " fault 1-kill" in line] and not [line for line in told if " clients " in line]


def test_a_part_of_it_by_time_host_and_words(run: Path) -> None:
    assert [line for line in lines(run, Excerpt(since_s=8, until_s=9.05)) if " s " in line] == [
        "8.500 s clients events-0 acknowledges again after 4.00 s, the longest wait, under 1-kill",
        "9.000 s fault 1-kill kill -9 b1 (leader of events/0): healed",
    ]
    of_b2 = [entry.source for entry in Timeline.of(run).entries(Excerpt(hosts=("b2",)))]
    assert of_b2 == ["b2", "cluster", "b2", "fault", "fault", "b2", "fault", "fault", "b2"]


def test_a_run_without_logs_or_history_has_the_rest(tmp_path: Path) -> None:
    """As a simulation keeps it, or a run that was killed."""
    Manifest(run_id="r", scenario="made", seed=1, topics={}, load_started=0, world="simulation").save(tmp_path)
    EventWriter.faults(tmp_path).write(KILL)
    assert [entry.source for entry in Timeline.of(tmp_path).entries()] == ["fault"] * 4


def test_of_a_log_no_more_is_read_than_is_asked_for(tmp_path: Path) -> None:
    """Logs may be larger than memory."""
    log = tmp_path / "node.log"
    log.write_text("".join(at("21:00:00.000", f"line {number}") for number in range(200_000)))
    entries: Iterator[object] = log_entries(log, "b1", LogAligner(READING))
    assert len(list(islice(entries, 3))) == 3


def test_the_command_prints_it_and_refuses_what_cannot_be_meant(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(run.parents[2])
    assert status_of(["timeline", "runs/made/now", "--from", "8s", "--grep", "healed"]) == 0
    assert [line.split(":")[-1] for line in capsys.readouterr().out.splitlines() if " s  fault" in line] == [
        " healed",
        " healed",
    ]
    for arguments, told in [
        (["--host", "b7"], "no host of that name had a part in the run"),
        (["--from", "soon"], "'soon' is not a time"),
        (["--from", "9s", "--to", "8s"], "--from 9s is later than --to 8s"),
        (["--grep", "("], "is not a regular expression"),
    ]:
        assert status_of(["timeline", "made", *arguments]) == 254
        assert told in capsys.readouterr().err


def test_it_is_kept_beside_the_run(run: Path) -> None:
    assert save_timeline(run).read_text().splitlines() == list(Timeline.of(run).lines())


def test_readings_of_clocks_are_kept_and_a_damaged_file_is_none(tmp_path: Path) -> None:
    save_clocks(tmp_path, {"b1": READING})
    assert load_clocks(tmp_path) == {"b1": READING}
    (tmp_path / "clocks.json").write_text('{"b1": {"offset": 1}}')
    assert load_clocks(tmp_path) == {}
    assert load_clocks(tmp_path / "nowhere") == {}


def test_the_quickest_exchange_with_a_clock_counts() -> None:
    reading = best_of(lambda: 5)
    assert reading.error < SECOND and reading.taken + reading.offset > 0


def test_what_a_simulation_keeps_has_a_timeline_too(tmp_path: Path) -> None:
    """Its nodes write no logs; faults, cluster and clients are there, in virtual time."""
    scenario = load_suite(SUITES / "lost-response.yaml").scenarios[0]
    assert simulate(scenario, 1, SimOptions(keep=tmp_path)).verdict == "valid"
    told = list(Timeline.of(tmp_path / "seed-1").entries())
    assert [entry.time for entry in told] == sorted(entry.time for entry in told)
    assert {"fault", "cluster"} <= {entry.source for entry in told}
    phases = [entry.text.partition(": ")[2].partition(":")[0].partition(";")[0] for entry in told]
    faults = [phase for phase, entry in zip(phases, told, strict=True) if entry.source == "fault"]
    assert set(faults) == {"injected", "proven", "healed", "seen to be over"}
