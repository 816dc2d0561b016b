"""How pages write figures, and how they link to each other."""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, date, datetime
from typing import Final
from urllib.parse import quote

from squall.results.charts.scale import written
from squall.results.dashboard.lake_facts import Run

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}")


def file_name(name: str) -> str:
    """Return a file name for a scenario or a run, also if its name is not fit to be one."""
    if _PLAIN.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:40]
    return f"{plain}.{hashlib.sha256(name.encode()).hexdigest()[:10]}"


def scenario_link(scenario: str) -> str:
    """Return the page of a scenario, from a page at the top."""
    return f"scenarios/{file_name(scenario)}.html"


def run_link(run: Run) -> str:
    """Return where a run is shown, from a page at the top."""
    return f"{scenario_link(run.scenario)}#run={quote(run.key, safe='')}"


def night_link(scenario: str, day: str) -> str:
    return f"{scenario_link(scenario)}#night={quote(day, safe='')}"


def percent(share: float) -> str:
    """Write a relative change: +12 %, -3.1 %."""
    if math.isinf(share):
        return "from zero"
    digits = 0 if abs(share) >= 0.1 else 1
    return f"{100 * share:+.{digits}f} %"


def seconds(value: float | None) -> str:
    """Write a duration: 1.2 ms, 3.4 s, 12 min, 2 h 5 min."""
    if value is None:
        return "–"
    if value < 600:
        return written(value, "s")
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def figure_text(value: float | None, unit: str = "") -> str:
    return "–" if value is None else written(value, unit)


def day_seconds(day: str) -> float:
    """Return a day as seconds since 1970, for the axes of charts."""
    return datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC).timestamp()


def short_commit(commit: str) -> str:
    return commit[:10] + ("+" if commit.endswith("+") and len(commit) > 10 else "")
