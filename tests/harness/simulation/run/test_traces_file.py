"""Traces of seeds in a file: what repeats is the same, what differs is named, and what is no such file is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

import squall.harness.cli.simulation.simulate as command
from squall.harness.cli.main import status_of
from squall.harness.errors import UsageError
from squall.harness.simulation.run.run import SimResult
from squall.harness.simulation.run.traces_file import compare_traces, read_traces, write_traces


def results(*seeds: int, digest: str = "a0") -> list[SimResult]:
    return [SimResult(seed, "valid", f"{digest}{seed}") for seed in seeds]


def test_a_file_lists_seeds_in_their_order(tmp_path: Path) -> None:
    write_traces(tmp_path / "traces", [*results(10, 2), SimResult(3, "unknown", "")])
    assert (tmp_path / "traces").read_text() == "2 valid a02\n3 unknown -\n10 valid a010\n"
    assert read_traces(tmp_path / "traces")[3] == ("unknown", "-")


def test_seeds_that_differ_are_named(tmp_path: Path) -> None:
    write_traces(tmp_path / "traces", [*results(1, 2), *results(3, digest="b")])
    compared = compare_traces(results(2, 3, 4), read_traces(tmp_path / "traces"))
    assert (compared.same, compared.differing, compared.only_here, compared.only_there) == (1, (3,), 1, 1)
    assert compared.words(Path("t")) == "1 of 2 seeds differ from t: 3; 1 only here; 1 only there"
    assert (
        compare_traces(results(9), read_traces(tmp_path / "traces")).words(Path("t")) == "none of these seeds is in t"
    )


def test_the_command_writes_traces_and_ends_with_1_if_they_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = "a0"

    def simulated(scenario: object, seeds: range, options: object, processes: int) -> object:
        return (one for one in results(*seeds, digest=digest))

    monkeypatch.setattr(command, "simulate_many", simulated)
    monkeypatch.chdir(tmp_path)
    words = ("simulate", "barren-epoch", "--seeds", "3", "--no-lake")
    assert status_of([*words, "--traces", "there/traces"]) == 0
    assert status_of([*words, "--same-as", "there/traces"]) == 0
    assert "traces     3 seeds, each as in there/traces" in capsys.readouterr().out
    digest = "b"
    assert status_of([*words, "--same-as", "there/traces"]) == 1
    assert "3 of 3 seeds differ" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["cats\n", "1 valid\n", "1 valid a0\nx valid a1\n"])
def test_what_is_no_file_of_traces_is_refused_before_a_seed_runs(tmp_path: Path, text: str) -> None:
    (tmp_path / "traces").write_text(text)
    with pytest.raises(UsageError, match=r"line \d: is not 'SEED VERDICT HASH'"):
        command.simulate("swarm", seeds=1, first_seed=1, console=Console(), same_as=tmp_path / "traces")
    with pytest.raises(UsageError, match="No such file"):
        read_traces(tmp_path / "none")
