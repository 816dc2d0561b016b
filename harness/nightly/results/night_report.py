"""What a night says about itself, from its state: `night.json`, cases of JUnit, annotations of GitHub, Markdown. Pure.

`night.json` and `suite.json` have one entry for each item under `items`; `suite.json` of `squall run` has the same
fields as far as a single suite has them (`suite_report.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from squall.harness.nightly.ledger.ledger import Ended
from squall.harness.nightly.ledger.night_state import ItemState, NightState
from squall.harness.nightly.results.junit import Case

SCHEMA: Final = 1
MOST_ROWS: Final = 25
"""A summary is read in a minute: all of it has at most 60 lines."""
_CAUSES: Final = {
    "finding": "a finding",
    "evidence": "no conclusion",
    "machine": "the machine",
    "hung": "it hung",
    "crash": "a crash of the testbed",
    "refused": "refused",
}


@dataclass(frozen=True)
class NightView:
    """A night's state with what its reader needs besides."""

    state: NightState
    now: float
    status: int | None
    """The exit status; None while the night is under way, and after an interruption."""
    cost: float | None = None
    excused: frozenset[str] = frozenset()
    """The items whose ending the quarantine excuses."""
    problems: tuple[str, ...] = ()
    """Problems of the quarantine list."""
    classname: str = field(default="")

    @property
    def failed(self) -> list[ItemState]:
        """The items that ended otherwise than expected, findings first."""
        ends = [one for one in self.state.items.values() if one.ended and not one.as_expected]
        return sorted(ends, key=lambda one: _outcome_of(one) != "failure")

    @property
    def waiting(self) -> list[ItemState]:
        """The chosen items that have not ended and were not left out."""
        return [one for one in self.state.items.values() if not one.ended and not one.left_out]


def headline(view: NightView) -> str:
    """Return the night in one sentence."""
    items = view.state.items.values()
    good = sum(one.as_expected for one in items)
    parts = [f"{good} of {len(items)} items ended as expected"]
    findings = sum(_outcome_of(one) == "failure" for one in view.failed)
    others = len(view.failed) - findings
    parts += [f"{findings} with a finding"] if findings else []
    parts += [f"{others} without a conclusion"] if others else []
    parts += [f"{len(view.waiting)} not run yet"] if view.waiting else []
    parts += [f"{len(view.state.left_out)} left out"] if view.state.left_out else []
    return ", ".join(parts)


# -- night.json -------------------------------------------------------------------------------------------------------


def as_json(view: NightView) -> dict[str, Any]:
    """Return `night.json`."""
    state = view.state
    return {
        "schema": SCHEMA,
        "night": state.plan.night,
        "suite": state.plan.suite,
        "command": state.plan.command,
        "started": iso(state.plan.at),
        "written": iso(view.now),
        "finished": view.status is not None,
        "exit_status": view.status,
        "headline": headline(view),
        "seconds": round(state.spent_s, 1),
        "cost": view.cost,
        "budget_s": state.plan.budget_s,
        "shard": state.plan.shard or None,
        "sessions": state.sessions,
        "items": [_item_json(one, view) for one in state.items.values()],
        "left_out": [
            {"id": one.item.id, "scenario": one.item.name, "seconds": one.seconds, "value": one.value, "why": one.why}
            for one in state.left_out
        ],
        "lost": [{"cluster": one.cluster, "hosts": list(one.hosts), "why": one.why} for one in state.lost],
        "torn_down": [{"round": one.round, "seconds": one.seconds, "problem": one.problem} for one in state.torn_down],
        "notes": [*state.notes, *view.problems],
    }


def _item_json(one: ItemState, view: NightView) -> dict[str, Any]:
    item, last = one.item, one.last
    return {
        "id": item.id,
        "kind": item.kind,
        "scenario": item.name,
        "suite": item.suite,
        "seed": item.seed,
        "expected": item.expected,
        "verdict": None if last is None else last.outcome.ending,
        "as_expected": one.as_expected,
        "excused": item.id in view.excused,
        "flaky": one.flaky,
        "anomalies": [] if last is None else list(last.outcome.anomalies),
        "problem": one.left_out if last is None else last.outcome.problem,
        "cause": "" if last is None else last.outcome.cause,
        "directory": "" if last is None else last.outcome.directory,
        "seconds": None if last is None else last.seconds,
        "expected_seconds": one.choice.seconds,
        "why": one.choice.why,
        "repeat": item.repeat,
        "attempts": [
            {
                "attempt": ended.attempt,
                "verdict": ended.outcome.ending,
                "problem": ended.outcome.problem,
                "cause": ended.outcome.cause,
                "directory": ended.outcome.directory,
                "seconds": ended.seconds,
            }
            for ended in one.ended
        ],
    }


# -- JUnit ------------------------------------------------------------------------------------------------------------


def cases_of(view: NightView) -> list[Case]:
    """Return a testcase for each item, also for those that were not run."""
    cases = [_case(one, view) for one in view.state.items.values() if one.ended or not one.left_out]
    for omitted in view.state.left_out:
        cases.append(Case(omitted.item.id, view.classname, outcome="skipped", message=f"left out: {omitted.why}"))
    return cases


def _case(one: ItemState, view: NightView) -> Case:
    item, last = one.item, one.last
    properties = {"seed": str(item.seed), "kind": item.kind, "expected": item.expected, "repeat": item.repeat}
    if last is None:
        return Case(item.id, view.classname, outcome="error", message="not run yet", properties=properties)
    properties |= {"verdict": last.outcome.ending, "run": last.outcome.directory}
    outcome = "skipped" if item.id in view.excused else _outcome_of(one)
    return Case(
        item.id,
        view.classname,
        seconds=sum(ended.seconds for ended in one.ended),
        outcome=outcome,  # type: ignore[arg-type]
        message="" if outcome == "passed" else ("quarantined: " if outcome == "skipped" else "") + told(one),
        detail="" if outcome in ("passed", "skipped") else f"{last.outcome.problem}\nrepeat with: {item.repeat}",
        properties=properties,
        output="\n".join(_attempt_line(ended) for ended in one.ended[:-1]),
    )


