"""Every experiment of the sources, one after the other; docs/experiments.md has the figures and charts."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType

import squall.benchmarks as benchmarks
import squall.benchmarks.experiments as experiments
from squall.benchmarks.parts.measurement import Measurement

OF = " · "
"""Between the name of an experiment and that of a figure of it."""
LONG = ("two_million",)
"""Benchmarks of the sources that measure other systems as well and take minutes; the short form leaves them out."""


def modules() -> dict[str, ModuleType]:
    """The experiments by name, this one excepted."""
    found = [one.name for one in pkgutil.iter_modules(experiments.__path__) if not one.ispkg]
    return {
        name.replace("_", "-"): importlib.import_module(f"{experiments.__name__}.{name}")
        for name in sorted(found)
        if name != "sources"
    }


def long_modules() -> dict[str, ModuleType]:
    """The long benchmarks by name."""
    found = {one.name for one in pkgutil.iter_modules(benchmarks.__path__)}
    return {
        name.replace("_", "-"): importlib.import_module(f"{benchmarks.__name__}.{name}")
        for name in LONG
        if name in found
    }


def run(short: bool = False) -> Iterator[Measurement]:
    """Run all of them; each figure has its experiment's name before its own."""
    for name, module in modules().items():
        for one in module.run(short=short):
            yield replace(one, name=f"{name}{OF}{one.name}")
    for name, module in long_modules().items() if not short else ():
        for one in module.run():
            yield replace(one, name=f"{name}{OF}{one.name}")


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the charts of all of them."""
    drawn: dict[str, str] = {}
    for name, module in modules().items():
        own = [replace(one, name=one.name.split(OF, 1)[1]) for one in measurements if one.name.startswith(name + OF)]
        if own:
            drawn |= module.pictures(own)
    return drawn
