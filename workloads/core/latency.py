"""Count latencies in classes: in each load worker, sent to the control process as JSON, and added up there.

Every acknowledged send has two latencies. *Intended* counts from when it was meant to start, *service* from when it
did. An open-loop generator does not wait for a slow system, so what was due during a stall starts late; only the
intended latency includes that wait. A much lower service latency is the coordinated omission that closed-loop
benchmarks print as their result.

A class is one per cent wide: class c holds what takes at most 1000 * 1.01^c nanoseconds, and longer than class c - 1. A
quantile is the upper end of its class: never too low, and at most one per cent too high. Classes of several workers add
up without loss. The checker counts in the same classes (`results/checkers/kernels/series.py`), so a history yields
exactly the quantiles reported at the end of its load.

Not hdrhistogram: its Python package records one value a call, and the checker counts ten million latencies in compiled
loops; both must have the same edges.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import ceil

from squall.workloads.core.operation import OK, SEND, Event

CLASS_RATIO = 1.01
SMALLEST_NS = 1_000
LONGEST_NS = 1 << 62


@cache
def class_edges() -> tuple[int, ...]:
    """The longest latency of each class, in ns."""
    edges = [SMALLEST_NS]
    while (edge := int(SMALLEST_NS * CLASS_RATIO ** len(edges))) < LONGEST_NS:
        edges.append(edge)
    return tuple(edges)


def latency_class(nanoseconds: int) -> int:
    """The class of a latency: the first whose edge it does not exceed."""
    return bisect_left(class_edges(), nanoseconds)


def upper_end(number: int) -> float:
    """The upper end of a class, in ns."""
    return float(class_edges()[number])


@dataclass
class Latencies:
    """The number of latencies in each class."""

    classes: Counter[int] = field(default_factory=Counter)

    def note(self, nanoseconds: int) -> None:
        self.classes[latency_class(nanoseconds)] += 1

    def add(self, other: Latencies) -> None:
        self.classes.update(other.classes)

    @property
    def count(self) -> int:
        return self.classes.total()

    def quantile(self, share: float) -> float | None:
        """The latency, in ns, that this share of all latencies does not exceed; None if there are none."""
        wanted, seen = max(1, ceil(self.count * share)), 0
        for number in sorted(self.classes):
            seen += self.classes[number]
            if seen >= wanted:
                return upper_end(number)
        return None

    def to_json(self) -> dict[str, int]:
        return {str(number): count for number, count in self.classes.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, int]) -> Latencies:
        return cls(Counter({int(number): count for number, count in data.items()}))


@dataclass
class SendLatencies:
    """Both latencies of all acknowledged sends, and how many sends were begun in all."""

    intended: Latencies = field(default_factory=Latencies)
    service: Latencies = field(default_factory=Latencies)
    begun: int = 0

    def note(self, event: Event) -> None:
        """Count an invocation or a completion from the interpreter."""
        if event.operation.f != SEND:
            return
        if event.completion is None:
            self.begun += 1
        elif event.completion.type == OK and event.completed is not None:
            self.intended.note(event.completed - event.operation.at)
            self.service.note(event.completed - event.invoked)

    def add(self, other: SendLatencies) -> None:
        self.intended.add(other.intended)
        self.service.add(other.service)
        self.begun += other.begun

    def to_json(self) -> dict[str, object]:
        return {"intended": self.intended.to_json(), "service": self.service.to_json(), "begun": self.begun}

    @classmethod
    def from_json(cls, data: Mapping[str, dict[str, int] | int]) -> SendLatencies:
        intended, service, begun = data["intended"], data["service"], data["begun"]
        assert isinstance(intended, Mapping) and isinstance(service, Mapping) and isinstance(begun, int)
        return cls(Latencies.from_json(intended), Latencies.from_json(service), begun)
