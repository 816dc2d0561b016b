"""How numbers, values and times read in verdicts, reports and on the terminal."""

from __future__ import annotations

from typing import Final

COUNTER_BITS: Final = 40


def grouped(number: int) -> str:
    """20417 as `20 417`."""
    return f"{number:,}".replace(",", " ")


def value_name(value: int) -> str:
    """A value as `4·1093`: the process that sent it and its counter there."""
    if value < 0:
        return "unreadable"
    return f"{value >> COUNTER_BITS}·{value & ((1 << COUNTER_BITS) - 1)}"


def clock(nanoseconds: int | None, origin: int, digits: int = 3) -> str:
    """A time as seconds since the load began: `12.481 s`."""
    if nanoseconds is None:
        return "never"
    seconds = round((nanoseconds - origin) / 1e9, digits)
    return f"{seconds + 0.0 if seconds else 0.0:.{digits}f} s"


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
