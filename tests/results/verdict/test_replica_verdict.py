"""What a verdict says of replicas and control plane (HX-06): no silent green, and no accusation without proof."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from squall.results.check import check_run, verdict_of
from squall.results.checkers.engine.engines import Engine, InProcess
from squall.results.checkers.engine.spark import SparkEngine
from squall.results.checkers.replicas.tables import control_table, replica_table
from squall.results.history.manifest import Manifest
from squall.results.history.operation_kinds import OF_NODES
from squall.results.history.operation_tables import CONTROL_PLANE, REPLICAS, write_kind
from squall.results.report.render import plain, verdict_lines
from squall.results.report.report import REPORT_FILE
from squall.results.synthetic.forge import forge_run, healthy
from squall.results.synthetic.forge_replicas import (
    REPLICA_INJECTIONS,
    ControlPlane,
    Replicas,
    healthy_control,
    healthy_replicas,
)
from squall.results.verdict.further import NOT_COLLECTED
from squall.results.verdict.verdict import Verdict

CHECKS = ("log", "availability", *OF_NODES)


def run_with(run: Path, replicas: Replicas, plane: ControlPlane | None = None) -> Path:
    """A forged run whose clients saw nothing wrong, and what its nodes left."""
    forge_run(run, healthy(1), checks=CHECKS)
    run_id = Manifest.load(run).run_id
    one = plane or healthy_control(1)
    write_kind(run, REPLICAS, replica_table((each, {}) for each in replicas), run_id=run_id)
    write_kind(run, CONTROL_PLANE, control_table(one.quorum, one.logs, one.records, one.events), run_id=run_id)
    return run


def damaged() -> Replicas:
    _, change = REPLICA_INJECTIONS["in-sync follower has another batch"]
    return change(healthy_replicas(1), random.Random(1))


def judged(run: Path, engine: Engine | None = None) -> Verdict:
    verdict = check_run(run, engine or InProcess())
    assert verdict_of(run).anomalies == verdict.anomalies
    return verdict


def test_a_run_whose_replicas_agree_is_valid_and_says_what_was_compared(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", healthy_replicas(1))
    verdict = judged(run)
    assert (verdict.verdict, verdict.reasons) == ("valid", ())
    lines = plain(verdict_lines(verdict)).splitlines()
    assert any(
        line.strip().startswith("in-sync replicas equal and complete ✔ (in-sync replicas 3, batches ") for line in lines
    )
    assert any(
        line.strip().startswith("one leader an epoch, committed metadata kept ✔ (metadata logs 6") for line in lines
    )
    outcome = next(line for line in lines if line.startswith("VALID"))
    assert "acknowledged operation" not in outcome, "replicas are no operations"
    assert "Check replicas: in-sync replicas 3" in (run / REPORT_FILE).read_text()
    said = {one.check: one.counts for one in Verdict.load(run).further}
    assert said[REPLICAS]["digests equal"] == 3


def test_damage_that_no_client_saw_is_invalid_with_a_witness(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", damaged())
    verdict = judged(run)
    assert verdict.verdict == "invalid"
    assert [one.name for one in verdict.anomalies] == ["replica_divergence"]
    (told,) = verdict.further_witnesses
    assert told.title.startswith("events-0: in-sync replicas differ in a committed batch, at offset ")
    assert [one.subject for one in told.lines] == ["b1", "b3", "committed", "rows"]
    assert told.title in plain(verdict_lines(verdict))
    assert told.title in (run / REPORT_FILE).read_text()


def test_a_run_that_collected_nothing_is_unknown_and_says_why(tmp_path: Path) -> None:
    """HX-10: it exits with 2, as any run that proves too little."""
    run = forge_run(tmp_path / "run", healthy(1), checks=CHECKS)
    manifest = Manifest.load(run)
    manifest.with_changes(options={NOT_COLLECTED: "the quorum could not be asked: no answer"}).save(run)
    verdict = judged(run)
    assert (verdict.verdict, verdict.exit_code) == ("unknown", 2)
    assert verdict.reasons == tuple(
        f"check {name}: the quorum could not be asked: no answer: nothing was checked" for name in OF_NODES
    )


def test_a_run_that_asks_for_no_replicas_needs_none(tmp_path: Path) -> None:
    assert judged(forge_run(tmp_path / "run", healthy(1))).verdict == "valid"


def test_a_replica_that_could_not_be_read_makes_it_unknown(tmp_path: Path) -> None:
    replicas = healthy_replicas(1)
    replicas[2] = replace(replicas[2], collected=False, problem="b3 did not answer")
    verdict = judged(run_with(tmp_path / "run", replicas))
    assert verdict.verdict == "unknown"
    assert verdict.reasons == (
        "check replicas: events-0: the in-sync replica on b3 could not be looked at: b3 did not answer",
    )


def test_a_proven_divergence_stands_whatever_could_not_be_read(tmp_path: Path) -> None:
    replicas = damaged()
    replicas[1] = replace(replicas[1], collected=False, problem="b2 did not answer")
    assert judged(run_with(tmp_path / "run", replicas)).verdict == "invalid"


def test_what_a_replica_lacks_does_not_hide_behind_an_empty_table(tmp_path: Path) -> None:
    verdict = judged(run_with(tmp_path / "run", []))
    assert verdict.verdict == "unknown"
    assert "check replicas: no in-sync replica held a record: nothing was compared" in verdict.reasons


@pytest.mark.spark
def test_spark_finds_the_same(tmp_path: Path, spark: SparkEngine) -> None:
    run = run_with(tmp_path / "run", damaged())
    assert judged(run, spark).anomalies == judged(run).anomalies
