"""Ctrl-C and SIGTERM end a long command with 130 and a summary of what had ended by then."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.benchmarks.parts.measurement import Measurement
from squall.harness.cli.figures import bench
from squall.harness.cli.main import status_of
from tests.waiting import wait_until

SUITE = """\
scenario: small
nemesis: [{fault: kill, target: one broker, at: 1s, for: 1s}]
workload: {name: log, producers: 1, consumers: 1, rate: 50/s}
min_acknowledged: 1
time: {load: 4s, settle: 5s}
"""


@pytest.mark.parametrize(
    ("number", "processes"),
    [pytest.param(signal.SIGINT, 2, marks=pytest.mark.full), (signal.SIGTERM, 1)],
    ids=["SIGINT-2", "SIGTERM-1"],
)
def test_a_simulation_sums_up_the_seeds_that_ended(number: signal.Signals, processes: int, squall: Any) -> None:
    (squall.directory / "small.yaml").write_text(SUITE)
    words = ("simulate", "small.yaml", "--seeds", "100000", "--seed", "1", "--processes", str(processes))
    process = subprocess.Popen(
        squall.argv(*words, "--keep", "kept"),
        cwd=squall.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a group of its own, all of which a terminal would interrupt
    )
    try:

        def four_kept() -> bool:
            assert process.poll() is None, "it ended by itself"
            return len(list((squall.directory / "kept").glob("*"))) >= 4

        wait_until(four_kept, "four seeds are kept", timeout=60)
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, "")
    ended = re.search(r"^interrupted: (\d+) of 100000 seeds ended; the first that did not is (\d+)$", out, re.MULTILINE)
    assert ended is not None, out
    assert re.search(rf"^seeds +{ended[1]}: ", out, re.MULTILINE) and int(ended[1]) >= 1
    assert int(ended[2]) <= int(ended[1]) + 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_verification_of_the_checks_sums_up_the_cases_that_ended(number: signal.Signals, squall: Any) -> None:
    process = subprocess.Popen(
        squall.argv("forge", "--verify", "--kind", "log", "--seeds", "20", "--processes", "2"),
        cwd=squall.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # else lines that came with the first stay in a buffer that `communicate` does not read
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        rest, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, b"")
    out = rest.decode()
    rows = {line for line in (first.decode() + out).splitlines() if line.startswith("✔")}
    ended = re.search(r"^interrupted: (\d+) cases? ended$", out, re.MULTILINE)
    assert ended is not None, out
    assert abs(int(ended[1]) - len(rows)) <= 1, "the signal may come while a row is being printed"
    assert re.search(r"^\d+ class.* of anomalies, \d+ injections?: ", out, re.MULTILINE), "the totals of what ended"


def test_an_interrupted_benchmark_prints_and_keeps_the_figures_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> Iterator[Measurement]:
        yield Measurement("the first", 7.0, "ms", samples=(7.0,))
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "_module", lambda name: type("Module", (), {"run": staticmethod(run)}))
    assert status_of(["bench", "registers", "--json", str(tmp_path / "kept.json")]) == 130
    said = capsys.readouterr().out
    assert "the first" in said and "7 ms" in said and "interrupted: 1 figures were known by then" in said
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert kept["interrupted"] is True and kept["measurements"][0]["samples"] == [7.0]


LONG = ("broker", "checker", "control-path", "lab", "registers", "transactions")


@pytest.mark.parametrize("name", LONG)
def test_a_benchmark_of_minutes_yields_each_figure_when_it_is_known(name: str) -> None:
    import inspect

    assert inspect.isgeneratorfunction(bench._module(name).run)