def _outcome_of(one: ItemState) -> str:
    """Return what a testcase of this item is. Unknown is never a pass."""
    if one.as_expected:
        return "passed"
    ending = "unknown" if one.last is None else one.last.outcome.ending
    return "failure" if ending in ("valid", "invalid") else "error"


def _attempt_line(ended: Ended) -> str:
    return f"attempt {ended.attempt}: {ended.outcome.ending}: {ended.outcome.problem}"


def told(one: ItemState) -> str:
    """Return why an item is not as expected, in one line."""
    last = one.last
    if last is None:
        return "not run"
    found = f" ({', '.join(last.outcome.anomalies)})" if last.outcome.anomalies else ""
    where = f", {_CAUSES[last.outcome.cause]}" if last.outcome.cause in _CAUSES else ""
    problem = f": {last.outcome.problem.splitlines()[0]}" if last.outcome.problem else ""
    return f"{last.outcome.ending}{found} where {one.item.expected} is expected{where}{problem}"


# -- GitHub -----------------------------------------------------------------------------------------------------------


def github_annotations(view: NightView) -> list[str]:
    """Return a line for GitHub's log for each item that is not as expected, and for each problem of the night."""
    lines = []
    for one in view.failed:
        level = "warning" if one.item.id in view.excused else "error"
        lines.append(annotation(level, one.item.id, f"{told(one)}\nrepeat with: {one.item.repeat}", one.item.suite))
    lines += [annotation("error", "quarantine", problem) for problem in view.problems]
    lines += [annotation("error", "teardown", one.problem) for one in view.state.torn_down if one.problem]
    lines += [annotation("warning", one.item.id, "ended as expected when retried") for one in _flaky(view)]
    return lines


def annotation(level: str, title: str, message: str, file: str = "") -> str:
    """Return one workflow command of GitHub Actions, escaped as its toolkit does."""
    properties = {"title": title, **({"file": file} if file.endswith((".yaml", ".yml")) else {})}
    listed = ",".join(f"{name}={_escaped(value, of_property=True)}" for name, value in properties.items())
    return f"::{level} {listed}::{_escaped(message)}"


def _escaped(text: str, *, of_property: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if of_property else text


# -- Markdown ---------------------------------------------------------------------------------------------------------


def markdown(view: NightView) -> str:
    """Return the summary: what broke first, in a table, then what is doubtful, what was left out, time and money."""
    state = view.state
    mark = "⏳" if view.status is None else "✅" if view.status == 0 else "❌"
    blocks = [f"## {mark} Night {_cell(state.plan.night)}", f"{headline(view)}. {_spent(view)}", _table(view)]
    if flaky := [one.item.id for one in _flaky(view)]:
        blocks.append(f"Ended as expected only when retried: {_listed(flaky)}")
    if view.waiting:
        blocks.append(f"Not run: {_listed([one.item.id for one in view.waiting])}")
    if state.left_out:
        blocks.append(f"Left out: {_listed([f'{one.item.id} ({one.why})' for one in state.left_out])}")
    blocks += [
        f"Lost: {_cell(', '.join(one.hosts))} of {_cell(one.cluster)}, {_cell(one.why)}" for one in state.lost[:3]
    ]
    blocks += [f"Teardown: {_cell(one.problem)}" for one in state.torn_down[-3:] if one.problem]
    blocks += [_cell(note) for note in (*view.problems, *state.notes)][:5]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _table(view: NightView) -> str:
    """Return the table of what failed; nothing if nothing did."""
    if not view.failed:
        return ""
    lines = ["| scenario | verdict | reason | repeat with |", "|---|---|---|---|"]
    lines += [_row(one, view) for one in view.failed[:MOST_ROWS]]
    more = len(view.failed) - MOST_ROWS
    return "\n".join([*lines, *([f"| … {more} more | | | |"] if more > 0 else [])])


def _row(one: ItemState, view: NightView) -> str:
    assert one.last is not None
    excused = " (quarantined)" if one.item.id in view.excused else ""
    last = one.last.outcome
    found = f" ({_cell(', '.join(last.anomalies))})" if last.anomalies else ""
    return (
        f"| {_cell(one.item.id)} | {last.ending}{found}{excused} | {_cell(last.problem[:160])} "
        f"| {_code(one.item.repeat)} |"
    )


def _flaky(view: NightView) -> list[ItemState]:
    return [one for one in view.state.items.values() if one.flaky]


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(_cell, names[:most])) + more


def _cell(text: str) -> str:
    """Return text that means nothing in Markdown or HTML, on one line."""
    text = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    for character in "&\\`*_[]|<>":  # the ampersand first: the others are written with it
        text = text.replace(character, f"&#{ord(character)};")
    return text


def _code(text: str) -> str:
    return f"<code>{_cell(text)}</code>" if text else ""


def _spent(view: NightView) -> str:
    seconds = view.state.spent_s
    took = f"It took {seconds / 60:.1f} minutes" if seconds >= 90 else f"It took {seconds:.0f} seconds"
    return f"{took}." if view.cost is None else f"{took} and cost {view.cost:.2f}."


def iso(moment: float) -> str:
    """Return a time as ISO 8601, UTC."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
