"""The report sets a run beside the last one of its scenario, and claims no significance."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.history import read_faults
from squall.results.history.manifest import MANIFEST_FILE, Manifest
from squall.results.history.segments import FaultWindow
from squall.results.history.store import point_latest
from squall.results.report.fault_effects import FaultEffect
from squall.results.report.last_run import Row, RunFacts, result_rows
from squall.results.report.report import REPORT_FILE
from squall.results.report.tables import TABLES_FOLDER
from squall.results.synthetic.forge import MILLISECOND, ORIGIN, Forged, forge_run
from squall.results.verdict.verdict import VERDICT_FILE, AnomalyCount, Verdict
from tests.browser import browser, complaints, needs_browser

SECOND = 1000 * MILLISECOND
MACHINE = {"system": "lab", "processors": "2", "memory": "8 GiB", "loop_ms": "10", "sync_ms": "2"}


def a_run(
    directory: Path, *, minute: int, latency: int = 4, outage: int = 140, report: bool = True, **facts: object
) -> Path:
    """Sends every 10 ms for 6 s; from second 1.2 on none is acknowledged for a while, as b1 was killed."""
    kill = FaultWindow(
        id="kill-1", fault="kill", targets=("b1",), summary="b1", injected=ORIGIN + SECOND, healed=ORIGIN + 2 * SECOND,
        took=True, undone=True, during="the process is dead",
    )  # fmt: skip
    times = [one * 10 for one in range(600) if not 120 <= one < 120 + outage]
    sends = [
        Forged("send", 1, 1, at * MILLISECOND, (at + latency) * MILLISECOND, value=(1 << 40) + number, offset=number)
        for number, at in enumerate(times)
    ]
    told = {
        "seed": minute,
        "scenario_hash": "5f",
        "started": f"2026-11-24T14:{minute:02}:00+00:00",
        "machine": MACHINE,
        "versions": {"commit": "8bf7102f01a34"},
    }
    scenario = directory.parent.name
    run = forge_run(directory, sends, scenario=scenario, faults=(kill,), **told | facts)  # type: ignore[arg-type]
    check_run(run, InProcess(), report=report)
    return run


def section(run: Path) -> str:
    page = (run / REPORT_FILE).read_text()
    found = page[page.index('id="last-run"') : page.index('id="reproduce"')]
    return re.sub(r"\s+", " ", re.sub(r"<(?!a |/a)[^>]*>", " ", found))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "kill <one>"


def test_figures_of_both_runs_stand_side_by_side(runs: Path) -> None:
    a_run(runs / "1", minute=1, machine={**MACHINE, "loop_ms": "8"})
    said = section(a_run(runs / "2", minute=2, latency=8, outage=200))
    assert "verdict unknown unknown –" in said
    assert re.search(r"p99 of sends 4\.\d+ ms 8\.\d+ ms (×2\.0|\+9\d\.\d %)", said)
    assert re.search(r"longest outage 1\.4\d s 2\.0\d s \+4\d\.\d %", said)
    assert re.search(r"sends acknowledged \d+/s \d+/s -\d+\.\d %", said)
    assert re.search(r"recovery from kill 1\.\d+ s 2\.\d+ s ", said)
    assert "machine: loop of arithmetic 8.00 ms 10.0 ms +25.0 %" in said
    assert "machine: loopback round trip" not in said, "neither run recorded it"


def test_no_difference_is_called_significant(runs: Path) -> None:
    a_run(runs / "1", minute=1)
    said = section(a_run(runs / "2", minute=2, latency=9))
    assert "one run on each side" in said and "squall compare" in said


def test_the_last_run_is_linked_if_it_has_a_report(runs: Path) -> None:
    last = a_run(runs / "1 a", minute=1)
    assert 'href="../1%20a/report.html" data-from-latest="../kill%20%3Cone%3E/1%20a/report.html"' in section(
        a_run(runs / "2", minute=2)
    )
    (last / REPORT_FILE).unlink()
    assert "1 a, which has no report" in section(a_run(runs / "3", minute=2))


def test_it_is_the_one_that_began_last_before_also_when_checked_again(runs: Path) -> None:
    for number, minute in (("c", 1), ("b", 5), ("a", 9)):
        a_run(runs / number, minute=minute)
    check_run(runs / "b", InProcess())
    assert "beside this one is <a" in section(runs / "b") and ">c</a>" in section(runs / "b")
    assert ">b</a>" in section(runs / "a")


def test_a_run_without_a_predecessor_says_so(runs: Path) -> None:
    a_run(runs / "1", minute=1, scenario_hash="other")
    said = section(a_run(runs / "2", minute=2))
    assert "No earlier run of this scenario, as it is stated now" in said
    assert "does not state which scenario" in section(a_run(runs / "3", minute=3, scenario_hash=""))
    assert "does not state when it began" in section(a_run(runs / "4", minute=4, started=""))


def test_damaged_and_older_runs_are_passed_over_with_a_word(runs: Path) -> None:
    for number in range(1, 7):
        a_run(runs / str(number), minute=number, report=False)
    (runs / "2" / VERDICT_FILE).unlink()
    (runs / "3" / VERDICT_FILE).write_text('{"verdict": "valid"}')
    (runs / "4" / MANIFEST_FILE).write_text('{"run_id')
    outages = runs / "5" / TABLES_FOLDER / "outages.parquet"
    pq.write_table(pq.read_table(outages).rename_columns(["topic", "partition", "begin", "end"]), outages)
    (runs / "6" / TABLES_FOLDER / "latency.parquet").write_bytes(b"PAR1")
    said = section(a_run(runs / "7", minute=7))
    assert "beside this one is 1, which has no report" in said
    assert (
        "Passed over: 6 (its tables cannot be read), 5 (its tables are those of another version of Squall), "
        "4 (its run.json cannot be read) and 2 more." in said
    )


def test_what_else_differs_between_the_runs_is_stated(runs: Path) -> None:
    a_run(runs / "1", minute=1, machine={}, schedule_hash="a")
    said = section(a_run(runs / "2", minute=2, schedule_hash="b", versions={"commit": "77aa"}))
    assert "The schedules of faults differ (seed 1, now 2)." in said
    assert "The commits differ: 8bf7102f01, now 77aa." in said
    assert "Whether both ran on the same machine is unknown." in said
    other = section(a_run(runs / "3", minute=3, machine={**MACHINE, "processors": "64"}, schedule_hash="b"))
    assert "The machines are not the same: no difference can be ascribed to the system." in other


def test_a_verdict_that_differs_is_named_with_its_anomalies(runs: Path) -> None:
    run = a_run(runs / "1", minute=1, report=False)
    manifest, verdict = Manifest.load(run), Verdict.load(run)
    lost = replace(verdict, verdict="invalid", anomalies=(AnomalyCount("lost_write", "", 2, {"events-0": 2}),))
    sides = [RunFacts(manifest, one, (), ()) for one in (replace(verdict, verdict="valid"), lost)]
    assert result_rows(*sides)[0] == Row("verdict", "valid", "invalid: lost_write (2), not as expected")


@pytest.mark.parametrize(
    ("effects", "said"),
    [
        ([FaultEffect(True, 1.0, 2.5), FaultEffect(True, 4.0, 8.0)], "4.00 s"),
        ([FaultEffect(True, 1.0, 2.5), FaultEffect(True, 4.0)], "not over when the load ended"),
        ([FaultEffect(True, 1.0, 2.5), FaultEffect(None, why="?")], "? unknown for 1 of 2"),
        ([FaultEffect(None), FaultEffect(None)], "? unknown"),
        ([FaultEffect(False), FaultEffect(False)], "no trouble seen"),
    ],
)
def test_the_longest_recovery_of_a_kind_counts_and_unknown_is_not_none(
    runs: Path, effects: list[FaultEffect], said: str
) -> None:
    run = a_run(runs / "1", minute=1, report=False)
    (kill,) = read_faults(run)
    facts = RunFacts(Manifest.load(run), Verdict.load(run), (kill, kill), effects)
    without = RunFacts(facts.manifest, facts.verdict, (), ())
    assert result_rows(without, facts)[-1] == Row("recovery from kill", "not injected", said)


def test_runs_of_a_simulation_are_not_compared(runs: Path) -> None:
    a_run(runs / "seed-1", minute=1)
    run = a_run(runs / "seed-2", minute=2, world="simulation")
    assert 'id="last-run"' not in (run / REPORT_FILE).read_text()


@needs_browser
@pytest.mark.xdist_group("browser")
def test_the_link_leads_there_also_from_the_page_of_the_latest_run(runs: Path) -> None:
    """`runs/latest` is a link to a directory that lies deeper than it."""
    a_run(runs / "1", minute=1)
    point_latest(runs.parent, a_run(runs / "2", minute=2))
    with browser(390) as page:
        for opened in (runs / "2", runs.parent / "latest"):
            page.get(f"file://{quote(str(opened / REPORT_FILE))}")
            href = page.find_element("css selector", "#last-run a").get_attribute("href")
            assert href and Path(unquote(urlsplit(href).path)).samefile(runs / "1" / REPORT_FILE)
        assert page.execute_script("return document.documentElement.scrollWidth") <= 390
        assert complaints(page) == []
