"""Plugins: faults, workloads, checks and systems of installed packages, found by their entry points.

    [project.entry-points."squall.faults"]
    full-inodes = "squall_full_inodes:FAULT"

The name before `=` is the one that suites use; it is read without importing the package. The object behind it is
imported when a suite names it, so that a package that is broken breaks only the suites that need it. What is wrong is
reported with the package, the entry point, and what would be right.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

FAULTS: Final = "squall.faults"
WORKLOADS: Final = "squall.workloads"
CHECKS: Final = "squall.checks"
SYSTEMS: Final = "squall.systems"

EntryPoints = Callable[[str], Iterable[importlib.metadata.EntryPoint]]


def installed(group: str) -> Iterable[importlib.metadata.EntryPoint]:
    """The entry points of a group, of all packages that this Python finds."""
    return importlib.metadata.entry_points(group=group)


class PluginError(ValueError):
    """A plugin cannot be used; the message names its package and entry point, and says what would be right."""


@dataclass(frozen=True)
class Plugins:
    """The plugins of one group. `taken` are the names that Squall itself uses.

    `wrong_with` says why a loaded object is not what the group needs, as the end of a sentence that begins with its
    entry point; None if nothing is wrong. `wanted` says what an entry point of the group must name.
    """

    group: str
    taken: Collection[str]
    wanted: str
    wrong_with: Callable[[str, Any], str | None]
    entry_points: EntryPoints = installed
    _loaded: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def _found(self) -> Mapping[str, tuple[importlib.metadata.EntryPoint, ...]]:
        found: dict[str, tuple[importlib.metadata.EntryPoint, ...]] = {}
        for point in self.entry_points(self.group):
            found[point.name] = (*found.get(point.name, ()), point)
        return dict(sorted(found.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all plugins, whether or not they can be loaded."""
        return tuple(self._found)

    def origin(self, name: str) -> str:
        """The package that provides a plugin, with its version."""
        return " and ".join(_package(point) for point in self._found.get(name, ()))

    def entry_point(self, name: str) -> importlib.metadata.EntryPoint | None:
        """The entry point of a plugin; None if no package has one of that name."""
        return next(iter(self._found.get(name, ())), None)

    def load(self, name: str) -> Any:
        """Import a plugin. Raises PluginError."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def problem(self, name: str) -> str:
        """Why a plugin cannot be used; empty if it can."""
        try:
            self.load(name)
        except PluginError as wrong:
            return str(wrong)
        return ""

    def _load(self, name: str) -> Any:
        point, *others = self._found[name]
        if name in self.taken:
            raise self._error(point, f"takes the name {name}, which Squall uses itself", "choose another name there")
        if others:
            packages = ", ".join(_package(one) for one in (point, *others))
            raise self._error(point, f"has a name that {packages} all provide", "keep one of these packages installed")
        try:
            made = point.load()
        except Exception as trouble:
            problem = f"cannot be imported: {type(trouble).__name__}: {trouble}"
            raise self._error(point, problem, f"the entry point must name {self.wanted}") from trouble
        wrong = self.wrong_with(name, made)
        if wrong is not None:
            raise self._error(point, wrong, f"it must name {self.wanted}")
        return made

    def _error(self, point: importlib.metadata.EntryPoint, problem: str, right: str) -> PluginError:
        where = f"package {_package(point)}, entry point {self.group}: {point.name} = {point.value}"
        return PluginError(f"{where}: {problem}; {right}")


def _package(point: importlib.metadata.EntryPoint) -> str:
    """`squall-full-inodes 0.1`"""
    return "of an unknown name" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def modules_missing(distribution: importlib.metadata.Distribution, value: str) -> bool:
    """Whether the module of an entry point is not among the files of its package, as after an editable installation."""
    top = value.partition(":")[0].split(".")[0]
    files = (path.as_posix() for path in distribution.files or ())
    return not any(path == f"{top}.py" or path.startswith(f"{top}/") for path in files)


def requirements(distribution: importlib.metadata.Distribution) -> tuple[str, ...]:
    """The packages that a package needs, and those that these need, except Squall; without extras."""
    found: dict[str, None] = {}
    waiting = [distribution]
    while waiting:
        for text in waiting.pop().requires or ():
            name = re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]
            if "extra ==" in text or name in found or name == "squall":
                continue
            found[name] = None
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # a marker excludes it here
                waiting.append(importlib.metadata.distribution(name))
    return tuple(found)
