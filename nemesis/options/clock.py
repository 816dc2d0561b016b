"""Options of clock faults."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from squall.nemesis.core.durations import Duration, Seconds
from squall.nemesis.options.base import FaultOptions, Target

LONGEST_PERIOD = 0.5
SHORTEST_PERIOD = 0.005


def _as_text(moment: Any) -> Any:
    """YAML parses text that looks like a time as a datetime: convert it back."""
    return moment.isoformat() if isinstance(moment, datetime) else moment


def _moment(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be an ISO 8601 time such as 2038-01-19T03:14:07Z") from None
    return text


Moment = Annotated[str, BeforeValidator(_as_text), AfterValidator(_moment)]


def seconds_of(moment: str) -> float:
    """A time in seconds since 1970; in UTC unless it has another zone."""
    parsed = datetime.fromisoformat(moment)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def _often_enough(seconds: float) -> float:
    if not SHORTEST_PERIOD <= seconds <= LONGEST_PERIOD:
        raise ValueError(f"must be from {SHORTEST_PERIOD:g} s to {LONGEST_PERIOD:g} s")
    return seconds


class ClockSkew(FaultOptions):
    """Sets the wall clock forward by `offset`, or to `time`, and runs it at `rate`; monotonic time is unchanged."""

    fault: Literal["clock"]
    target: Target
    offset: Seconds = 3600.0
    time: Moment | None = None
    rate: float = Field(default=1.0, gt=0, le=100)

    @model_validator(mode="after")
    def _changes_something(self) -> ClockSkew:
        if self.time is not None and "offset" in self.model_fields_set:
            raise ValueError("`offset` and `time` both set the clock; give only one")
        if self.time is None and self.offset == 0 and self.rate == 1.0:
            raise ValueError("an offset of 0 s at rate 1 does not change the clock; give `offset` or `rate`")
        return self


class ClockStrobe(FaultOptions):
    """Moves the wall clock by `offset` and back, once per `every`; monotonic time is unchanged."""

    fault: Literal["clock-strobe"]
    target: Target
    offset: Seconds = 3600.0
    every: Annotated[Duration, AfterValidator(_often_enough)] = 0.1

    @model_validator(mode="after")
    def _changes_something(self) -> ClockStrobe:
        if abs(self.offset) < 0.01:
            raise ValueError("`offset` must be at least 10 ms (either sign): a smaller one cannot be detected")
        return self


class ClockFreeze(FaultOptions):
    """Stops the wall clock, at `time` if given; monotonic time continues."""

    fault: Literal["clock-freeze"]
    target: Target
    time: Moment | None = None


class ClockMonotonic(FaultOptions):
    """Moves the monotonic clock ahead by `offset` and runs it at `rate`; the wall clock is unchanged.

    It never goes back: at the end it runs at the true rate again and keeps its lead.
    """

    fault: Literal["clock-monotonic"]
    target: Target
    offset: Seconds = Field(default=0.0, ge=0)
    rate: float = Field(default=1.5, ge=0.1, le=100)

    @model_validator(mode="after")
    def _changes_something(self) -> ClockMonotonic:
        if self.offset == 0 and self.rate == 1.0:
            raise ValueError("an offset of 0 s at rate 1 does not change the clock; give `offset` or `rate`")
        return self
