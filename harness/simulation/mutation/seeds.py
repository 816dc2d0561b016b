"""What a worker is asked for and what it answers: data that both sides of the pipe share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loaded:
    """What a worker runs: the healthy nodes, the nodes with one module replaced, or the nodes with probes."""

    module: str = ""
    source: str = ""
    probed: bool = False


@dataclass(frozen=True)
class SeedRun:
    """One seed to run: with or without observer, with at most so many seconds of processor time."""

    scenario: str
    seed: int
    limit_s: float
    observed: bool = True


@dataclass(frozen=True)
class SeedOutcome:
    """How a seed ended. `seconds` is processor time; `reached` is empty unless there are probes."""

    scenario: str
    seed: int
    verdict: str
    broken: tuple[str, ...]
    digest: str
    seconds: float
    problem: str = ""
    by_observer: bool = False
    """Whether the run ended at a breach during the run, which an observer saw."""
    reached: dict[str, str] | None = None

    @property
    def valid(self) -> bool:
        return self.verdict == "valid"
