"""A bar is reached from its own side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from squall.benchmarks.parts.measurement import Measurement
from squall.harness.cli.figures.bench import bar, figure, measure, names, result
from squall.harness.cli.main import status_of
from squall.harness.errors import UsageError
from squall.results.lake.store import Lake


@pytest.mark.parametrize(
    ("measured", "higher", "passed", "said"),
    [
        (9_999, True, False, "✘ missed"),
        (10_000, True, True, "✔"),
        (20_000, True, True, "✔ stretch"),
        (10_001, False, False, "✘ missed"),
        (10_000, False, True, "✔"),
    ],
)
def test_a_must_is_reached_or_missed(measured: float, higher: bool, passed: bool, said: str) -> None:
    stretch = 20_000 if higher else 5_000
    one = Measurement("a", measured, "s", must=10_000, stretch=stretch, higher_is_better=higher)
    assert one.passed == passed
    assert result(one) == said


def test_a_figure_without_a_must_always_passes() -> None:
    assert Measurement("a", 1, "s").passed


def test_a_bar_shows_its_direction() -> None:
    assert bar(Measurement("a", 1, "s", must=5), 5) == "≥ 5"
    assert bar(Measurement("a", 1, "s", must=25, higher_is_better=False), 25) == "≤ 25"


def test_figures_have_three_digits_or_whole_thousands() -> None:
    assert (figure(38703.5), figure(2.3456), figure(0.0123)) == ("38 704", "2.35", "0.0123")


def test_the_module_of_measurements_is_no_benchmark() -> None:
    assert "interpreter" in names() and "measurement" not in names()


def test_a_size_is_refused_where_none_can_be_chosen() -> None:
    with pytest.raises(UsageError, match="--partitions=5"):
        measure("interpreter", partitions=5)
    with pytest.raises(UsageError, match=r"^--system=a --system=b: benchmark interpreter has none"):
        measure("interpreter", system=["a", "b"])
    with pytest.raises(UsageError, match=r"^--equal-timeouts: benchmark interpreter has none"):
        measure("interpreter", equal_timeouts=True)


def test_figures_are_added_to_the_lake_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = [Measurement("speed", 3.0, "1/s", must=2.0, samples=(2.5, 3.0, 3.5))]
    monkeypatch.setattr("squall.harness.cli.figures.bench.measure", lambda name, **sizes: figures)
    assert status_of(["bench", "interpreter", "--lake", str(tmp_path / "lake")]) == 0
    (row,) = Lake(tmp_path / "lake").table("benchmarks").to_pylist()
    assert (row["benchmark"], row["figure"], row["samples"]) == ("interpreter", "speed", [2.5, 3.0, 3.5])
    assert row["ended"] and row["passed"] and row["machine"]


def test_a_benchmark_that_fails_keeps_the_figures_that_were_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> Iterator[Measurement]:
        yield Measurement("speed", 3.0, "1/s")
        raise RuntimeError("the broker is gone")

    monkeypatch.setattr("squall.harness.cli.figures.bench._module", lambda name: SimpleNamespace(run=run))
    assert status_of(["bench", "interpreter", "--lake", str(tmp_path / "lake")]) == 255
    said = capsys.readouterr()
    assert "speed" in said.out and "failed: 1 figures were known by then" in said.out
    assert "the broker is gone" in said.err
    (row,) = Lake(tmp_path / "lake").table("benchmarks").to_pylist()
    assert (row["figure"], row["ended"]) == ("speed", False)
