"""`squall trends`: on which nights the level of a figure changed, between which commits, and what was decided about it.

The figures are those of runs, by scenario, and those of benchmarks.
A change point is found looking back over all nights; an alarm is a decision of its night, which later nights do not
change. `squall trends triage` records what a person has decided about a point.
"""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_args

import typer

from squall.harness.errors import UsageError
from squall.harness.terminal.console import console
from squall.harness.terminal.documents import JsonOption, print_document
from squall.harness.terminal.lake_options import DEFAULT_LAKE, LakeOption, opened, parse_day, say, say_aside
from squall.harness.terminal.time_left import time_left
from squall.harness.yaml_source import suggestion

FALSE_ALARMS: Final = 0.001
"""The largest probability of a false alarm, for one series and night."""
BY_CHANCE: Final = "by chance about one in 50 series of 60 nights"
"""How many change points noise alone makes, as measured (docs/trends.md)."""
CHANGE_POINT, ALARM = "change point", "alarm"

SINCE: Final = "180d"
SinceOption = Annotated[str, typer.Option(metavar="DAY", help="a day, 2026-11-01, or an age: 60d, 9w")]

trends_app = typer.Typer(
    help="Change points and alarms of figures over nights.",
    epilog="Examples: squall trends · squall trends --scenario kill --metric p99 --since 60d · "
    "squall trends --scenario 'bench broker' · "
    "squall trends triage 5f0c1a2b --state acknowledged --note 'the new flush order, wanted'",
)


@trends_app.callback(invoke_without_command=True)
def trends(
    ctx: typer.Context,
    scenario: Annotated[
        str | None, typer.Option(metavar="TEXT", help="only scenarios, or bench NAME, whose name contains this")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="only this figure, such as p99; may be given again")
    ] = None,
    since: SinceOption = SINCE,
    everything: Annotated[bool, typer.Option("--all", help="list hidden points as well")] = False,
    as_json: JsonOption = False,
    lake: LakeOption = DEFAULT_LAKE,
) -> int:
    """Change points and alarms of figures over nights, with the commits between, and what was decided about them."""
    ctx.obj = lake
    if ctx.invoked_subcommand is not None:
        return 0
    found = _found(lake, scenario, tuple(metric or ()), since, as_json=as_json)
    if as_json:
        print_document(found.data())
        return 0
    for line in found.lines(everything=everything):
        console().print(line, markup=False, highlight=False, soft_wrap=True)
    return 0


