"""The rows of a run, made from what it wrote: a run without a verdict is never counted as valid."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import Manifest
from squall.results.history.segments import ClusterObservation, FaultWindow
from squall.results.lake.entry import Entry
from squall.results.lake.of_run import date_of, entry_of_run, fingerprint
from squall.results.report.tables import TABLES_FOLDER
from squall.results.synthetic.forge import MILLISECOND, ORIGIN, Forged, forge_run
from squall.results.synthetic.forge_catalogue import FAMILIES
from squall.results.verdict.verdict import VERDICT_FILE

SECOND = 1_000 * MILLISECOND
KILL = FaultWindow(
    id="kill-1", fault="kill", targets=("b1",), summary="b1", injected=ORIGIN + 1 * SECOND, healed=ORIGIN + 3 * SECOND,
    took=True, undone=True, during="the process is dead",
)  # fmt: skip
CLUSTER = (
    ClusterObservation(time=ORIGIN + 2 * SECOND, kind="in_sync", topic="events", partition=0, nodes=("b2",)),
    ClusterObservation(time=ORIGIN + 2 * SECOND, kind="leader", topic="events", partition=0, node="b2", epoch=2),
    ClusterObservation(time=ORIGIN + 5 * SECOND, kind="leader", topic="events", partition=0, node="b1", epoch=3),
)


def a_run_with_an_outage(directory: Path) -> Path:
    """Sends every 10 ms, but none is acknowledged between second 1.2 and second 2.6."""
    times = [one * 10 for one in range(400) if not 120 <= one < 260]
    sends = [
        Forged("send", 1, 1, at * MILLISECOND, (at + 4) * MILLISECOND, value=(1 << 40) + number, offset=number)
        for number, at in enumerate(times)
    ]
    return forge_run(directory, sends, faults=(KILL,), cluster=CLUSTER)


def rows(entry: Entry, table: str) -> list[dict[str, object]]:
    columns = entry.tables.get(table, {})
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def forged(directory: Path, case: str) -> Entry:
    FAMILIES["log"].write(directory, 7, 2_000, FAMILIES["log"].case(case))
    check_run(directory, InProcess())
    return entry_of_run(directory)


def test_a_valid_run_has_its_verdict_and_its_counts(tmp_path: Path) -> None:
    FAMILIES["log"].write(tmp_path / "run", 7, 2_000, None)
    verdict = check_run(tmp_path / "run", InProcess())
    (run,) = rows(entry_of_run(tmp_path / "run"), "runs")
    assert (run["verdict"], run["as_expected"], run["anomalies"]) == ("valid", True, [])
    assert run["acknowledged"] == verdict.coverage.acknowledged > 0
    assert run["directory"] == str(tmp_path / "run")


def test_an_anomaly_has_its_fingerprint_and_its_witness_in_one_line(tmp_path: Path) -> None:
    entry = forged(tmp_path / "run", "lost")
    (anomaly,) = rows(entry, "anomalies")
    assert (anomaly["anomaly"], anomaly["occurrences"]) == ("lost_write", 1)
    assert anomaly["witness"] and "\n" not in str(anomaly["witness"])
    assert anomaly["fingerprint"] == fingerprint(Manifest.load(tmp_path / "run").scenario, "lost_write", [])


def test_equal_findings_have_equal_fingerprints_whatever_their_seed_and_offsets() -> None:
    assert fingerprint("torn-tail", "lost_write", ["kill", "pause"]) == fingerprint(
        "torn-tail", "lost_write", ["pause", "kill"]
    )
    others = [
        fingerprint("torn-tail", "duplicate", ["kill", "pause"]),
        fingerprint("smoke", "lost_write", ["kill", "pause"]),
        fingerprint("torn-tail", "lost_write", ["kill"]),
        fingerprint("torn-tail", "lost_write", ["kill", "pause"], ["truncate-to-hw"]),
    ]
    assert len({*others, fingerprint("torn-tail", "lost_write", ["kill", "pause"])}) == 5


def test_a_fault_has_the_silence_that_began_while_it_held(tmp_path: Path) -> None:
    run = a_run_with_an_outage(tmp_path / "run")
    check_run(run, InProcess())
    (fault,) = rows(entry_of_run(run), "faults")
    assert (fault["fault"], fault["proven"], fault["injected_s"], fault["healed_s"]) == ("kill", True, 1.0, 3.0)
    assert fault["silence_s"] == pytest.approx(1.4, abs=0.05)
    assert fault["recovered_s"] == pytest.approx(1.6, abs=0.05)
    assert (fault["isr"], fault["elections"]) == (1, 1), "the second election came after it was healed"


def test_latencies_are_a_histogram_of_all_acknowledged_sends(tmp_path: Path) -> None:
    run = a_run_with_an_outage(tmp_path / "run")
    check_run(run, InProcess())
    (latency,) = rows(entry_of_run(run), "latency")
    counts = latency["counts"]
    assert isinstance(counts, list) and sum(counts) == latency["operations"] == 260
    assert latency["p50_s"] == pytest.approx(0.004, rel=0.011)


def test_a_run_that_was_never_judged_has_no_verdict(tmp_path: Path) -> None:
    (run,) = rows(entry_of_run(a_run_with_an_outage(tmp_path / "run")), "runs")
    assert (run["verdict"], run["as_expected"]) == ("none", False)


def test_a_verdict_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    run = a_run_with_an_outage(tmp_path / "run")
    check_run(run, InProcess())
    (run / VERDICT_FILE).write_text('{"verdict": "val')
    (run / TABLES_FOLDER / "latency_classes.parquet").write_bytes(b"PAR1")
    entry = entry_of_run(run)
    assert rows(entry, "runs")[0]["verdict"] == "none"
    assert "latency" not in entry.tables


def test_a_directory_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IllFormedHistory, match=r"run\.json"):
        entry_of_run(tmp_path)


@pytest.mark.parametrize(
    ("started", "date"),
    [
        ("2026-11-23T23:30:00-02:00", "2026-11-24"),
        ("2026-11-23T23:30:00+00:00", "2026-11-23"),
        ("2026-11-23T23:30:00", "2026-11-23"),
        ("yesterday", None),
        ("", None),
    ],
)
def test_the_date_is_the_day_in_utc(started: str, date: str | None) -> None:
    assert date_of(started) == date


def test_a_run_that_does_not_state_when_it_began_is_dated_by_its_file(tmp_path: Path) -> None:
    run = a_run_with_an_outage(tmp_path / "run")
    os.utime(run / "run.json", (1795528991, 1795528991))
    said: list[str] = []
    entry = entry_of_run(run, say=said.append)
    assert (entry.date, rows(entry, "runs")[0]["started"]) == ("2026-11-24", "2026-11-24T14:03:11+00:00")
    assert said == [f"{run}: does not state when it began: dated 2026-11-24T14:03:11+00:00, the time of its run.json"]


def test_nothing_is_said_of_a_run_that_states_when_it_began(tmp_path: Path) -> None:
    run = a_run_with_an_outage(tmp_path / "run")
    Manifest.load(run).with_changes(started="2026-11-23T10:00:00+00:00").save(run)
    said: list[str] = []
    assert (entry_of_run(run, say=said.append).date, said) == ("2026-11-23", [])
