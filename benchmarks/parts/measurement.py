"""What a benchmark returns: figures and the bars they are compared with.

A benchmark is a module of this folder with `run() -> Iterable[Measurement]`. `squall bench NAME` prints each figure
beside its *must* and *stretch* bars, and fails where a *must* is missed. A benchmark that takes minutes yields each
figure when it is known, so that an interruption loses none of them. The first line of the module's docstring is its
description in `squall bench`.

Experiments (`benchmarks/experiments`) compare with a figure of their source, or one expected before the experiment, and
may be wrong on either side: `within` is their rule.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """The same figure of another system: measured beside ours, or published by its authors."""

    name: str
    value: float


JEPSEN_INTERPRETER = Peer("Jepsen, published", 20_000)
"""Operations a second: "realistic generator tests yield rates over 20,000 operations/sec", jepsen.generator."""
JEPSEN_CHECKERS = Peer("Jepsen, published", 900_000)
"""Operations a second: the upper end of "250,000 to 900,000", Kingsbury on histories of 10⁹ operations, 2023."""
ELLE = Peer("Elle, published", 160_000)
"""List-append transactions a second: the upper end of what Elle's README states."""


@dataclass(frozen=True)
class Measurement:
    """One figure. `samples` are the raw values behind it, kept in the JSON output (HX-16)."""

    name: str
    measured: float
    unit: str
    must: float | None = None
    stretch: float | None = None
    higher_is_better: bool = True
    samples: tuple[float, ...] = ()
    peer: Peer | None = None
    reference: str = ""
    """The figure of the source, or an expected one, and which of the two it is."""
    within: tuple[float, float] | None = None
    """The range that the figure must lie in."""

    @property
    def passed(self) -> bool:
        """Whether the *must* is reached and the range kept; a figure without either always passes."""
        if self.within is not None and not self.within[0] <= self.measured <= self.within[1]:
            return False
        return self.must is None or self._reaches(self.must)

    @property
    def stretched(self) -> bool:
        return self.stretch is not None and self._reaches(self.stretch)

    def _reaches(self, bar: float) -> bool:
        return self.measured >= bar if self.higher_is_better else self.measured <= bar
