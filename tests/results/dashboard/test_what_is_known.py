"""What the dashboard works out of rows: nights, outcomes, findings, levels, coverage, hosts, mutants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from squall.results.dashboard.compare import differences
from squall.results.dashboard.lake_facts import LakeFacts, Latency, Run, read_lake
from squall.results.dashboard.night_table import night_facts, not_run_tonight
from squall.results.dashboard.nights import nights_of, outcome_of, outcome_text
from squall.results.dashboard.overview import Overview, overview_of
from squall.results.dashboard.simulation import estimated_unseen
from squall.results.dashboard.tonight import tonight_of
from squall.results.dashboard.words import file_name, seconds
from squall.results.lake.histogram import added, quantile_seconds
from squall.results.lake.schema import TABLES
from squall.results.lake.store import Lake
from squall.results.synthetic.forge_lake import Planted, forge_runs
from squall.results.synthetic.forge_nights import forge_nights

PLANTED = Planted(
    broken_since=29, mended="kill-follower", mended_since=8, flaky="kill-clock", slower="kill-broker", slower_since=16
)


@pytest.fixture(scope="module")
def overview(tmp_path_factory: pytest.TempPathFactory) -> Overview:
    """Thirty nights of ten scenarios, twice each: one broke tonight, one was mended, one flakes, one became slower."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    lake.rebuild([*forge_runs(600, per_night=20, scenarios=10, planted=PLANTED), *forge_nights(30)])
    return overview_of(read_lake(lake))


def run_of(**row: Any) -> Run:
    facts = {
        "key": "r1", "date": "2026-11-24", "started": "2026-11-24T01:00:00+00:00", "scenario": "kills", "night": "",
        "verdict": "valid", "expected": "valid", "as_expected": True, "anomalies": [], "reasons": [], "mutants": [],
    }  # fmt: skip
    return Run({**dict.fromkeys(TABLES["runs"].schema.names), **facts, **row})


@pytest.mark.parametrize(
    ("verdict", "expected", "as_expected", "outcome"),
    [
        ("valid", "valid", True, "valid"),
        ("invalid", "valid", False, "invalid"),
        ("invalid", "invalid", True, "expected"),
        ("valid", "invalid", False, "invalid"),
        ("unknown", "valid", False, "unknown"),
        ("unknown", "unknown", True, "unknown"),
        ("none", "valid", False, "unknown"),
    ],
)
def test_unknown_is_never_green_and_a_missed_violation_is_red(
    verdict: str, expected: str, as_expected: bool, outcome: str
) -> None:
    run = run_of(verdict=verdict, expected=expected, as_expected=as_expected)
    assert outcome_of(run) == outcome
    assert ("judged" in outcome_text(run)) == (verdict == "none")


def test_runs_after_midnight_belong_to_the_night_that_began_before() -> None:
    runs = [
        run_of(key="a", date="2026-11-23", night="n1"),
        run_of(key="b", date="2026-11-24", night="n1"),
        run_of(key="c", date="2026-11-24"),
    ]
    nights = nights_of(runs)
    assert nights.day_of == {"a": "2026-11-23", "b": "2026-11-23", "c": "2026-11-24"}
    assert nights.days == ("2026-11-23", "2026-11-24")


def night_row(name: str, date: str, **row: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("seconds", "cost", "currency", "left_out", "left_out_why"))
    return {"key": f"night-{name}", "date": date, "night": name, **empty, **row}


def test_the_row_of_a_night_says_on_which_day_it_began() -> None:
    runs = (run_of(key="a", date="2026-11-24", night="n1"),)
    facts = LakeFacts(runs=runs, nights=(night_row("n1", "2026-11-23", seconds=60.0),))
    nights = nights_of(facts.runs, facts.nights)
    assert nights.days == ("2026-11-23",) and nights.day_of["a"] == "2026-11-23"
    assert night_facts(facts, nights)["2026-11-23"].seconds == 60.0


def test_nights_of_one_day_are_added_up_and_what_one_of_them_ran_was_run() -> None:
    left = {"left_out": ["kills", "pauses"], "left_out_why": ["no time", "no money"]}
    facts = LakeFacts(
        runs=(run_of(key="a", night="n2"),),
        nights=(
            night_row("n1", "2026-11-24", seconds=60.0, cost=1.0, currency="EUR", **left),
            night_row("n2", "2026-11-24", seconds=30.0, cost=0.5, currency="EUR"),
        ),
    )
    nights = nights_of(facts.runs, facts.nights)
    recorded = night_facts(facts, nights)["2026-11-24"]
    assert (recorded.nights, recorded.seconds, recorded.costs) == (2, 90.0, (("EUR", 1.5),))
    assert not_run_tonight(nights, recorded) == [("pauses", "no money")]


