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
import squall.benchmarks.experiments as experiments
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.errors import UsageError
from squall.harness.yaml_source import suggestion
from squall.results.history.whole_file import write_whole

NOT_BENCHMARKS = frozenset({"measurement"})


class Interrupted(KeyboardInterrupt):
    """A benchmark was interrupted, or failed; `measurements` are the figures known until then.

    `failure` is why it failed, None if it was interrupted.
    """

    def __init__(self, measurements: list[Measurement], failure: Exception | None = None) -> None:
        super().__init__()
        self.measurements = measurements
        self.failure = failure


def names() -> list[str]:
    """Return the names of all benchmarks; `control_path.py` is called `control-path`."""
    return sorted([*_names_in(benchmarks), *_names_in(experiments)])


def _names_in(package: ModuleType) -> list[str]:
    found = [module.name for module in pkgutil.iter_modules(package.__path__) if not module.ispkg]
    return [name.replace("_", "-") for name in found if name not in NOT_BENCHMARKS and not name.startswith("_")]


def _module(name: str) -> ModuleType:
    package = experiments if name in _names_in(experiments) else benchmarks
    return importlib.import_module(f"{package.__name__}.{name.replace('-', '_')}")


def described() -> list[tuple[str, str]]:
    """Return benchmarks with the first line of their module's docstring."""
    listed = []
    for name in names():
        module = _module(name)
        listed.append((name, (module.__doc__ or "").strip().splitlines()[0] if module.__doc__ else ""))
    return listed


def measure(name: str, **chosen: float | bool | Sequence[str] | None) -> list[Measurement]:
    """Run one benchmark with the given options; None, False and nothing in a list mean that an option is not given.

    Raises UsageError for an unknown name or an option that the benchmark does not have, and Interrupted.
    """
    name = name.replace("_", "-")
    if name not in names():
        raise UsageError(f"unknown benchmark {name!r}{suggestion(name, names())}")
    run = _module(name).run
    options = {key: value for key, value in chosen.items() if value not in (None, False, [])}
    for option, value in options.items():
        if option not in signature(run).parameters:
            words = value if isinstance(value, list) else [value]
            given = " ".join(f"--{option.replace('_', '-')}" if one is True else f"--{option}={one}" for one in words)
            raise UsageError(f"{given}: benchmark {name} has none to choose; leave the option out")
    measurements: list[Measurement] = []
    try:
        for one in run(**options):
            measurements.append(one)
    except KeyboardInterrupt:
        raise Interrupted(measurements) from None
    except Exception as failure:
        if not measurements:
            raise
        raise Interrupted(measurements, failure) from failure
    return measurements


def draw(directory: Path, name: str, measurements: Sequence[Measurement]) -> list[Path]:
    """Write the chart of an experiment, of all of them for `sources`, and their samples. Returns the files.

    Raises UsageError for a benchmark that is no experiment.
    """
    pictures = getattr(_module(name.replace("_", "-")), "pictures", None)
    if pictures is None:
        drawing = ", ".join(one for one in names() if hasattr(_module(one), "pictures"))
        raise UsageError(f"--charts: benchmark {name} draws none; these do: {drawing}")
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for title, content in pictures(measurements).items():
        path = directory / f"{title}.svg"
        write_whole(path, content)
        written.append(path)
    return written


def print_measurements(console: Console, name: str, measurements: Sequence[Measurement]) -> None:
    """Print a table with one line per figure; an experiment's has its references and rules."""
    if any(one.reference or one.within for one in measurements):
        _print_experiment(console, name, measurements)
        return
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


def _print_experiment(console: Console, name: str, measurements: Sequence[Measurement]) -> None:
    table = Table(title=name, title_justify="left", box=None, pad_edge=False)
    for heading in ("figure", "measured", "published or expected", "rule", ""):
        table.add_column(heading, justify="right" if heading == "measured" else "left")
    for one in measurements:
        table.add_row(one.name, f"{figure(one.measured)} {one.unit}", one.reference, rule(one), result(one))
    console.print(table)


def rule(one: Measurement) -> str:
    """The rule that decides on a figure: `≥ 5`, `2.5 to 3.1`; empty if none does."""
    if one.within is not None:
        return f"{figure(one.within[0])} to {figure(one.within[1])}"
    return bar(one, one.must)


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
