"""From a run's directory to its verdict: what makes it valid, invalid, unknown; and that engines agree."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from squall.results.check import check_run, check_runs, verdict_of
from squall.results.checkers.engine.engines import AnyTask, InProcess, Outcome
from squall.results.checkers.engine.spark import NoJava, SparkEngine, require_java
from squall.results.checkers.engine.well_formed_task import well_formed_tasks
from squall.results.history.history import (
    HISTORY_FILE,
    ClusterObservation,
    CompletionRow,
    FaultWindow,
    HistoryWriter,
    SegmentHeader,
    close_history,
    segment_path,
)
from squall.results.history.manifest import Expected, Manifest, Required, TopicFacts
from squall.results.history.row_groups import row_groups_of
from squall.results.report.tables import Series
from squall.results.synthetic.forge import INJECTIONS, MILLISECOND, ORIGIN, Forged, forge_run, healthy, write_operations
from squall.results.verdict.verdict import Verdict, worst
from tests.facts import naming

Run = Callable[..., Verdict]

FAULT = FaultWindow(
    id="f1",
    fault="isolate",
    targets=("b2",),
    summary="b2 (leader of events-0)",
    injected=ORIGIN + 20 * MILLISECOND,
    healed=ORIGIN + 90 * MILLISECOND,
    took=True,
    undone=True,
    during="deaf to 5 of 5",
)


def changed(**changes: object) -> FaultWindow:
    facts = {name: getattr(FAULT, name) for name in FAULT.__struct_fields__}
    return FaultWindow(**{**facts, **changes})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Forge a run, check it in process."""

    def checked(operations: list[Forged], **facts: object) -> Verdict:
        return check_run(forge_run(tmp_path / "run", operations, **facts), InProcess(), report=False)  # type: ignore[arg-type]

    return checked


def test_a_healthy_run_is_valid(run: Run) -> None:
    verdict = run(healthy(1), faults=(FAULT,))
    assert (verdict.verdict, verdict.exit_code, verdict.reasons) == ("valid", 0, ())
    assert [one.holds for one in verdict.statements] == [True, True, True]
    assert verdict.coverage.faults_proven == 1
    assert verdict.coverage.acknowledged > 150


def test_a_loss_is_invalid_with_a_witness_under_its_fault(run: Run) -> None:
    _, inject = INJECTIONS["lost"]
    verdict = run(inject(healthy(1), random.Random(1)), faults=(changed(healed=ORIGIN + 10_000 * MILLISECOND),))
    assert (verdict.verdict, verdict.exit_code) == ("invalid", 1)
    assert [(one.name, one.count) for one in verdict.anomalies] == [("lost_write", 1)]
    (witness,) = verdict.witnesses
    assert witness.title.startswith("events-0: an acknowledged record is missing from the log, at offset ")
    told = [(line.subject, line.text) for line in witness.lines]
    assert any(subject == "final read" and text.startswith("goes from offset") for subject, text in told)
    assert ("under fault", "isolate b2 (0.0–10.0 s)") in told


@pytest.mark.parametrize(("options", "verdict", "noted"), [({}, "invalid", 0), ({"system": "kafka 4.1.1"}, "valid", 1)])
def test_deleted_records_that_come_back_are_held_against_our_nodes_only(
    run: Run, options: dict[str, object], verdict: str, noted: int
) -> None:
    """Others write the new start of a log down later than they acknowledge the deletion (DP-16)."""
    _, inject = INJECTIONS["deleted and delivered"]
    found = run(inject(healthy(1), random.Random(1)), faults=(FAULT,), options=options)
    assert (found.verdict, found.coverage.deleted_read) == (verdict, noted)