def test_what_was_left_out_is_listed_once_whatever_the_world() -> None:
    runs = tuple(
        run_of(key=f"{scenario}-{day}", scenario=scenario, world="simulation", date=day)
        for scenario, day in (("kills", "2026-11-23"), ("kills", "2026-11-24"), ("pauses", "2026-11-23"))
    )
    why = {"left_out": ["pauses"], "left_out_why": ["no time"]}
    overview = overview_of(LakeFacts(runs=runs, nights=(night_row("n2", "2026-11-24", **why),)))
    assert overview.nights.scenarios == ("kills (simulation)", "pauses (simulation)")
    assert tonight_of(overview).not_run == [("pauses", "no time")]


def test_a_night_in_which_nothing_ran_is_not_green() -> None:
    why = {"left_out": ["kills"], "left_out_why": ["the night was interrupted before"]}
    facts = LakeFacts(runs=(run_of(date="2026-11-23"),), nights=(night_row("n2", "2026-11-24", seconds=2.0, **why),))
    tonight = tonight_of(overview_of(facts))
    assert tonight.day == "2026-11-24"
    assert tonight.sentence.startswith("Nothing was run; 1 scenario was not run")
    assert {one.condition for one in tonight.tiles} == {"doubt", "bad"}
    assert tonight.not_run == [("kills", "the night was interrupted before")]


def test_findings_are_new_or_resolved_with_their_dates(overview: Overview) -> None:
    found = {one.scenario: one for one in overview.findings}
    assert set(found) == {"kill-leader", "kill-follower"}
    new, mended = found["kill-leader"], found["kill-follower"]
    assert new.state.state == "new" and new.runs_seen == 2 and new.anomaly.witness.startswith("lost_write")
    assert mended.state.state == "resolved" and mended.state.last_seen.isoformat() == "2026-11-02"


def test_a_change_of_level_names_night_and_commits(overview: Overview) -> None:
    levels = {one.metric.name: one for one in overview.levels["kill-broker"]}
    (change,) = levels["p99"].changes
    assert change.day == overview.nights.days[16] and change.day_before == overview.nights.days[15]
    assert 0.2 < change.point.shift < 0.4 and change.point.cause == "metric"
    assert change.commits_before != change.commits and len(change.commits) == 1


def test_a_quantile_of_a_night_is_read_off_the_sum_of_its_runs() -> None:
    from squall.results.dashboard.levels import METRICS

    fast, slow = Latency((100,), (990,), 1.0, 1.0, 1.0), Latency((200, 400), (5, 5), 2.0, 4.0, 4.0)
    runs = [Run(run_of().row, latency=one) for one in (fast, slow)]
    p99 = next(one for one in METRICS if one.name == "p99")
    assert p99.of(runs) == pytest.approx(quantile_seconds(added([((100,), (990,)), ((200, 400), (5, 5))]), 0.99))


def benchmark_row(benchmark: str, figure: str, value: float, **facts: Any) -> dict[str, Any]:
    row = dict.fromkeys(TABLES["benchmarks"].schema.names) | {"key": f"{benchmark}-{value}", "date": "2026-11-24"}
    return row | {"benchmark": benchmark, "figure": figure, "value": value, "unit": "MB/s", "better": "higher"} | facts


def test_a_figure_stands_beside_that_of_another_system() -> None:
    rows = (
        benchmark_row("broker", "produce", 600.0),
        benchmark_row("checker", "rate", 4.0),
        benchmark_row("peer", "produce", 500.0, peer="Apache Kafka 4.1.0", peer_value=50.0),
    )
    found = {one.benchmark: one for one in overview_of(LakeFacts(benchmarks=rows)).benchmarks}
    assert {name: one.to_peer for name, one in found.items()} == {"broker": 12.0, "peer": 10.0, "checker": None}
    assert found["broker"].peer == "Apache Kafka 4.1.0"


