"""A second opinion is compared with the verdict, and what differs is told and makes the result unknown (HX-06)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from squall.harness.cli.main import status_of
from squall.harness.cli.run import check
from squall.harness.errors import USAGE_EXIT_STATUS
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.checkers.engine.spark import SparkEngine
from squall.results.cross_check.cross_check import comparison
from squall.results.cross_check.dataframes import OPINION_ON_LOSSES
from squall.results.history.operation_tables import REGISTERS
from squall.results.synthetic.forge import INJECTIONS, forge_run, healthy
from squall.results.synthetic.forge_catalogue import FAMILIES
from squall.results.verdict.verdict import Verdict

WHOLE = {OPINION_ON_LOSSES: 1}


def verdict_with(tmp_path: Path, injection: str) -> Verdict:
    run = forge_run(tmp_path, INJECTIONS[injection][1](healthy(1), random.Random(1)))
    return check_run(run, InProcess(), report=False)


def test_counts_that_are_the_same_are_counted(tmp_path: Path) -> None:
    verdict = verdict_with(tmp_path, "lost")
    opinion = comparison(verdict, {"events-0": WHOLE | {"lost_write": 1}})
    assert (opinion.counts, opinion.disagreements) == (5, ())


def test_a_loss_that_only_one_of_both_sees_is_told(tmp_path: Path) -> None:
    verdict = verdict_with(tmp_path, "lost")
    assert comparison(verdict, {"events-0": WHOLE}).disagreements == (
        "events-0: lost_write is counted 1 times, and 0 times as a query",
    )
    twice = comparison(verdict, {"events-0": WHOLE | {"lost_write": 1, "duplicate": 2}})
    assert twice.disagreements == ("events-0: duplicate is counted 0 times, and 2 times as a query",)


def test_without_a_final_read_there_is_no_opinion_on_losses(tmp_path: Path) -> None:
    opinion = comparison(verdict_with(tmp_path, "lost"), {"events-0": {}})
    assert (opinion.counts, opinion.disagreements) == (4, ())


def test_a_topic_partition_with_declared_losses_is_left_out(tmp_path: Path) -> None:
    """The queries know nothing of unclean elections: EL-04."""
    verdict = verdict_with(tmp_path, "lost")
    opinion = comparison(verdict, {"events-0": WHOLE, "events-1": WHOLE}, {"events-0"})
    assert (opinion.counts, opinion.disagreements, opinion.left_out) == (5, (), ("events-0",))
    assert "none on events-0, where unclean elections" in check.told(opinion)


@pytest.fixture
def one_session(spark: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands use the tests' Spark, and leave it running."""
    with monkeypatch.context() as patch:
        patch.setattr(check, "SparkEngine", lambda master: spark)
        patch.setattr(spark, "close", lambda: None)
        yield


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_command_line_asks_for_it(
    tmp_path: Path, one_session: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = forge_run(tmp_path / "good", healthy(1), fault_free=True)
    bad = forge_run(tmp_path / "bad", INJECTIONS["lost"][1](healthy(1), random.Random(1)))
    other = tmp_path / "registers"
    FAMILIES[REGISTERS].write(other, 1, 200, None)
    assert status_of(["check", "--second-opinion", str(good), str(bad), str(other)]) == 1
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("second opinion")]
    assert [line.split(": ", 1)[1] for line in told] == [
        "the same in all 5 counts",
        "the same in all 5 counts",
        "none, its logs were not checked",
    ]

    def blind(verdict: Verdict) -> Verdict:
        return msgspec.structs.replace(verdict, verdict="valid", anomalies=())

    check_runs = check.check_runs
    monkeypatch.setattr(check, "check_runs", lambda *words, **more: [blind(one) for one in check_runs(*words, **more)])
    assert status_of(["check", "--second-opinion", str(bad)]) == 2, "kernels that miss a loss"
    assert "lost_write is counted 0 times, and 1 times as a query. This is a mistake" in capsys.readouterr().out


def test_it_takes_spark_and_whole_runs(tmp_path: Path) -> None:
    run = forge_run(tmp_path, healthy(1))
    for option in (["--in-process"], ["--budget", "9"]):
        assert status_of(["check", "--second-opinion", *option, str(run)]) == USAGE_EXIT_STATUS
