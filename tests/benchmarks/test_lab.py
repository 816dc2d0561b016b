"""The benchmark of the lab, shortened; and that it would notice a byte that is missing or wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from squall.benchmarks import lab as bench
from squall.benchmarks.parts.lab_programs import WRITTEN_AT_ONCE, as_written
from squall.harness.lab.lab import private_lab
from tests.labs import need_lab


@pytest.fixture
def written(tmp_path: Path) -> Path:
    file = tmp_path / "records"
    file.write_bytes(b"".join(as_written(at * WRITTEN_AT_ONCE) for at in range(4)))
    return file


def test_what_is_there_is_not_missing(written: Path) -> None:
    assert bench.missing(written, 3 * WRITTEN_AT_ONCE) == 0
    assert bench.missing(written, 4 * WRITTEN_AT_ONCE) == 0


def test_bytes_that_are_cut_off_are_counted(written: Path) -> None:
    assert bench.missing(written, 5 * WRITTEN_AT_ONCE) == WRITTEN_AT_ONCE


def test_bytes_that_came_back_as_zeroes_are_counted(written: Path) -> None:
    content = bytearray(written.read_bytes())
    content[WRITTEN_AT_ONCE + 5] = 0
    written.write_bytes(content)
    assert bench.missing(written, 4 * WRITTEN_AT_ONCE) == WRITTEN_AT_ONCE


@pytest.mark.full
@pytest.mark.lab
@pytest.mark.xdist_group("power-loss")
def test_each_part_measures_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few rounds and bars for a busy machine."""
    need_lab()
    for rounds in ("COMMANDS", "VERBS", "PARTITIONS", "CLOCK_JUMPS", "POWER_FAILURES"):
        monkeypatch.setattr(bench, rounds, 3)

    async def with_agents() -> dict[str, float]:
        async with bench.deployed(lab) as testbed:
            found = await bench.verbs(testbed) + await bench.partition(testbed) + await bench.delay(testbed)
            found += await bench.clock(testbed, lab) + await bench.power_failure(testbed, lab)
        return {one.name.strip(): one.measured for one in found}

    with private_lab(controllers=1, brokers=3) as lab:
        figures = asyncio.run(with_agents())
    assert figures["of 9 reach matrices, wrong"] == 0
    assert figures["fsynced bytes lost in 3 rounds"] == 0 < figures["fsynced bytes read"]
    assert 0 < figures["a change of the clock, until it is seen"] < 500
    assert 0 < figures["a delay of 10 ms, off by (median of 51)"] < 50
