"""Whether the machine differs between two samples, so that a difference of their figures may be its own.

Each run records three timings that do not depend on the system under test: the canaries. A canary explains a shift of a
figure if it certainly moved in the same direction, and at least half as far. Samples of different machines explain any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from squall.results.history.manifest import CANARIES
from squall.results.regression.sample import Sample
from squall.results.trends.comparison import Comparison, compare

CANARY_ALPHA: Final = 0.01
"""How often all canaries together may seem to differ on a machine that does not."""
SHARE_EXPLAINED: Final = 0.5


@dataclass(frozen=True)
class MachineChange:
    """The machines of two samples side by side. `same` is None if a machine is not known."""

    same: bool | None
    canaries: Mapping[str, Comparison]

    @property
    def certain(self) -> Mapping[str, Comparison]:
        """The canaries that certainly differ."""
        level = CANARY_ALPHA / max(1, len(self.canaries))
        return {name: one for name, one in self.canaries.items() if one.p <= level}

    def explains(self, slower: bool, relative: float) -> str:
        """Return what of the machine may explain a figure that got slower, or faster, by this share; empty: nothing."""
        if self.same is False:
            return "the machines are not the same"
        for name, one in self.certain.items():
            if (one.shift > 0) == slower and abs(one.relative) >= SHARE_EXPLAINED * abs(relative):
                return f"the machine differs as well: its {CANARIES[name]} by {one.relative:+.1%}"
        return ""

    def text(self) -> str:
        """Describe it in a line."""
        if self.same is False:
            return "not the same on both sides: no difference of figures can be ascribed to the system"
        shown = [f"{CANARIES[name]} {one.relative:+.1%} (p {one.p:.2g})" for name, one in self.canaries.items()]
        words = "not known" if self.same is None else "the same"
        if not shown:
            return f"{words}; no canary figures"
        judged = "some differ" if self.certain else "no difference shown"
        return f"{words}; {', '.join(shown)}: {judged}"


def machine_change(baseline: Sample, candidate: Sample) -> MachineChange:
    """Compare the machines of two samples."""
    both = {
        name: compare(baseline.canaries[name], candidate.canaries[name])
        for name in CANARIES
        if baseline.canaries.get(name) and candidate.canaries.get(name)
    }
    if not baseline.machines or not candidate.machines:
        return MachineChange(None, both)
    return MachineChange(baseline.machines == candidate.machines, both)
