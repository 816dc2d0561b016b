"""Checks of installed packages: how a package declares one.

A package declares a `Check` and names it by an entry point of the group `squall.checks`; the harness finds these and
hands them over (`plug_in`). A check of a package is carried out only for runs whose suite names it. It receives the
whole history of the run and returns an `Outcome`; docs/writing-a-check.md has an example.

A violation that it reports makes a verdict invalid, like that of any other check. Whatever keeps it from a result makes
the verdict unknown: the package is missing or cannot be imported, the check raises an exception, it reports an anomaly
that it does not declare, or there is no time left for it. `plugin_checks.py` carries them out. Ours are declared in the
same way (`common/check.py`) and listed in `registry.py`.
"""

from __future__ import annotations

from typing import Any, Protocol

from squall.results.checkers.anomalies import ANOMALIES, Anomaly
from squall.results.checkers.common.check import Check, Outcome, Proof

__all__ = ["Check", "Outcome", "Plugins", "Proof", "plug_in", "plugins", "wrong_with_check"]


class Plugins(Protocol):
    """What installed packages add here, by name."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all plugins, whether or not they can be loaded."""
        ...

    def load(self, name: str) -> Any:
        """Import a plugin. Raises ValueError, which names its package and says what would be right."""
        ...

    def origin(self, name: str) -> str:
        """The package that provides a plugin, with its version."""
        ...


class NoPlugins:
    """No package adds anything."""

    names: tuple[str, ...] = ()

    def load(self, name: str) -> Any:
        raise ValueError(f"no installed package provides {name}")

    def origin(self, name: str) -> str:
        return ""


_plugins: Plugins = NoPlugins()


def plug_in(plugins: Plugins) -> None:
    """Use the checks of these packages beside those of this one."""
    global _plugins
    _plugins = plugins


def plugins() -> Plugins:
    """The checks of installed packages."""
    return _plugins


def wrong_with_check(name: str, made: Any) -> str | None:
    """Why an object is not the declaration of a check; None if it is."""
    if not isinstance(made, Check):
        return f"names {made!r}, which is no Check"
    if not all(isinstance(one, Anomaly) for one in made.anomalies):
        return "names a Check whose anomalies are not all of the class Anomaly"
    taken = [one.name for one in made.anomalies if one.name in ANOMALIES]
    return f"names a Check with the anomaly {taken[0]}, a name that Squall uses itself" if taken else None
