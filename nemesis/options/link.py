"""Links that are slow, lossy or narrow."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from squall.nemesis.durations import Seconds
from squall.nemesis.options.base import Target, Timed
from squall.nemesis.rates import ByteRate


class _Link(Timed):
    """What passes between the target and `to` (everybody, clients too, unless given)."""

    target: Target
    peers: Target | None = Field(default=None, alias="to")
    direction: Literal["both", "out", "in"] = "both"


class SlowLink(_Link):
    """Messages take longer by `latency`, give or take up to `jitter`; `loss` of them only after retransmission."""

    fault: Literal["slow-link"]
    latency: Seconds = Field(default=0.1, ge=0)
    jitter: Seconds = Field(default=0.0, ge=0)
    loss: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _changes_something(self) -> SlowLink:
        if self.latency == 0 and self.jitter == 0 and self.loss == 0:
            raise ValueError("without latency, jitter and loss the link stays as it is; give one of them")
        return self


class Bandwidth(_Link):
    """No more than `rate` gets through, in each direction by itself; the rest queues up."""

    fault: Literal["bandwidth"]
    rate: ByteRate = 65_536


LinkFault = SlowLink | Bandwidth