def test_a_definite_violation_stands_whatever_else_is_unknown(run: Run) -> None:
    _, inject = INJECTIONS["inconsistent"]
    broken = [one for one in inject(healthy(1), random.Random(1)) if one.f not in ("marker", "final_poll")]
    verdict = run(broken, faults=(changed(took=False),), completed=False)
    assert verdict.verdict == "invalid"
    assert len(verdict.reasons) == 3


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"faults": (changed(took=False, during="b2 still answered 3 of 5 peers"),)},
         "fault isolate b2 left no evidence: b2 still answered 3 of 5 peers"),
        ({"faults": (changed(took=None, during=""),)}, "fault isolate b2 left no evidence: not observed"),
        ({"faults": (changed(undone=False, after="b2 hears nobody"),)},
         "fault isolate b2 was not seen to be undone: b2 hears nobody"),
        ({"faults": (FAULT,), "faults_planned": 3}, "only 1 of 3 planned faults were injected"),
        ({"fault_free": False}, "no fault was injected; if none is wanted, set `fault_free: true` in the scenario"),
        ({"faults": (FAULT,), "fault_free": True}, "declared fault-free, but isolate b2 was injected"),
        ({"min_acknowledged": 5000}, "sends were acknowledged; fewer than 5 000 (min_acknowledged) prove nothing"),
        ({"trouble": ("b3 went away",)}, "b3 went away"),
        ({"completed": False}, "the run was cut off before it ended"),
        ({"topics": {}}, "the manifest (run.json) names no topics: unknown which logs had to be read to their end"),
        ({"topics": {"events": TopicFacts(partitions=3)}}, "the final read of events-1, events-2 did not reach"),
    ],
)  # fmt: skip
def test_a_run_that_proves_nothing_is_unknown_and_says_why(run: Run, facts: dict[str, object], reason: str) -> None:
    verdict = run(healthy(1), **facts)
    assert (verdict.verdict, verdict.exit_code) == ("unknown", 2)
    assert any(reason in one for one in verdict.reasons), verdict.reasons


def test_a_check_that_nobody_knows_is_not_taken_for_one_that_passed(run: Run) -> None:
    verdict = run(healthy(1), checks=("log", "regsters"))
    assert verdict.verdict == "unknown"
    assert "check regsters: unknown check; known are log, availability, registers" in verdict.reasons[0]


def test_a_fault_never_injected_was_not_observed_whatever_it_claims(run: Run) -> None:
    verdict = run(healthy(1), faults=(changed(injected=None),))
    assert verdict.verdict == "unknown" and "was never injected" in verdict.reasons[0]


def test_a_fault_that_held_only_while_there_was_no_load_proves_nothing(run: Run, tmp_path: Path) -> None:
    """Sequences may come late, when what was before them takes long to heal."""
    ended = Manifest.load(forge_run(tmp_path / "measured", healthy(1))).load_ended
    assert ended is not None
    for number, (injected, healed, said) in enumerate(
        [
            (ended, ended + 5, "from 0 ns after the load on"),
            (ended + 62_000_000, ended + 10**9, "from 62.0 ms after the load on"),
            (ORIGIN - 10**9, ORIGIN - 5 * 10**8, "until 500 ms before the load"),
            (ORIGIN + 10, ORIGIN + 5, "clocks that go backwards"),
        ]
    ):
        verdict = verdict_of(
            forge_run(tmp_path / f"{number}", healthy(1), faults=(changed(injected=injected, healed=healed),))
        )
        assert verdict.verdict == "unknown" and said in verdict.reasons[0], verdict.reasons
    for number, (injected, healed) in enumerate([(ended - 1, ended + 10**9), (ORIGIN - 10**9, ORIGIN + 1)]):
        touching = changed(injected=injected, healed=healed)
        assert verdict_of(forge_run(tmp_path / f"touching-{number}", healthy(1), faults=(touching,))).verdict == "valid"


