"""Format numbers, values and times for verdicts, reports and the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final

COUNTER_BITS: Final = 40
SHARES: Final = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
"""The quantiles that are stated for the latencies of a whole run."""


def grouped(number: int) -> str:
    """20417 as `20 417`."""
    return f"{number:,}".replace(",", " ")


def value_name(value: int) -> str:
    """A value as `4·1093`: the process that sent it and its counter there."""
    if value < 0:
        return "unreadable"
    return f"{value >> COUNTER_BITS}·{value & ((1 << COUNTER_BITS) - 1)}"


def short_value(value: int) -> str:
    """`4·1093` for a value that carries its process, else the number."""
    return value_name(value) if value >> COUNTER_BITS > 0 else str(value)


def clock(nanoseconds: int | None, origin: int, digits: int = 3) -> str:
    """A time as seconds since the load began: `12.481 s`."""
    if nanoseconds is None:
        return "never"
    seconds = round((nanoseconds - origin) / 1e9, digits)
    return f"{seconds + 0.0 if seconds else 0.0:.{digits}f} s"


Clock = Callable[[int | None], str]
"""How a witness writes times."""


def clock_of(times: Iterable[int | None], origin: int) -> Clock:
    """Return a clock with as many digits as it takes to tell some times apart."""
    known = sorted({time for time in times if time is not None})
    closest = min((later - earlier for earlier, later in pairwise(known)), default=10**9)
    digits = 3 if closest >= 1_000_000 else 6 if closest >= 1000 else 9
    return lambda time: clock(time, origin, digits)


def duration(nanoseconds: float) -> str:
    """A length of time with three significant digits: `2.31 s`, `41.2 ms`, `850 µs`."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= size:
            amount = nanoseconds / size
            return f"{amount:.{2 if amount < 10 else 1 if amount < 100 else 0}f} {unit}"
    return f"{nanoseconds:.0f} ns"


def several(number: int, one: str, many: str | None = None) -> str:
    """`1 anomaly`, `2 anomalies`."""
    return f"{grouped(number)} {one if number == 1 else many or one + 's'}"


def listed(names: list[str], most: int = 6) -> str:
    """Some names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def quantile_words(*nanoseconds: float) -> str:
    """The quantiles of `SHARES` as terminal and report show them: `p50 2.31 ms · p99 121 ms · p99.9 1.32 s`."""
    return " · ".join(f"{name} {duration(value)}" for name, value in zip(SHARES, nanoseconds, strict=True))
