"""Keep the seeds that showed something new, in memory and in a directory that several explorers may share.

Each kept seed is one file, with all features that it showed. A file's name is a hash of scenario and seed, and files
are put in place by a rename: explorers at work at once write different files, or the same content.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kept:
    """A seed of a scenario that showed something new, with all features that it showed."""

    scenario: str
    seed: int
    features: frozenset[str]


class Corpus:
    """The kept seeds, and how many seeds have shown each feature. `directory` None keeps nothing on disk."""

    def __init__(self, directory: Path | None = None) -> None:
        self.kept: list[Kept] = []
        self.seen: dict[str, int] = {}
        self._directory = directory
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            for path in sorted(directory.glob("*.seed.json")):
                kept = _read(path)
                self.kept.append(kept)
                self._count(kept.features)

    def add(self, scenario: str, seed: int, features: Set[str]) -> int:
        """Count what a seed showed; keep the seed if some of it is new. Return how much was."""
        new = self._count(features)
        if new:
            kept = Kept(scenario, seed, frozenset(features))
            self.kept.append(kept)
            if self._directory is not None:
                _write(self._directory, kept)
        return new

    def _count(self, features: Set[str]) -> int:
        new = 0
        for feature in features:
            number = self.seen.get(feature, 0)
            new += number == 0
            self.seen[feature] = number + 1
        return new


def _write(directory: Path, kept: Kept) -> None:
    content = {"scenario": kept.scenario, "seed": kept.seed, "features": sorted(kept.features)}
    name = hashlib.sha256(f"{kept.scenario} {kept.seed}".encode()).hexdigest()[:24]
    partial = directory / f"{name}.{os.getpid()}.partial"
    partial.write_text(json.dumps(content))
    partial.replace(directory / f"{name}.seed.json")


def _read(path: Path) -> Kept:
    content = json.loads(path.read_text())
    return Kept(content["scenario"], content["seed"], frozenset(content["features"]))
