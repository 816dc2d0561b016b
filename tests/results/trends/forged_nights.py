"""Forged series of nights whose noise is that of a real benchmark, repeated on a busy machine.

`append_noise.csv` has 1 200 samples, in the order in which `measure_noise.py` took them with `nice -n 10` on two shared
cores, at a load average of four: the 99th percentile of the time of an append to a log on disk, divided by that of a
canary loop between the appends, relative to the median of all samples. The standard deviation of their logarithms is
0.33, and neighbours are correlated (0.23), since other load came and went.

A figure of a night, or of a run, is the median of several repetitions, as in `squall bench`. They are drawn in blocks
of ten neighbours, which keeps most of the correlation.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BLOCK = 10
REPETITIONS_A_NIGHT = 300
"""About 40 s of repetitions; the noise of a night is then 2.2 %."""
REPETITIONS_A_RUN = 100
"""About 13 s; the noise of a run is 4 %."""


@cache
def samples() -> Floats:
    return np.loadtxt(Path(__file__).with_name("append_noise.csv"))


def figures(rng: np.random.Generator, series: int, nights: int, repetitions: int) -> Floats:
    """Series of figures, a row each, that differ by noise only."""
    taken = samples()
    first = rng.integers(0, len(taken) - BLOCK + 1, size=(series, nights, repetitions // BLOCK))
    drawn: Floats = taken[first[..., None] + np.arange(BLOCK)].reshape(series, nights, -1)
    return np.median(drawn, axis=2)


def with_step(series: Floats, night: int, factor: float) -> Floats:
    """The series with all figures from this night on multiplied."""
    stepped = series.copy()
    stepped[night:] *= factor
    return stepped
