"""Mutants that a person has found to be equivalent: no run can tell them from the healthy nodes.

They are kept in `equivalents.yaml` with the reason, and taken out of the score. An entry names the original and the
replacement as well as the id, so that it ends to hold when the code changes under it. A mutant that something kills is
never taken out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from squall.harness.simulation.mutation.generation.mutation import Mutation

FILE = Path(__file__).with_name("equivalents.yaml")


@dataclass(frozen=True)
class Equivalents:
    """The known equivalent mutants, by id, original and replacement, with the reason."""

    reasons: dict[tuple[str, str, str], str]

    def has(self, mutation: Mutation) -> bool:
        return mutation.change in self.reasons


def load_equivalents(path: Path = FILE) -> Equivalents:
    """Read the file; an entry without a reason is an error."""
    entries = yaml.safe_load(path.read_text()) or []
    reasons = {(one["id"], one["original"], one["replacement"]): one["reason"] for one in entries}
    if not all(isinstance(reason, str) and reason.strip() for reason in reasons.values()):
        raise ValueError(f"{path}: every equivalent mutant needs a reason")
    return Equivalents(reasons)