def test_executions_of_one_day_are_one_point() -> None:
    rows = tuple(benchmark_row("broker", "produce", value, samples=[value - 1, value + 1]) for value in (5.0, 9.0, 7.0))
    (figure,) = overview_of(LakeFacts(benchmarks=rows)).benchmarks
    assert [(one.value, one.low, one.high) for one in figure.points] == [(7.0, 4.0, 10.0)]


def test_the_sentence_says_what_broke_and_what_was_not_run(overview: Overview) -> None:
    tonight = tonight_of(overview)
    assert tonight.day == "2026-11-24"
    assert tonight.sentence.startswith(
        "17 of 20 runs ended as expected, 2 did not, 1 shows nothing; lost_write in kill-leader is"
    )
    assert tonight.sentence.endswith("is new; 1 scenario was not run.")
    assert {one.name: one.condition for one in tonight.tiles} | {"Testbed": ""} == {
        "System": "bad", "Testbed": "", "Machine": "good",
    }  # fmt: skip
    assert tonight.grid[0].scenario == "kill-leader" and tonight.grid[0].tonight == "invalid"
    assert len(tonight.grid_days) == 30 and {len(one.cells) for one in tonight.grid} == {30}


def test_what_was_left_out_keeps_its_reason(overview: Overview) -> None:
    day, recorded = next((day, one) for day, one in overview.recorded.items() if one.left_out)
    assert recorded.left_out == (("kitchen-sink-30m", "it does not fit the budget of 90 min"),)
    ((currency, cost),) = recorded.costs
    assert cost > 0 and currency == "EUR" and day in overview.nights.days


def test_coverage_counts_proven_faults_only(overview: Overview) -> None:
    (kill,) = overview.coverage.faults
    faults = [fault for run in overview.facts.runs for fault in run.faults]
    assert kill.planned == len(faults) and kill.proven == sum(one.proven for one in faults)
    assert sum(kill.cells.values()) == kill.proven
    assert kill.cells["controller", "1", "election"] == sum(
        one.proven and one.role == "controller" and one.isr == 1 and bool(one.elections) for one in faults
    )


def test_flakes_are_counted_and_findings_are_not_among_them(overview: Overview) -> None:
    assert {one.scenario for one in overview.flakes} >= {"kill-clock"}
    assert "kill-leader" not in {one.scenario for one in overview.flakes}


def test_the_newest_verification_of_a_mutant_counts(overview: Overview) -> None:
    kills = {one.mutant: one for one in overview.simulation.kills}
    assert set(kills) == {"ack-before-replication", "truncate-to-hw", "stale-fetch-appended", "vote-twice"}
    assert kills["truncate-to-hw"].date == "2026-11-24" and kills["truncate-to-hw"].caught == 5


def test_an_estimate_of_unseen_behaviours_grows_with_new_ones() -> None:
    assert estimated_unseen(1_000, 500, 0) == 0
    assert 0 < estimated_unseen(1_000, 500, 10) < estimated_unseen(1_000, 500, 100)


def test_the_week_is_compared_over_all_metrics_together(overview: Overview) -> None:
    rows = differences(overview)
    assert len(rows) == 40
    assert all(one.comparison.adjusted_p >= one.comparison.p for one in rows)
    assert not [one for one in rows if one.certain and one.scenario not in ("kill-broker",)]


def test_hosts_and_samples_are_by_host(overview: Overview) -> None:
    assert {one.host for one in overview.fleet.hosts} == {"b1", "b2", "b3", "c1", "c2", "c3"}
    assert {one.metric for one in overview.fleet.series} == {"cpu_share", "memory_bytes"}
    assert all(one.outcomes["invalid"] == 2 + 16 for one in overview.fleet.hosts)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", ".hidden", "x" * 300, "<script>", "a b", "ä"])
def test_a_scenario_of_any_name_has_a_plain_file_name(name: str) -> None:
    found = file_name(name)
    assert found not in (name, "", ".", "..") and "/" not in found and len(found) < 100
    assert file_name(name + " ") != found


def test_durations_are_readable() -> None:
    assert [seconds(one) for one in (None, 0.0123, 75, 4_100, 9_000)] == [
        "–",
        "12.3 ms",
        "75 s",
        "68 min",
        "2 h 30 min",
    ]


def test_an_empty_lake_gives_an_overview(tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    found = overview_of(read_lake(Lake(tmp_path)))
    assert found.tonight == [] and found.findings == [] and found.coverage.faults == ()
