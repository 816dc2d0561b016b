"""What a fault did to clients: when trouble began and ended, the p99 meanwhile; unknown is never none."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.checkers.kernels.series import Frame
from squall.results.history.segments import FaultWindow
from squall.results.report.fault_effects import FaultEffect, fault_effects
from squall.results.report.tables import LATENCY_BY_TIME, Series
from squall.results.synthetic.forge import MILLISECOND, ORIGIN, Forged, forge_run

SECOND = 1000 * MILLISECOND
LOAD = 20


def fault(start: float | None, end: float | None, name: str = "b1") -> FaultWindow:
    def at(second: float | None) -> int | None:
        return None if second is None else ORIGIN + int(second * SECOND)

    return FaultWindow(
        id=name, fault="isolate", targets=(name,), summary=name, injected=at(start), healed=at(end), took=True
    )


def effects_of(
    directory: Path, *faults: FaultWindow, silent: tuple[float, float] = (0, 0), slow: tuple[float, float] = (0, 0)
) -> tuple[list[FaultEffect], Series]:
    """A send each 10 ms for 20 s: none acknowledged while silent, and slow ones take 300 ms instead of 4."""
    sends = []
    for number in range(LOAD * 100):
        second = number / 100
        if not silent[0] <= second < silent[1]:
            took = 300 if slow[0] <= second < slow[1] else 4
            at = number * 10 * MILLISECOND
            process, offset = 1 + number % 50, len(sends)
            value = (process << 40) + number
            sends.append(Forged("send", process, process, at, at + took * MILLISECOND, value=value, offset=offset))
    run = forge_run(directory, sends, faults=faults, load_ended=ORIGIN + LOAD * SECOND)
    check_run(run, InProcess(), report=False)
    series = Series.load(run)
    frame = Frame(ORIGIN, 100 * MILLISECOND, ORIGIN + LOAD * SECOND)
    return fault_effects(faults, series, frame), series


def test_an_outage_is_trouble_from_its_beginning_to_the_next_acknowledgement(tmp_path: Path) -> None:
    (effect,), _ = effects_of(tmp_path, fault(5, 9), silent=(5.5, 8))
    assert effect.trouble and effect.began == pytest.approx(5.5, abs=0.02)
    assert effect.recovered == pytest.approx(8.0, abs=0.11)
    assert effect.told.startswith("began 5.5 s → recovered 8.")


def test_slow_sends_are_trouble_and_the_p99_is_that_of_the_meantime(tmp_path: Path) -> None:
    (effect,), _ = effects_of(tmp_path, fault(5, 9), slow=(6, 8))
    assert (effect.began, effect.recovered) == (pytest.approx(6.0), pytest.approx(8.0, abs=0.11))
    assert effect.p99 == pytest.approx(0.3, rel=0.02)


def test_trouble_may_outlast_its_fault_and_the_load(tmp_path: Path) -> None:
    (outlasting,), _ = effects_of(tmp_path / "a", fault(5, 6), slow=(5, 8))
    assert outlasting.recovered == pytest.approx(8.0, abs=0.11)
    (never,), _ = effects_of(tmp_path / "b", fault(15, 16), silent=(15, 20))
    assert never.trouble and never.recovered is None
    assert "not over when the load ended" in never.told


def test_a_fault_without_effect_is_none_seen_with_its_p99(tmp_path: Path) -> None:
    effects, _ = effects_of(tmp_path, fault(5, 9), fault(8, 12, "b2"))
    assert [one.trouble for one in effects] == [False, False]
    assert effects[0].told.startswith("none seen, p99 4.0")
    assert [one.beside for one in effects] == [("isolate b2",), ("isolate b1",)]


def test_what_cannot_be_told_is_unknown(tmp_path: Path) -> None:
    effects, series = effects_of(tmp_path, fault(0, None), fault(None, None, "b2"))
    assert [one.trouble for one in effects] == [None, None]
    assert [one.told for one in effects] == [
        "unknown: there is too little time without faults to compare with",
        "unknown: it was never injected",
    ]
    tables = {**series.tables, "throughput": series["throughput"].slice(0, 0)}
    frame = Frame(ORIGIN, 100 * MILLISECOND, ORIGIN + LOAD * SECOND)
    assert fault_effects([fault(5, 9)], Series(tables), frame)[0].told == "unknown: no sends were recorded"


def test_a_run_recorded_before_there_were_histograms_by_time_has_no_p99(tmp_path: Path) -> None:
    _, series = effects_of(tmp_path, fault(5, 9))
    old = Series({name: table for name, table in series.tables.items() if name != LATENCY_BY_TIME})
    (effect,) = fault_effects([fault(5, 9)], old, Frame(ORIGIN, 100 * MILLISECOND, ORIGIN + LOAD * SECOND))
    assert (effect.trouble, effect.p99) == (False, None)
