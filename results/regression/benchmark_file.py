"""Read the file that `squall bench NAME --json FILE` writes, as a sample of repetitions.

One file is a sample of its repetitions, which one process made one after the other. Several files of one benchmark are
a sample of processes, one figure each: use them if the sides were measured in turns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Final

import msgspec

from squall.results.history.manifest import CANARIES
from squall.results.lake.figure_names import figure_names
from squall.results.regression.metrics import Metric
from squall.results.regression.sample import Figures, Sample

FACTS: Final = ("system", "processors", "memory")


class NoBenchmark(Exception):
    """A file is not what `squall bench` writes. The message names the file, what is wrong and what would be right."""


class _Measurement(msgspec.Struct, frozen=True):
    name: str
    measured: float
    unit: str
    higher_is_better: bool = True
    samples: tuple[float, ...] = ()


class _BenchmarkFile(msgspec.Struct, frozen=True):
    benchmark: str
    measurements: tuple[_Measurement, ...]
    interrupted: bool = False
    machine: dict[str, str] = {}
    versions: dict[str, str] = {}


def benchmark_sample(name: str, paths: Sequence[Path]) -> Sample:
    """Return the sample of one file, or of several of equal benchmarks. Raises NoBenchmark."""
    files = [(path, _loaded(path)) for path in paths]
    notes = [f"{path.name} was interrupted: figures are missing" for path, one in files if one.interrupted]
    if len(files) == 1 and any(len(one.samples) > 1 for one in files[0][1].measurements):
        notes.append("its repetitions share one process and its time; several files, measured in turns, say more")
    values: dict[tuple[str, str], list[float]] = {}
    metrics: dict[tuple[str, str], Metric] = {}
    for path, file in files:
        names = figure_names([one.name for one in file.measurements])
        for figure, one in zip(names, file.measurements, strict=True):
            samples = [value for value in one.samples or (one.measured,) if isfinite(value) and value >= 0]
            key = file.benchmark, figure
            metric = Metric(figure, figure, one.unit, one.higher_is_better, required=True)
            if metrics.setdefault(key, metric) != metric:
                raise NoBenchmark(
                    f"{path}: {figure}: is in {one.unit}, in another file it is not; compare like with like"
                )
            values.setdefault(key, []).extend(samples if len(files) == 1 else [one.measured])
    return Sample(
        name,
        repetitions={key: Figures(metrics[key], tuple(some)) for key, some in values.items() if some},
        machines=frozenset(_fingerprint(one.machine) for _, one in files if one.machine),
        canaries=_canaries([one.machine for _, one in files]),
        commits=tuple(sorted({one.versions["commit"] for _, one in files if one.versions.get("commit")})),
        notes=tuple(notes),
    )


def _loaded(path: Path) -> _BenchmarkFile:
    remedy = "write one with squall bench NAME --json FILE"
    try:
        return msgspec.json.decode(path.read_bytes(), type=_BenchmarkFile)
    except OSError as trouble:
        raise NoBenchmark(f"{path}: cannot be read: {trouble.strerror}") from trouble
    except msgspec.ValidationError as trouble:
        raise NoBenchmark(f"{path}: is not the result of a benchmark: {trouble}; {remedy}") from trouble
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise NoBenchmark(f"{path}: is not JSON: {trouble}; {remedy}") from trouble


def _fingerprint(machine: Mapping[str, str]) -> str:
    """Return the fingerprint that the lake gives this machine."""
    return hashlib.sha256("\n".join(machine.get(name, "") for name in FACTS).encode()).hexdigest()[:12]


def _canaries(machines: Sequence[Mapping[str, str]]) -> dict[str, tuple[float, ...]]:
    found: dict[str, tuple[float, ...]] = {}
    for name in CANARIES:
        values = []
        for one in machines:
            try:
                values.append(float(one.get(name, "")))
            except ValueError:
                continue
        found[name] = tuple(value for value in values if isfinite(value))
    return found
