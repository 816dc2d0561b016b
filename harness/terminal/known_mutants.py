"""Refuse a `--mutant` that is not registered, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable

from squall.harness.errors import UsageError
from squall.harness.yaml_source import suggestion
from squall.nodes.mutants import MUTANTS


def refuse_unknown_mutants(names: Iterable[str]) -> None:
    """Raise UsageError for the first name that no mutant has; the message suggests the nearest one."""
    for name in names:
        if name not in MUTANTS:
            raise UsageError(
                f"--mutant {name}: there is no mutant of that name{suggestion(name, MUTANTS)}",
                remedy="squall mutants lists them",
            )
