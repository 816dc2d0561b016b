"""Read the list of scenarios in quarantine: a YAML file, or the file of a night, with `quarantine:`.

quarantine:
  - {scenario: pause-clock, owner: ann, reason: "clock of host b3", until: 2026-12-24}
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from squall.harness.yaml_source import load_yaml
from squall.results.trends.quarantine import QuarantineEntry

KEY = "quarantine"


class Quarantined(BaseModel):
    """A scenario whose flakes do not fail a night, up to and including the day `until`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scenario: str = Field(min_length=1)
    owner: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    until: date


def load_quarantine(path: Path) -> tuple[QuarantineEntry, ...]:
    """Load the entries of a file. Raises UsageError naming the line and the field."""
    source = load_yaml(path)
    if not isinstance(source.data, Mapping) or not isinstance(source.data.get(KEY), list):
        raise source.error((), f"has no list `{KEY}`", remedy="entries have scenario, owner, reason and until")
    entries = []
    for number, one in enumerate(source.data[KEY]):
        try:
            entry = TypeAdapter(Quarantined).validate_python(one)
        except ValidationError as invalid:
            raise source.explain(invalid, Quarantined, one, (KEY, number)) from None
        entries.append(QuarantineEntry(entry.scenario, entry.owner, entry.reason, entry.until))
    return tuple(entries)
