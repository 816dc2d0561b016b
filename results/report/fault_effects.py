"""State what each fault did to clients: when trouble began, when it was over, and the p99 of sends meanwhile.

    trouble    a bucket in which fewer than half as many sends were acknowledged as usual, or in which the p99 was more
               than three times as high as usual; or an outage of a topic-partition
    usual      the median over the buckets of the load in which no fault held
    of a fault the trouble that was there while it held, from its injection until there was none

Times of buckets are as coarse as these are wide. What cannot be decided is unknown: without series, calm buckets
to compare with, for a fault that was never injected. Where faults overlap, trouble is that of all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from squall.results.checkers.common.text import duration, listed
from squall.results.checkers.kernels.series import Frame, class_nanoseconds
from squall.results.history.segments import FaultWindow
from squall.results.report.tables import LATENCY_BY_TIME, Series

LEAST_RATE: Final = 0.5
MOST_P99: Final = 3.0
LEAST_CALM: Final = 3
"""Fewer buckets without faults are not what is usual."""

Stretch = tuple[float, float]


@dataclass(frozen=True)
class FaultEffect:
    """The effect of one fault, in seconds since the load began. If `trouble` is None that is unknown; `why` says why.

    `recovered` is None if there was still trouble when the load ended. `p99` is that of the sends that were due during
    the trouble, or while the fault held if there was none; None: there were none, or it is unknown.
    """

    trouble: bool | None
    began: float | None = None
    recovered: float | None = None
    p99: float | None = None
    why: str = ""
    beside: tuple[str, ...] = ()
    """Other faults that held at the same time."""

    @property
    def told(self) -> str:
        """The effect in a line."""
        p99 = "" if self.p99 is None else f"p99 {duration(self.p99 * 1e9)}"
        if self.trouble is None:
            return f"unknown: {self.why}"
        if not self.trouble:
            return f"none seen{', ' + p99 if p99 else ''}"
        assert self.began is not None
        until = "not over when the load ended" if self.recovered is None else f"recovered {self.recovered:.1f} s"
        lasted = "" if self.recovered is None else f" ({duration((self.recovered - self.began) * 1e9)})"
        return f"began {self.began:.1f} s → {until}{lasted}{', ' + p99 + ' meanwhile' if p99 else ''}"


def fault_effects(faults: Sequence[FaultWindow], series: Series, frame: Frame) -> list[FaultEffect]:
    """Return the effect of each fault."""
    held = [_held(one, frame) for one in faults]
    found = _troubled(held, series, frame)
    effects = []
    for number, (fault, window) in enumerate(zip(faults, held, strict=True)):
        if window is None:
            effects.append(FaultEffect(None, why="it was never injected"))
        elif isinstance(found, str):
            effects.append(FaultEffect(None, p99=_p99(series, window, frame), why=found))
        else:
            beside = [faults[at].name for at, one in enumerate(held) if at != number and one and _overlap(one, window)]
            effects.append(_effect(window, found, series, frame, tuple(beside)))
        assert fault.injected is not None or effects[-1].trouble is None
    return effects


def beside_words(effect: FaultEffect) -> str:
    """`with kill -9 b1 at the same time`, or nothing."""
    return f"with {listed(list(effect.beside), 3)} at the same time" if effect.beside else ""


def _effect(
    window: Stretch, troubled: Sequence[Stretch], series: Series, frame: Frame, beside: tuple[str, ...]
) -> FaultEffect:
    within = [one for one in troubled if one[0] <= window[1] and one[1] > window[0]]
    if not within:
        return FaultEffect(False, p99=_p99(series, window, frame), beside=beside)
    began, ended = max(window[0], within[0][0]), within[-1][1]
    p99 = _p99(series, (began, ended), frame)
    over = ended < _load_end(frame) - frame.width / 1e9
    return FaultEffect(True, began, ended if over else None, p99, beside=beside)


def _held(fault: FaultWindow, frame: Frame) -> Stretch | None:
    if fault.injected is None:
        return None
    start = (fault.injected - frame.start) / 1e9
    return start, _load_end(frame) if fault.healed is None else (fault.healed - frame.start) / 1e9


def _load_end(frame: Frame) -> float:
    return (frame.end - frame.start) / 1e9


def _overlap(one: Stretch, other: Stretch) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _troubled(held: Sequence[Stretch | None], series: Series, frame: Frame) -> list[Stretch] | str:
    """Return the stretches with trouble, in order and apart; or why that is unknown."""
    width = frame.width / 1e9
    rates = _rates(series, width, _load_end(frame))
    if not rates:
        return "no sends were recorded"
    table = series["latency"]
    seconds, values = (table[name].to_pylist() for name in ("second", "p99"))
    p99s = {round(second / width): value for second, value in zip(seconds, values, strict=True)}
    buckets = {number: (number * width, (number + 1) * width) for number in rates}
    windows = [one for one in held if one is not None]
    calm = [number for number, bucket in buckets.items() if not any(_overlap(bucket, one) for one in windows)]
    usual_rates = [rates[number] for number in calm if rates[number]]
    usual_p99s = [p99s[number] for number in calm if number in p99s]
    if len(usual_rates) < LEAST_CALM or len(usual_p99s) < LEAST_CALM:
        return "there is too little time without faults to compare with"
    rate, p99 = statistics.median(usual_rates), statistics.median(usual_p99s)
    found = [
        buckets[number]
        for number, sends in rates.items()
        if sends < LEAST_RATE * rate or p99s.get(number, 0.0) > MOST_P99 * p99
    ]
    outages = series["outages"]
    found += zip(outages["start"].to_pylist(), outages["end"].to_pylist(), strict=True)
    return list(_joined(sorted(found), width))


def _joined(stretches: Sequence[Stretch], gap: float) -> Iterator[Stretch]:
    """Join stretches that are less than a bucket apart."""
    last: Stretch | None = None
    for one in stretches:
        if last is not None and one[0] < last[1] + gap * 0.999:
            last = last[0], max(last[1], one[1])
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _rates(series: Series, width: float, end: float) -> dict[int, float]:
    """Return how many sends were acknowledged in each whole bucket of the load, those without any included."""
    table = series["throughput"]
    rows = zip(*(table[name].to_pylist() for name in ("second", "f", "type", "operations")), strict=True)
    counted = {round(second / width): number for second, f, kind, number in rows if (f, kind) == ("send", "ok")}
    return {number: counted.get(number, 0) for number in range(int(end / width + 1e-9))} if counted else {}


def _p99(series: Series, window: Stretch, frame: Frame) -> float | None:
    """Return the p99 of the sends that were due in the buckets of a stretch, off the sum of their histograms."""
    if LATENCY_BY_TIME not in series.tables:
        return None
    table, width = series[LATENCY_BY_TIME], frame.width / 1e9
    second = table["second"].to_numpy()
    chosen = (second > window[0] - width) & (second < window[1])
    classes, sends = table["latency_class"].to_numpy()[chosen], table["sends"].to_numpy()[chosen]
    if not len(classes):
        return None
    order = np.argsort(classes, kind="stable")
    reached = np.searchsorted(np.cumsum(sends[order]), np.ceil(0.99 * sends.sum()))
    return class_nanoseconds(int(classes[order][reached])) / 1e9