@trends_app.command(
    "triage",
    epilog="Examples: squall trends triage 5f0c1a2b --state acknowledged --note 'the new flush order, wanted' · "
    "squall trends triage 5f0c1a2b --state fixed --note 8bf7102",
)
def triage(
    ctx: typer.Context,
    point: Annotated[str, typer.Argument(metavar="POINT", help="its id, as squall trends lists it")],
    state: Annotated[str, typer.Option(metavar="STATE", help="acknowledged, hidden, fixed or open")],
    note: Annotated[str, typer.Option(metavar="TEXT", help="why; the commit that fixed it")] = "",
    since: SinceOption = SINCE,
    lake: Annotated[
        Path | None, typer.Option("--lake", metavar="DIR", help=f"the lake's directory; {DEFAULT_LAKE} by default")
    ] = None,
) -> int:
    """Record what was decided about a change point; the lake keeps every decision."""
    from squall.results.lake.triage import State, Triage, append

    if state not in get_args(State):
        raise UsageError(f"--state {state}: is no state of a point", remedy=f"name {', '.join(get_args(State))}")
    root = lake or ctx.obj
    found = _found(root, None, (), since, as_json=False)
    changes = {one.id: one for one in (*found.alarms, *found.changes)}
    if point not in changes:
        raise UsageError(f"{point}: there is no such point since {since}", remedy="squall trends lists them")
    one = changes[point]
    decision = Triage(
        point=point,
        scenario=one.scenario,
        metric=one.metric.name,
        night=one.night,
        state=cast(State, state),
        note=note,
        who=_who(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    path = append(root, decision)
    text = f"{'triage':<11}{point} ({one.scenario}, {one.metric.name}, {one.night}) is {state} in {path}"
    console().print(text, markup=False, highlight=False, soft_wrap=True)
    return 0


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # this user has no name
        return "unknown"


class _Found:
    """The changes of all series of a lake, with the decisions about them."""

    def __init__(self, nights: Sequence[str], series: int, changes: Sequence[Any], known: Sequence[Any]) -> None:
        from squall.results.lake.triage import decided

        self.nights = nights
        self.series = series
        self.changes = [one for one in changes if one.kind == CHANGE_POINT]
        self.alarms = [one for one in changes if one.kind == ALARM]
        self.tonight = [one for one in self.alarms if one.raised == (nights[-1] if nights else "")]
        self.decisions = {one.id: decided(known, one.scenario, one.metric.name, one.night) for one in changes}

    def state(self, change: Any) -> str:
        decision = self.decisions[change.id]
        return "open" if decision is None else decision.state

    def lines(self, *, everything: bool) -> list[str]:
        """Describe them: tonight's alarms first, then the change points, the newest first."""
        first, last = self.nights[0], self.nights[-1]
        chance = f"by chance at most {FALSE_ALARMS * self.series:.2g} a night"
        said = [
            f"{'nights':<11}{len(self.nights)}, {first} to {last}; {self.series} series",
            f"{'alarms':<11}tonight ({last}): {len(self.tonight)}; {chance}",
            *(self._line(one) for one in self.tonight),
        ]
        counted = Counter("environment" if one.cause == "environment" else _direction(one) for one in self.changes)
        words = ", ".join(f"{number} {name}" for name, number in sorted(counted.items()))
        said.append(f"{'changes':<11}{len(self.changes)}" + (f": {words}; {BY_CHANCE}" if words else ""))
        shown = [one for one in self.changes if everything or self.state(one) != "hidden"]
        shown.sort(key=lambda one: (one.night, one.scenario, one.metric.name), reverse=True)
        said += [self._line(one) for one in shown]
        if len(shown) < len(self.changes):
            said.append(f"{'':<11}{len(self.changes) - len(shown)} hidden; --all lists them")
        return said

    def _line(self, one: Any) -> str:
        decision = self.decisions[one.id]
        shift = f"{one.shift:+.1%}" if isfinite(one.shift) else "from 0"
        words = ["environment"] if one.cause == "environment" else []
        words += ["provisional"] if one.provisional else []
        words += [] if decision is None else [f"{decision.state} by {decision.who}: {decision.note}".rstrip(": ")]
        return (
            f"{'✘' if one.worse else '✔'} {one.id}  {one.night}  {one.scenario:<34} {one.metric.name:<15}"
            f"{one.before:.4g} → {one.after:.4g} {one.metric.unit}  {shift}  p {one.p:.1g}  {one.commits}"
            + (f"  ({'; '.join(words)})" if words else "")
        )

    def data(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "nights": list(self.nights),
            "series": self.series,
            "change_points": [self._data(one) for one in self.changes],
            "alarms": [self._data(one) for one in self.alarms],
        }

    def _data(self, one: Any) -> dict[str, Any]:
        decision = self.decisions[one.id]
        found = asdict(one) | {"metric": one.metric.name, "unit": one.metric.unit, "worse": one.worse}
        found |= {"shift": one.shift if isfinite(one.shift) else None, "commits": one.commits}
        return found | {
            "state": self.state(one),
            "triage": None if decision is None else {"who": decision.who, "at": decision.at, "note": decision.note},
        }


def _direction(change: Any) -> str:
    return "worse" if change.worse else "better"


def _found(lake: Path, scenario: str | None, metrics: tuple[str, ...], since: str, *, as_json: bool) -> _Found:
    """Find the changes of the series that are asked for. Raises UsageError."""
    from squall.results.lake.triage import decisions
    from squall.results.regression.benchmark_nights import benchmark_series
    from squall.results.regression.measured_run import scenario_of
    from squall.results.regression.metrics import METRICS
    from squall.results.regression.nights import (
        canaries_by_night,
        changes_of,
        days_of_nights,
        on_their_days,
        series_of,
    )
    from squall.results.regression.selection import measured

    day = parse_day(since, "--since").isoformat()
    with opened(lake, as_json=as_json) as found:
        rows = found.table("runs", since=day).to_pylist()
        machines = {one["key"]: one for one in found.table("machines", since=day).to_pylist()}
        measured_by = list(benchmark_series(found.table("benchmarks", since=day).to_pylist(), machines))
        figures = {**METRICS, **{one.metric.name: one.metric for one in measured_by}}
        for name in metrics:
            if name not in figures:
                raise UsageError(f"--metric {name}: is no figure of a run or a benchmark{suggestion(name, figures)}")
        if not rows and not measured_by:
            raise UsageError(f"{lake}: has no runs since {day}", remedy="squall run adds its runs")
        wanted = [one for one in rows if (scenario or "") in scenario_of(one)]
        measured_by = [one for one in measured_by if (scenario or "") in one.scenario]
        if not wanted and not measured_by:
            raise UsageError(f"--scenario {scenario}: no scenario and no benchmark has a name that contains this")
        rows.sort(key=lambda one: (one["started"] or "", one["key"]))
        begun = [(one["night"] or "", one["date"]) for one in (*found.table("nights").to_pylist(), *rows)]
        days = days_of_nights(begun)
        nights_of_rows = (days.get(one["night"] or "", one["date"]) for one in rows)
        canaries = (machines.get(one["key"], {}) for one in rows)
        machine = canaries_by_night(zip(nights_of_rows, canaries, strict=True))
        runs = on_their_days(measured(found, wanted), days.items())
    series = list(series_of(runs, metrics, machine))
    series += [one for one in measured_by if not metrics or one.metric.name in metrics]
    changes = []
    with time_left(console(aside=as_json), "trends", len(series), "series") as advance:
        for one in series:
            changes += changes_of(one)
            advance()
    nights = sorted({night for one in series for night in one.nights})
    known = decisions(lake, say_aside if as_json else say)
    return _Found(nights or sorted({one.night for one in runs}) or [day], len(series), changes, known)
