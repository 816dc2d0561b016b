"""Faults of installed packages (`squall.faults`), handed to the nemesis's registry."""

from __future__ import annotations

from collections.abc import Iterator

from squall.harness.plugins.plugins import FAULTS, Plugins
from squall.nemesis.entries import COMBINATORS
from squall.nemesis.faults.kind import Kind, wrong_with_kind
from squall.nemesis.registry import FAULT_NAMES, plug_in, plugin_kind

FAULT_PLUGINS = Plugins(
    FAULTS,
    (*FAULT_NAMES, *COMBINATORS),
    "a Kind of squall.nemesis.faults.kind (docs/writing-a-fault.md)",
    wrong_with_kind,
)
plug_in(FAULT_PLUGINS)


def plugin_kinds() -> Iterator[tuple[str, Kind | None, str]]:
    """Every fault of an installed package: its name, its kind (None if it cannot be used), and why it cannot."""
    for name in FAULT_PLUGINS.names:
        problem = FAULT_PLUGINS.problem(name)
        yield name, None if problem else plugin_kind(name), problem
