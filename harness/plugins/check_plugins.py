"""Checks: the names that a suite may list, and those of installed packages (`squall.checks`), handed to `results`."""

from __future__ import annotations

from squall.harness.plugins.plugins import CHECKS as GROUP
from squall.harness.plugins.plugins import Plugins
from squall.harness.yaml_source import suggestion
from squall.results.checkers.check_plugins import plug_in, wrong_with_check
from squall.results.checkers.registry import KNOWN_CHECKS

CHECKS = KNOWN_CHECKS
"""The checks of Squall itself."""

CHECK_PLUGINS = Plugins(
    GROUP, CHECKS, "a Check of squall.results.checkers.check_plugins (docs/writing-a-check.md)", wrong_with_check
)
plug_in(CHECK_PLUGINS)


def known_check(name: str) -> str:
    """The name, if there is such a check. Raises ValueError."""
    if name in CHECK_PLUGINS.names:
        CHECK_PLUGINS.load(name)
    elif name not in CHECKS:
        raise ValueError(f"is not a check{suggestion(name, (*CHECKS, *CHECK_PLUGINS.names))}")
    return name
