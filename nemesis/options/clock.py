"""Wall clocks that are wrong."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from squall.nemesis.durations import Seconds
from squall.nemesis.options.base import Target, Timed


class Clock(Timed):
    """The wall clock jumps by `offset` and then runs at `rate`; monotonic time is untouched."""

    fault: Literal["clock"]
    target: Target
    offset: Seconds = 3600.0
    rate: float = Field(default=1.0, gt=0, le=100)

    @model_validator(mode="after")
    def _changes_something(self) -> Clock:
        if self.offset == 0 and self.rate == 1.0:
            raise ValueError("an offset of 0 s at rate 1 leaves the clock as it is; give `offset` or `rate`")
        return self


ClockFault = Clock