def test_what_stood_when_the_load_began_is_what_later_looks_are_compared_with(tmp_path: Path) -> None:
    """P12: the first look may be earlier than the load; a change in the load is one all the same."""

    def seen(time: int, epoch: int, *in_sync: str) -> tuple[ClusterObservation, ...]:
        leader = ClusterObservation(time=time, kind="leader", node="b1", topic="events", partition=0, epoch=epoch)
        return leader, msgspec.structs.replace(leader, kind="in_sync", epoch=None, nodes=in_sync)

    watched = ClusterObservation(time=ORIGIN + 10**12, kind="watched", since=ORIGIN)

    def verdict(name: str, *cluster: ClusterObservation) -> str:
        return verdict_of(forge_run(tmp_path / name, healthy(1), require=Required(calm=True), cluster=cluster)).verdict

    for name, first in (("before", ORIGIN - 1_000_000), ("within", ORIGIN + 1)):
        before = seen(first, 1, "b1", "b2", "b3")
        assert verdict(f"{name}-calm", *before, watched) == "valid"
        assert verdict(f"{name}-not-watched", *before) == "unknown"
        assert verdict(f"{name}-changed", *before, *seen(ORIGIN + 10, 2, "b2")) == "invalid"
    assert verdict("unseen") == "unknown"


@pytest.mark.parametrize("closed", [False, True])
def test_half_a_history_is_unknown_and_the_missing_half_is_named(tmp_path: Path, closed: bool) -> None:
    """HX-03: what is missing may be what is wrong, or what would explain it."""
    sends, others = [], []
    for one in INJECTIONS["lost"][1](healthy(1), random.Random(1)):
        (sends if one.f == "send" else others).append(one)
    run = forge_run(tmp_path / "run", sends, segments=2)
    write_operations(segment_path(run, 1), others, SegmentHeader("forged-1", 1))
    assert verdict_of(run).verdict == "invalid"
    segment_path(run, 1).unlink()
    if closed:
        close_history(run)
    for verdict in (verdict_of(run), check_run(run, InProcess(), report=False)):
        assert verdict.verdict == "unknown"
        assert "lacks segment-001.jsonl of 2 segments: an incomplete history proves nothing" in verdict.reasons[0]


@pytest.mark.parametrize("closed", [False, True])
def test_the_history_of_another_run_is_unknown(tmp_path: Path, closed: bool) -> None:
    run = forge_run(tmp_path / "run", healthy(1))
    if closed:
        close_history(run)
    Manifest.load(run).with_changes(run_id="another").save(run)
    for verdict in (verdict_of(run), check_run(run, InProcess(), report=False)):
        assert verdict.verdict == "unknown"
        assert "is the history of run 'forged-1', and run.json beside it says 'another'" in verdict.reasons[0]


def test_a_fault_free_scenario_needs_no_fault(run: Run) -> None:
    assert run(healthy(1), fault_free=True).verdict == "valid"


def test_without_acknowledgements_nothing_was_checked(run: Run) -> None:
    verdict = run([Forged("send", 1, 1, 5, None, "info", value=1 << 40)])
    assert verdict.verdict == "unknown"
    assert "no send was acknowledged: nothing was checked" in verdict.reasons
    assert [one.holds for one in verdict.statements] == [None, None, None]


def test_without_reads_sends_prove_nothing(run: Run) -> None:
    verdict = run([one for one in healthy(1) if one.f == "send"])
    assert "nothing was read: sends alone cannot be checked" in verdict.reasons


def test_without_a_final_read_losses_cannot_be_known(run: Run) -> None:
    verdict = run([one for one in healthy(1) if one.f not in ("marker", "final_poll")])
    assert verdict.verdict == "unknown"
    assert any("final read of events-0 did not reach its marker" in one for one in verdict.reasons)
    assert verdict.statements[2].holds is None


def test_values_that_are_not_unique_make_it_unknown(run: Run) -> None:
    again = Forged("send", 66, 66, 5, None, "info", value=next(one.value for one in healthy(1) if one.f == "send"))
    verdict = run([*healthy(1), again])
    assert any("had been sent before" in one for one in verdict.reasons)


