"""Write and read schedule files: a suite with one scenario and one event a line, for people to read and change.

`save` loads its own file before it returns, so that no file remains that `squall simulate` would refuse or read
differently.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from squall.harness.scenario.suite import Scenario, load_suite
from squall.harness.simulation.shrink.simplify import operations_of
from squall.harness.yaml_source import parse_yaml
from squall.nemesis.entries import NemesisEntry

WIDTH = 10_000
ORDER = ("fault", "target", "at", "for")


def written(scenario: Scenario, comments: tuple[str, ...] = ()) -> str:
    """Return the text of a schedule file; `comments` stand above it."""
    data = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    workload = data.pop("workload", {})
    workload.pop("operations", None)
    for key in ("nemesis", "fault_free", "time", "seeds", "expect"):
        data.pop(key, None)
    parts = [f"# {line}".rstrip() for line in comments]
    parts += ["format: 1", _block(data), _block({"workload": {"name": "log", **workload}}, flow=False)]
    parts += ["  operations:" + ("" if operations_of(scenario) else " []")]
    parts += [f"    - {_line(_operation(one.model_dump(exclude_none=True)))}" for one in operations_of(scenario)]
    parts += ["nemesis:", *(f"  - {_line(_fault(one))}" for one in scenario.nemesis)] if scenario.nemesis else []
    parts += ["fault_free: true"] if scenario.fault_free else []
    parts += [f"seeds: {list(scenario.seeds)}", f"time: {_line(scenario.time.model_dump(mode='json'))}"]
    parts += [f"expect: {scenario.expect.verdict}"]
    return "\n".join(parts) + "\n"


def save(scenario: Scenario, path: Path, comments: tuple[str, ...] = ()) -> Scenario:
    """Write the file and read it again. Return the scenario as readers of the file will have it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written(scenario, comments), encoding="utf-8")
    return load_suite(path).scenarios[0]


def reread(scenario: Scenario) -> Scenario:
    """Return the scenario as read from its file: times have only as many digits as in the file."""
    return Scenario.model_validate(parse_yaml(written(scenario), "schedule").data)


def _operation(data: dict[str, Any]) -> dict[str, Any]:
    return {"at": _number(data.pop("at")), **data}


def _fault(entry: NemesisEntry) -> dict[str, Any]:
    data = entry.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    data["fault"] = entry.fault
    data |= {"at": _seconds(entry.at or 0.0), "for": _seconds(float(entry.length()))}  # type: ignore[arg-type]
    return {key: data[key] for key in (*ORDER, *data) if key in data}


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else round(value, 6)


def _seconds(value: float) -> str:
    """Format to the millisecond, which is the precision of faults."""
    return f"{value:.3f}".rstrip("0").rstrip(".") + "s"


def _line(data: dict[str, Any]) -> str:
    return yaml.safe_dump(data, default_flow_style=True, sort_keys=False, width=WIDTH, allow_unicode=True).strip()


def _block(data: dict[str, Any], flow: bool | None = None) -> str:
    return yaml.safe_dump(data, default_flow_style=flow, sort_keys=False, width=WIDTH, allow_unicode=True).rstrip()
