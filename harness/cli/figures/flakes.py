"""`squall flakes`: which scenarios end differently at equal code and plan, and which are in quarantine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from squall.harness.errors import UsageError
from squall.harness.terminal.console import console
from squall.harness.terminal.documents import JsonOption, print_document
from squall.harness.terminal.lake_options import DEFAULT_LAKE, LakeOption, opened, parse_day
from squall.results.checkers.common.text import several

EXAMPLES: Final = (
    "Examples: squall flakes · squall flakes --since 30d --scenario pause · "
    "squall flakes --quarantine quarantine.yaml --json"
)
COLUMNS: Final = (
    "key", "date", "scenario", "scenario_hash", "schedule_hash", "commit", "dirty", "system", "version", "mutants",
    "verdict", "as_expected", "reasons",
)  # fmt: skip


def flakes(
    scenario: Annotated[
        str | None, typer.Option(metavar="TEXT", help="only scenarios whose name contains this")
    ] = None,
    since: Annotated[str, typer.Option(metavar="DAY", help="a day, 2026-11-01, or an age: 30d, 4w")] = "90d",
    quarantine: Annotated[
        Path | None, typer.Option(metavar="FILE", help="a list of scenarios in quarantine, or the file of a night")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="list scenarios without a flake as well")] = False,
    as_json: JsonOption = False,
    lake: LakeOption = DEFAULT_LAKE,
) -> int:
    """List flake rates, with intervals, and the quarantine. Exit status 1 if an entry of the quarantine is wrong."""
    from squall.harness.scenario.quarantine import load_quarantine
    from squall.results.trends.flakes import flake_rates
    from squall.results.trends.quarantine import quarantine_of

    entries = () if quarantine is None else load_quarantine(quarantine)
    day = parse_day(since, "--since").isoformat()
    with opened(lake, as_json=as_json) as found:
        rows = found.table("runs", columns=COLUMNS, since=day).to_pylist()
    if not rows:
        raise UsageError(f"{lake}: has no runs since {day}", remedy="squall run adds its runs")
    known = {one["scenario"] for one in rows}
    rows = [one for one in rows if scenario is None or scenario in one["scenario"]]
    if not rows:
        raise UsageError(f"--scenario {scenario}: no run's scenario has a name that contains this")
    listed = quarantine_of(entries, known, datetime.now(UTC).date())
    rates = sorted(flake_rates(map(_outcome, rows)), key=lambda one: (-one.wilson.low if one.runs else 1, one.scenario))
    quarantined = {one.scenario: one for one in listed.active}
    reasons = _reasons(rows)
    if as_json:
        document = {
            "since": day,
            "runs": len(rows),
            "flakes": [_data(one, reasons.get(one.scenario)) for one in rates],
            "quarantine": [{**vars(one), "until": one.until.isoformat()} for one in listed.active],
            "problems": list(listed.problems),
        }
        print_document(document)
        return 1 if listed.problems else 0
    for line in _lines(rates, quarantined, reasons, everything=everything):
        console().print(line, markup=False, highlight=False, soft_wrap=True)
    for problem in listed.problems:
        console().print(f"✘ {problem}", markup=False, highlight=False, soft_wrap=True)
    return 1 if listed.problems else 0


def _outcome(row: dict[str, Any]) -> Any:
    """Return how a run ended. A checkout with changes is of no version that another run could have, too."""
    from squall.results.trends.flakes import Outcome, Verdict

    version = (row["commit"] or row["version"] or "", row["system"] or "", *(row["mutants"] or ()))
    if row["dirty"] or not row["commit"]:
        version = (*version, row["key"])
    plan = row["scenario_hash"] or "", row["schedule_hash"] or ""
    verdict: Verdict = "error" if row["verdict"] == "none" else row["verdict"]
    return Outcome(row["scenario"], "/".join(plan), "/".join(version), verdict)


def _reasons(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the most frequent reason of the unknown runs of each scenario."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["verdict"] in ("unknown", "none"):
            found[row["scenario"]][(row["reasons"] or ["it was never judged"])[0]] += 1
    return {name: counted.most_common(1)[0][0] for name, counted in found.items()}


def _lines(
    rates: Sequence[Any], quarantined: dict[str, Any], reasons: dict[str, str], *, everything: bool
) -> list[str]:
    comparable, number = sum(one.runs for one in rates), sum(one.flakes for one in rates)
    said = [f"{'flakes':<11}{number} in {several(comparable, 'comparable run')} of {several(len(rates), 'scenario')}"]
    shown = [one for one in rates if everything or one.flakes or one.scenario in quarantined]
    for one in shown:
        rate = "too few comparable runs for a rate"
        if one.shown:
            rate = f"{one.rate:.1%}, 95 %: {one.wilson.low:.1%} to {one.wilson.high:.1%}"
        line = f"{'?' if one.flakes else '✔'} {one.scenario:<40} {f'{one.flakes} of {one.runs}':<12} {rate}"
        if one.flakes and one.scenario in reasons:
            line += f"   mostly: {reasons[one.scenario]}"
        said.append(line)
        if (entry := quarantined.get(one.scenario)) is not None:
            said.append(f"  in quarantine until {entry.until}, owner {entry.owner}: {entry.reason}")
    if not comparable:
        said.append(f"{'':<11}no two runs had one scenario, schedule and commit: run a scenario twice with one seed")
    return said


def _data(one: Any, reason: str | None) -> dict[str, Any]:
    found = {"scenario": one.scenario, "flakes": one.flakes, "runs": one.runs, "reason": reason}
    if not one.shown:
        return found | {"rate": None, "low": None, "high": None}
    return found | {"rate": one.rate, "low": one.wilson.low, "high": one.wilson.high}
