"""The row about a night in the lake: how long it took, what it cost, what was not run and why.

It is written after each attempt, so that a night that was killed has one as well; each replaces the one before.
"""

from __future__ import annotations

from datetime import UTC, datetime

from squall.harness.nightly.results.night_report import NightView
from squall.results.lake.entry import Entry


def night_entry(view: NightView) -> Entry:
    """Return the entry of a night."""
    state = view.state
    began = datetime.fromtimestamp(state.plan.at, UTC)
    omissions = [*((one.item.id, one.why) for one in state.left_out), *((one.item.id, "") for one in view.waiting)]
    row = {
        "night": state.plan.night,
        "began": began.isoformat(timespec="seconds"),
        "seconds": round(state.spent_s, 1),
        "cost": view.cost,
        "currency": "",
        "left_out": [name for name, _ in omissions],
        "left_out_why": [why or "the night was interrupted before" for _, why in omissions],
    }
    recorded = datetime.fromtimestamp(view.now, UTC).isoformat(timespec="seconds")
    return Entry.of(f"night-{state.plan.night}", began.date().isoformat(), recorded, {"nights": [row]})
