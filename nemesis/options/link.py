"""Options of link faults: links that are slow, lossy or narrow, or damage packets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from squall.nemesis.core.durations import Seconds
from squall.nemesis.core.rates import ByteRate
from squall.nemesis.options.base import FaultOptions, Options, Target


class _Link(FaultOptions):
    """Traffic between the target and `to` (by default all hosts, including clients)."""

    target: Target
    peers: Target | None = Field(default=None, alias="to")
    direction: Literal["both", "out", "in"] = "both"


class SlowLink(_Link):
    """Delays messages by `latency` plus up to `jitter`; a share `loss` of them arrives only after retransmission.

    The jitter's mean is half of it, whatever its `distribution`; that of `normal` and `pareto` may exceed it.
    """

    fault: Literal["slow-link"]
    latency: Seconds = Field(default=0.1, ge=0)
    jitter: Seconds = Field(default=0.0, ge=0)
    distribution: Literal["uniform", "normal", "pareto"] = "uniform"
    loss: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _changes_something(self) -> SlowLink:
        if self.latency == 0 and self.jitter == 0 and self.loss == 0:
            raise ValueError("changes nothing: `latency`, `jitter` and `loss` are 0; give at least one")
        return self


class Bandwidth(_Link):
    """Limits each direction to `rate` separately; excess traffic is queued."""

    fault: Literal["bandwidth"]
    rate: ByteRate = 65_536


class Burst(Options):
    """At each packet a good link turns bad with the probability `enter`, a bad one turns good with `leave`; bad, it
    loses all packets.
    """

    enter: float = Field(default=0.02, gt=0, le=1)
    leave: float = Field(default=0.25, gt=0, lt=1)


class BadLink(_Link):
    """Duplicates (`duplicate`), damages (`corrupt`), reorders (`reorder`) or loses (`burst`) a share of the packets.

    A share `reorder` of them is held back by `late`, so that others overtake them.
    """

    fault: Literal["bad-link"]
    duplicate: float = Field(default=0.0, ge=0, le=1)
    corrupt: float = Field(default=0.0, ge=0, lt=1)
    reorder: float = Field(default=0.0, ge=0, lt=1)
    late: Seconds = Field(default=0.01, gt=0)
    burst: Burst | None = None

    @model_validator(mode="after")
    def _spoils_something(self) -> BadLink:
        if not (self.duplicate or self.corrupt or self.reorder or self.burst):
            raise ValueError("changes nothing; give at least one of `duplicate`, `corrupt`, `reorder` and `burst`")
        return self