def test_an_ill_formed_history_is_unknown_and_never_takes_others_with_it(tmp_path: Path) -> None:
    good = forge_run(tmp_path / "good", healthy(1))
    bad = forge_run(tmp_path / "bad", healthy(1))
    with HistoryWriter(segment_path(bad, 1), SegmentHeader("forged-1", 1)) as writer:
        writer.complete(CompletionRow(987654321, "ok", 99999999999999))
    empty = tmp_path / "empty"
    empty.mkdir()
    verdicts = check_runs([bad, good, empty], InProcess(), report=False)
    assert [one.verdict for one in verdicts] == ["unknown", "valid", "unknown"]
    assert "a completion of process 987654321 without an invocation" in verdicts[0].reasons[0]
    assert "run.json: cannot be read" in verdicts[2].reasons[0]
    assert json.loads((bad / "verdict.json").read_text())["exit_code"] == 2


def test_a_broken_parquet_file_is_unknown(tmp_path: Path) -> None:
    broken = forge_run(tmp_path, healthy(1))
    assert check_run(broken, InProcess(), report=False).verdict == "valid"
    data = (broken / HISTORY_FILE).read_bytes()
    (broken / HISTORY_FILE).write_bytes(data[: len(data) // 2])
    verdict = check_run(broken, InProcess(), report=False)
    assert (verdict.verdict, verdict.exit_code) == ("unknown", 2)
    assert "history.parquet: cannot be read as Parquet" in verdict.reasons[0]


def test_a_parquet_file_damaged_within_is_unknown(tmp_path: Path) -> None:
    broken = forge_run(tmp_path, healthy(1))
    check_run(broken, InProcess(), report=False)
    path = broken / HISTORY_FILE
    data = bytearray(path.read_bytes())
    for place in range(200, len(data) // 2, 40):
        data[place] ^= 0xFF
    path.write_bytes(bytes(data))
    verdict = check_run(broken, InProcess(), report=False)
    assert (verdict.verdict, verdict.exit_code) == ("unknown", 2)


def test_a_run_cut_short_anywhere_is_never_valid_or_invalid(tmp_path: Path) -> None:
    """`kill -9` of everything in the middle of a correct run: what was recorded proves no loss."""
    whole = forge_run(tmp_path / "whole", healthy(3))
    content = segment_path(whole, 0).read_bytes()
    rng = random.Random(3)
    for number in range(25):
        run_dir = tmp_path / str(number)
        run_dir.mkdir()
        Manifest.load(whole).with_changes(completed=False).save(run_dir)
        path = segment_path(run_dir, 0)
        path.parent.mkdir()
        cut = rng.randrange(len(content))
        path.write_bytes(content[:cut])
        verdict = check_run(run_dir, InProcess(), report=False)
        assert verdict.verdict == "unknown", f"cut at {cut}: {verdict.anomalies} {verdict.reasons}"


def test_a_run_is_checked_again_from_its_parquet_file_alone(tmp_path: Path) -> None:
    run_dir = forge_run(tmp_path, healthy(1))
    first = check_run(run_dir, InProcess(), report=False)
    shutil.rmtree(run_dir / "history")
    assert check_run(run_dir, InProcess(), report=False).coverage.records == first.coverage.records


@pytest.mark.parametrize("injection", [None, *sorted(INJECTIONS)])
def test_a_verdict_in_memory_is_the_one_that_files_give(injection: str | None, tmp_path: Path) -> None:
    operations = healthy(1)
    if injection is not None:
        _, inject = INJECTIONS[injection]
        operations = inject(operations, random.Random(1))
    run_dir = forge_run(tmp_path, operations, faults=(FAULT,))
    written = sorted(path.name for path in run_dir.rglob("*"))
    quick = verdict_of(run_dir)
    assert sorted(path.name for path in run_dir.rglob("*")) == written, "nothing is written"
    full = check_run(run_dir, InProcess(), report=False)
    for name in ("verdict", "exit_code", "reasons", "anomalies", "witnesses", "statements"):
        assert getattr(quick, name) == getattr(full, name), name
    counted = [name for name in full.coverage.__struct_fields__ if name not in ("engine", "seconds")]
    assert [getattr(quick.coverage, name) for name in counted] == [getattr(full.coverage, name) for name in counted]


def test_what_cannot_be_read_is_unknown_in_memory_too(tmp_path: Path) -> None:
    run_dir = forge_run(tmp_path, healthy(1))
    segment_path(run_dir, 0).write_text("{}\n{}\n")
    assert verdict_of(run_dir).verdict == "unknown"
    assert verdict_of(tmp_path / "nowhere").verdict == "unknown"


def test_the_verdict_is_kept_for_machines(tmp_path: Path) -> None:
    _, inject = INJECTIONS["lost"]
    run_dir = forge_run(tmp_path, inject(healthy(1), random.Random(1)))
    verdict = check_run(run_dir, InProcess(), report=False)
    stored = json.loads((run_dir / "verdict.json").read_text())
    assert (stored["verdict"], stored["exit_code"]) == ("invalid", 1)
    assert stored["anomalies"][0]["name"] == "lost_write"
    assert Verdict.load(run_dir) == verdict


def test_what_a_scenario_expects_decides_whether_it_turned_out_well(run: Run) -> None:
    _, inject = INJECTIONS["lost"]
    broken = inject(healthy(1), random.Random(1))
    verdict = run(broken, expect=Expected(verdict="invalid", anomalies=("lost_write",)))
    assert verdict.as_expected
    for other in (Expected(), Expected(verdict="invalid", anomalies=("phantom",)), Expected(verdict="unknown")):
        expected = {name: getattr(verdict, name) for name in verdict.__struct_fields__} | {"expected": other}
        assert not Verdict(**expected).as_expected


def test_severity_is_invalid_then_unknown_then_valid() -> None:
    assert worst(["valid", "unknown", "invalid"]) == "invalid"
    assert worst(["valid", "unknown"]) == "unknown"
    assert worst(["valid", "valid"]) == "valid"
    assert worst([]) == "unknown"


def test_tables_lie_beside_the_verdict(tmp_path: Path) -> None:
    run_dir = forge_run(tmp_path, healthy(1, 300))
    verdict = check_run(run_dir, InProcess(), report=False)
    series = Series.load(run_dir)
    sends = [row for row in series["throughput"].to_pylist() if row["f"] == "send" and row["type"] == "ok"]
    assert sum(row["operations"] for row in sends) == verdict.coverage.sends_ok - 1  # the marker is no load
    assert sum(series["latency"]["sends"].to_pylist()) == verdict.coverage.sends_ok - 1
    assert {row["error"] for row in series["errors"].to_pylist()} == {"request_timed_out", "not_enough_replicas"}


def test_there_is_a_remedy_where_there_is_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(NoJava, match=naming("Java 17")):
        require_java()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_and_one_process_come_to_the_same_verdicts(tmp_path: Path, spark: SparkEngine) -> None:
    runs = [forge_run(tmp_path / "healthy", [one for number in range(3) for one in healthy(1, 150, number)])]
    for number, (name, (_, inject)) in enumerate(INJECTIONS.items()):
        operations = inject(healthy(number), random.Random(number)) + healthy(number, 100, 1)
        runs.append(forge_run(tmp_path / name.replace(" ", "-"), operations, seed=number))
    here = check_runs(runs, InProcess(), report=False)
    tables = [Series.load(one).tables for one in runs]
    there = check_runs(runs, spark, report=False)
    for one, other in zip(here, there, strict=True):
        assert (one.anomalies, one.witnesses, one.reasons) == (other.anomalies, other.witnesses, other.reasons)
    for run_dir, before in zip(runs, tables, strict=True):
        after = Series.load(run_dir).tables
        assert before["throughput"] == after["throughput"]
        assert before["latency"] == after["latency"]
        assert before["outages"] == after["outages"]
    assert there[0].coverage.engine == "Spark local[2]"


def test_one_process_says_how_far_it_is(tmp_path: Path) -> None:
    engine, heard = InProcess(), []
    engine.on_progress = heard.append
    check_run(forge_run(tmp_path / "run", [*healthy(1, 100, 0), *healthy(2, 300, 1)]), engine, report=False)
    assert heard == sorted(heard) and heard[-1] == 1.0
    assert len(set(heard)) > 2


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_says_how_far_it_is(tmp_path: Path, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[float] = []
    monkeypatch.setattr(spark, "on_progress", heard.append)
    runs = [forge_run(tmp_path / str(number), healthy(number, 100)) for number in range(20)]
    check_runs(runs, spark, report=False)
    assert heard == sorted(heard) and heard[-1] == 1.0
    assert any(0 < one < 1 for one in heard)


class Interrupted(InProcess):
    """An engine that is done with its last task first, and fails before it comes to the first one."""

    def check(self, tasks: Sequence[AnyTask], sizes: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
        for number, outcome in reversed(list(super().check(tasks, sizes))):
            if number == 0:
                raise OSError("gone")
            yield number, outcome


def test_a_run_has_its_verdict_when_its_tasks_end_whatever_others_do(tmp_path: Path) -> None:
    first, second = forge_run(tmp_path / "first", healthy(1)), forge_run(tmp_path / "second", healthy(2))
    with pytest.raises(OSError, match="gone"):
        check_runs([first, second], Interrupted(), report=False)
    assert Verdict.load(second).verdict == "valid"
    assert not (first / "verdict.json").exists()


def test_in_whatever_order_tasks_are_done_the_verdict_is_the_same(tmp_path: Path) -> None:
    class Backwards(InProcess):
        def check(self, tasks: Sequence[AnyTask], sizes: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
            return reversed(list(super().check(tasks, sizes)))

    logs = [INJECTIONS["lost"][1](healthy(number, 150, number), random.Random(number)) for number in range(4)]
    run = forge_run(tmp_path / "run", [one for log in logs for one in log])
    found = []
    for engine in (InProcess(), Backwards()):
        one = check_run(run, engine, report=False)
        partitions = Series.load(run).tables["partitions"].drop_columns("check_ms")
        found.append((one.anomalies, one.witnesses, one.reasons, one.statements, partitions))
    assert found[0] == found[1] and partitions.num_rows == 4


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_job_that_fails_says_why_and_the_next_one_does_not(tmp_path: Path, spark: SparkEngine) -> None:
    run = forge_run(tmp_path / "run", healthy(1))
    check_run(run, spark, report=False)
    tasks = well_formed_tasks(0, run / HISTORY_FILE, row_groups_of(run / HISTORY_FILE))
    unheard_of = [msgspec.structs.replace(one, rule="nobody knows it") for one in tasks]  # type: ignore[arg-type]
    with pytest.raises(Exception, match="Invalid enum value 'nobody knows it'"):
        list(spark.check(unheard_of, [1] * len(unheard_of)))
    assert check_run(run, spark, report=False).verdict == "valid"


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_run_that_breaks_under_spark_is_unknown_and_takes_no_other_with_it(
    tmp_path: Path, spark: SparkEngine
) -> None:
    good, broken = forge_run(tmp_path / "good", healthy(1)), forge_run(tmp_path / "broken", healthy(1))
    check_runs([good, broken], InProcess(), report=False)
    path = broken / HISTORY_FILE
    data = bytearray(path.read_bytes())
    for place in range(200, len(data) // 2, 40):
        data[place] ^= 0xFF
    path.write_bytes(bytes(data))
    assert [one.verdict for one in check_runs([good, broken], spark, report=False)] == ["valid", "unknown"]
