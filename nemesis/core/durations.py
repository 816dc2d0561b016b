"""Parses durations as people write them (`500ms`, `10s`, `2m`), and draws from ranges of them.

A number without a unit is in seconds. A range is drawn **log-uniformly**: as often between 0.5 and 1 s as between 5 and
10 s. Bugs occur at very different time scales (a lost vote needs a stop of milliseconds, a lost session one of
seconds), and uniform draws miss all the short ones.
"""

from __future__ import annotations

import math
import random
import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

_DURATION = re.compile(r"([+-]?\d+(?:\.\d+)?|[+-]?\.\d+)\s*(ms|s|m|h)?")
_SECONDS_PER = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def parse_seconds(value: object) -> object:
    """Seconds of a number or a text with unit. Raises ValueError, worded to follow the value."""
    if isinstance(value, bool):
        raise ValueError("is not a duration; write 500ms, 10s, 2m or 1h")
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if not match:
            raise ValueError("is not a duration; write 500ms, 10s, 2m or 1h")
        return float(match[1]) * _SECONDS_PER[match[2]]
    return value


def parse_duration(value: object) -> object:
    """As `parse_seconds`, but greater than 0 and finite."""
    seconds = parse_seconds(value)
    if isinstance(seconds, int | float) and not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError("must be longer than 0 s")
    return seconds


def write_seconds(seconds: float) -> str:
    """The shortest usual notation of a duration: 0.5 → 500ms, 10.0 → 10s."""
    if seconds and abs(seconds) < 1:
        return f"{seconds * 1000:g}ms"
    return f"{seconds:g}s"


Seconds = Annotated[
    float, BeforeValidator(parse_seconds, json_schema_input_type=str | float), PlainSerializer(write_seconds)
]
"""A point in time or a signed offset."""

Duration = Annotated[
    float, BeforeValidator(parse_duration, json_schema_input_type=str | float), PlainSerializer(write_seconds)
]
"""A positive length of time."""


class DurationRange(BaseModel):
    """`{from: 500ms, to: 10s}`: a duration drawn log-uniformly for each occurrence."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    shortest: Duration = Field(alias="from")
    longest: Duration = Field(alias="to")

    @model_validator(mode="after")
    def _in_order(self) -> DurationRange:
        if self.shortest > self.longest:
            raise ValueError("`from` must not be longer than `to`")
        return self


def drawn(duration: float | DurationRange, rng: random.Random) -> float:
    """The duration itself, or one drawn from the range; in whole milliseconds, so that schedules are readable."""
    if isinstance(duration, DurationRange):
        low, high = math.log(duration.shortest), math.log(duration.longest)
        duration = math.exp(rng.uniform(low, high))
    return max(0.001, round(duration, 3))


def longest_of(duration: float | DurationRange) -> float:
    return duration.longest if isinstance(duration, DurationRange) else duration
