"""Keep the runs that showed something new, in memory and in a directory that several explorers may share.

Each kept run is one file of a recipe and its features with the instants of their first showing. A file's name is the
hash of the recipe, and files are put in place by a rename: explorers at work at once write different files, or the same
content.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from squall.harness.simulation.run.recipe import Recipe, parse_recipe, recipe_text


@dataclass(frozen=True)
class Kept:
    """A recipe that showed something new, with the instant at which each feature first showed."""

    recipe: Recipe
    first: Mapping[str, int]


class Corpus:
    """The kept runs, and how many runs have shown each feature. `directory` None keeps nothing on disk."""

    def __init__(self, directory: Path | None = None) -> None:
        self.kept: list[Kept] = []
        self.seen: dict[str, int] = {}
        self._directory = directory
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            for path in sorted(directory.glob("*.run.json")):
                kept = _read(path)
                self.kept.append(kept)
                self._count(kept.first)

    def add(self, recipe: Recipe, first: Mapping[str, int]) -> int:
        """Count a run's features; keep the run if some are new. Return how many were."""
        new = self._count(first)
        if new:
            kept = Kept(recipe, dict(first))
            self.kept.append(kept)
            if self._directory is not None:
                _write(self._directory, kept)
        return new

    def _count(self, first: Mapping[str, int]) -> int:
        new = 0
        for feature in first:
            number = self.seen.get(feature, 0)
            new += number == 0
            self.seen[feature] = number + 1
        return new


def _write(directory: Path, kept: Kept) -> None:
    recipe = kept.recipe
    text = recipe_text(recipe.seed, recipe.kinds, recipe.continuations)
    name = hashlib.sha256(str(recipe).encode()).hexdigest()[:24]
    content = {"scenario": recipe.scenario, "recipe": text, "first": kept.first}
    partial = directory / f"{name}.{os.getpid()}.partial"
    partial.write_text(json.dumps(content))
    partial.replace(directory / f"{name}.run.json")


def _read(path: Path) -> Kept:
    content = json.loads(path.read_text())
    return Kept(parse_recipe(content["scenario"], content["recipe"]), content["first"])
