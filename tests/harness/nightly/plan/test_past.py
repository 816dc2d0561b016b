"""The past of an item: from ledgers of earlier nights and from the lake."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from squall.harness.nightly.ledger.ledger import Ledger
from squall.harness.nightly.plan.past import known_runs, of_events, of_rows, past_of
from squall.harness.nightly.plan.planning import Past
from squall.results.lake.store import Lake
from squall.results.synthetic.forge_lake import forge_runs
from tests.harness.nightly.nights import ended, item, plan

TODAY = date(2001, 9, 12)
"""The third day after 1e9 seconds since 1970."""


def test_a_ledger_tells_how_long_an_item_took_and_how_it_ended() -> None:
    events = [plan(item("a"), item("b")), ended("a", "invalid", anomalies=("lost_write",)), ended("b", "error")]
    runs = of_events(events)
    assert past_of(item("a"), runs, TODAY) == Past(runs=1, days=3, failed=True, findings=1, seconds=2.0)
    assert past_of(item("b"), runs, TODAY).seconds is None, "how long an error took says nothing"
    assert past_of(item("c"), runs, TODAY) == Past()


def test_a_finding_is_open_for_two_weeks() -> None:
    runs = of_events([plan(item("a")), ended("a", "invalid", anomalies=("lost_write", "phantom"))])
    assert past_of(item("a"), runs, date(2001, 9, 20)).findings == 2
    assert past_of(item("a"), runs, date(2001, 10, 20)).findings == 0


def test_runs_on_hosts_and_in_simulation_have_different_pasts(tmp_path: Path) -> None:
    Lake(tmp_path).rebuild(forge_runs(30))
    rows = Lake(tmp_path).table("runs").to_pylist()
    runs = of_rows(rows)
    name, world = runs[0].name, runs[0].world
    kinds = {"hosts": "scenario", "simulation": "simulation"}
    assert past_of(item(name, kind=kinds.pop(world)), runs, TODAY).runs > 0
    assert past_of(item(name, kind=kinds.popitem()[1]), runs, TODAY).runs == 0


def test_runs_of_different_systems_have_different_pasts(tmp_path: Path) -> None:
    runs = of_events([plan(item("a", tested="kafka")), ended("a", "unknown")])
    assert past_of(item("a", tested="kafka"), runs, TODAY).failed
    assert past_of(item("a"), runs, TODAY) == Past()
    Lake(tmp_path).rebuild(forge_runs(30))
    assert {one.tested for one in of_rows(Lake(tmp_path).table("runs").to_pylist())} == {"squall"}


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "ledger.jsonl").write_text("nonsense\n")
    with Ledger(tmp_path / "good", "c", now=lambda: 1.0e9) as ledger:
        ledger.write(plan(item("a")))
        ledger.write(ended("a", "valid"))
    runs = known_runs(tmp_path / "no lake", tmp_path, TODAY)
    assert [one.name for one in runs] == ["a"]
