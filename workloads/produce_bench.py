"""Workload `produce-bench`: measure the latency of sends at a given rate, from when they were meant to start.

An open loop: sends are due by the clock, evenly or at random (a Poisson process, as independent users produce), and
none waits for the response to another. While the system stalls they queue up, keep the time at which they were due, and
are sent as soon as a process is free; none is dropped, however long the stall. So the intended latency is free of
coordinated omission. The service latency, from the actual start, is reported beside it (`latency.py`): the difference
is what a closed loop would have hidden.

A send that was due but not begun when the load ended has no latency. Such sends are counted; while there are any, the
quantiles cover only the others and the report says so.

In every other respect it is the workload `log` without consumers: values are unique, markers and final reads follow,
and the history is checked like any other. A fast cluster that loses records is not fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from squall.workloads.clients.kits import Library
from squall.workloads.core.generator import Generator, Rate, Stagger
from squall.workloads.core.latency import SendLatencies
from squall.workloads.log import LogOptions, LogWorkload, PerSecond

FOR_EVER: Final = 2**62
"""How long a due send may wait for a free process, in nanoseconds."""

QUANTILES: Final = (0.5, 0.99, 0.999, 1.0)


class ProduceBenchOptions(BaseModel):
    """Options of the workload `produce-bench` in a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Literal["produce-bench"]
    client: Library = Field(default="confluent", description="the library of the clients on hosts")
    producers: int = Field(default=2, ge=1, le=64, description="producing clients")
    rate: PerSecond = Field(default=1000.0, description="sends per second over all producers, e.g. 2000/s")
    arrivals: Literal["even", "poisson"] = Field(default="even", description="how sends are spread in time")
    acks: Literal["all", "1", "0"] = Field(default="all", description="acknowledgements the producers ask for")
    idempotent: bool = Field(default=True, description="idempotent producers; needs acks: all")
    record_size: int = Field(default=100, ge=16, le=900_000, description="bytes of a record's value")
    in_flight: int = Field(default=100, ge=1, le=1000, description="processes of one producer per topic-partition")
    final_timeout: float = Field(default=60.0, gt=0, description="seconds the final reads may take")

    @property
    def operations(self) -> None:
        """None: the operations are generated, not listed."""

    @property
    def in_words(self) -> str:
        return f"{self.as_log().in_words}, open loop, {self.arrivals}"

    def as_log(self) -> LogOptions:
        """The same load as options of the workload `log`."""
        return LogOptions(
            client=self.client,
            producers=self.producers,
            consumers=0,
            rate=self.rate,
            record_size=self.record_size,
            in_flight=self.in_flight,
            final_timeout=self.final_timeout,
            acks=self.acks,
            idempotent=self.idempotent,
        )


@dataclass(frozen=True)
class ProduceBenchWorkload(LogWorkload):
    """Sends that are due by the clock only."""

    arrivals: Literal["even", "poisson"] = "even"

    def paced(self, rate: float, lane: int, writes: Generator) -> Generator:
        """Each lane has different random arrivals, so that together they are a Poisson process as well."""
        if self.arrivals == "poisson":
            return Stagger(1.0 / rate, lane, writes)
        return Rate(rate, writes, patience=FOR_EVER)


@dataclass(frozen=True)
class BenchResult:
    """The result, over all workers."""

    intended_rate: float
    seconds: float
    latencies: SendLatencies

    @property
    def due(self) -> int:
        """How many sends were due in the load's time."""
        return int(self.intended_rate * self.seconds)

    @property
    def never_begun(self) -> int:
        """How many of them still waited for a free process when the load ended; one per process is normal."""
        return max(0, self.due - self.latencies.begun)

    def lines(self) -> list[str]:
        """The report's lines: rates, and both latencies side by side."""
        acknowledged = self.latencies.intended.count
        lines = [
            f"due {self.due:,} · begun {self.latencies.begun:,} · acknowledged {acknowledged:,}"
            f" ({acknowledged / self.seconds:,.0f}/s of {self.intended_rate:,.0f}/s)".replace(",", " ")
        ]
        for name, one in (("intended", self.latencies.intended), ("service", self.latencies.service)):
            told = [(share, one.quantile(share)) for share in QUANTILES]
            words = [f"{_name(share)} {value / 1e6:.2f} ms" for share, value in told if value is not None]
            lines.append(f"{name:<9} latency  {' · '.join(words) or 'nothing was acknowledged'}")
        if self.never_begun > 0.01 * self.due:
            lines.append(
                f"{self.never_begun} sends were due and never begun: the system could not keep up, and"
                " these latencies are of the sends that had their turn"
            )
        return lines

    def to_json(self) -> dict[str, object]:
        """All figures as JSON; latencies in milliseconds."""
        return {
            "intended_rate": self.intended_rate,
            "seconds": self.seconds,
            "due": self.due,
            "begun": self.latencies.begun,
            "acknowledged": self.latencies.intended.count,
            "never_begun": self.never_begun,
            "latency_ms": {
                name: {_name(share): _milliseconds(one.quantile(share)) for share in QUANTILES}
                for name, one in (("intended", self.latencies.intended), ("service", self.latencies.service))
            },
        }


def _name(share: float) -> str:
    """`p99.9`; 1 is the maximum."""
    return "max" if share == 1.0 else f"p{share * 100:g}"


def _milliseconds(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e6
