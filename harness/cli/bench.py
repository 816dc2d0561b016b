"""`squall bench`: run a benchmark, print its figures beside the required and the ambitious targets."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.table import Table

import squall.benchmarks as benchmarks
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.errors import UsageError
from squall.harness.yaml_source import suggestion
from squall.results.history.whole_file import write_whole

NOT_BENCHMARKS = frozenset({"measurement"})


class Interrupted(KeyboardInterrupt):
    """A benchmark was interrupted; `measurements` are the figures known until then."""

    def __init__(self, measurements: list[Measurement]) -> None:
        super().__init__()
        self.measurements = measurements


def names() -> list[str]:
    """Return the names of all benchmarks; `control_path.py` is called `control-path`."""
    found = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.ispkg]
    return sorted(name.replace("_", "-") for name in found if name not in NOT_BENCHMARKS and not name.startswith("_"))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"squall.benchmarks.{name.replace('-', '_')}")


def described() -> list[tuple[str, str]]:
    """Return benchmarks with the first line of their module's docstring."""
    listed = []
    for name in names():
        module = _module(name)
        listed.append((name, (module.__doc__ or "").strip().splitlines()[0] if module.__doc__ else ""))
    return listed


def measure(name: str, **chosen: int | bool | None) -> list[Measurement]:
    """Run one benchmark with the given options; None and False mean that an option is not given.

    Raises UsageError for an unknown name or an option that the benchmark does not have, and Interrupted.
    """
    name = name.replace("_", "-")
    if name not in names():
        raise UsageError(f"unknown benchmark {name!r}{suggestion(name, names())}")
    run = _module(name).run
    options = {key: value for key, value in chosen.items() if value is not None and value is not False}
    for option, value in options.items():
        if option not in signature(run).parameters:
            given = f"--{option}" if value is True else f"--{option}={value}"
            raise UsageError(f"{given}: benchmark {name} has none to choose; leave the option out")
    measurements: list[Measurement] = []
    try:
        for one in run(**options):
            measurements.append(one)
    except KeyboardInterrupt:
        raise Interrupted(measurements) from None
    return measurements


def print_measurements(console: Console, name: str, measurements: Sequence[Measurement]) -> None:
    """Print a table with one line per figure."""
    table = Table(title=name, title_justify="left", box=None, pad_edge=False)
    with_peers = any(one.peer is not None for one in measurements)
    for heading in ("figure", "measured", "must", "stretch", "", *["peer"] * with_peers):
        table.add_column(heading, justify="left" if heading in ("figure", "", "peer") else "right")
    for one in measurements:
        peer = [] if one.peer is None else [f"{figure(one.peer.value)}, {one.peer.name}"]
        table.add_row(
            one.name,
            f"{figure(one.measured)} {one.unit}",
            bar(one, one.must),
            bar(one, one.stretch),
            result(one),
            *peer,
        )
    console.print(table)


def figure(value: float) -> str:
    """Format with three significant digits or as whole thousands: `38 703`, `2.31`."""
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"


def bar(one: Measurement, value: float | None) -> str:
    return "" if value is None else f"{'≥' if one.higher_is_better else '≤'} {figure(value)}"


def result(one: Measurement) -> str:
    if not one.passed:
        return "✘ missed"
    return "✔ stretch" if one.stretched else "✔"


def save(
    path: Path,
    name: str,
    measurements: Sequence[Measurement],
    *,
    interrupted: bool = False,
    machine: Mapping[str, str] | None = None,
    versions: Mapping[str, str] | None = None,
) -> None:
    """Write everything measured, raw samples included, as JSON, with what it was measured on."""
    figures = [{**asdict(one), "passed": one.passed} for one in measurements]
    content: dict[str, Any] = {"benchmark": name, "measurements": figures}
    content |= {"machine": dict(machine or {}), "versions": dict(versions or {})}
    content |= {"interrupted": True} if interrupted else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=2) + "\n")
