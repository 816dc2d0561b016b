"""Entries of the gallery with some fields changed."""

from __future__ import annotations

from pathlib import Path

import yaml

from squall.harness.scenario.suites import SHIPPED


def edited(entry: str, tmp_path: Path, **changes: object) -> Path:
    """A copy of a shipped entry with some fields changed; a dotted name (`__`) reaches into a mapping."""
    data = yaml.safe_load((SHIPPED / "gallery" / f"{entry}.yaml").read_text())
    for name, value in changes.items():
        *path, last = name.split("__")
        inside = data
        for part in path:
            inside = inside[part]
        inside[last] = value
    file = tmp_path / f"{entry}.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file
