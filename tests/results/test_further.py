"""What a history holds beside operations on logs is checked as well, and goes into verdict and report."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from squall.results.check import check_run, verdict_of
from squall.results.checkers.engine.engines import InProcess
from squall.results.checkers.further import check_further
from squall.results.checkers.groups.rules import JOIN
from squall.results.history.history import History, close_history
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import Manifest
from squall.results.history.operation_tables import GROUPS, KINDS, LIST_APPEND, REGISTERS
from squall.results.history.segments import (
    ABSENT,
    SEGMENTS_FOLDER,
    HistoryWriter,
    RegisterCompletion,
    RegisterInvocation,
    SegmentHeader,
    segment_path,
)
from squall.results.report.render import plain, verdict_lines
from squall.results.report.report import REPORT_FILE
from squall.results.synthetic.forge import ORIGIN, Forged, forge_run, healthy
from squall.results.synthetic.forge_catalogue import FAMILIES
from squall.results.synthetic.forge_groups import group_table
from squall.results.verdict.verdict import Verdict

Rows = Sequence[RegisterInvocation | RegisterCompletion]


def asked(
    f: str,
    process: int,
    at: int,
    *,
    register: str = "retention.ms",
    value: int | None = None,
    expected: int | None = None,
) -> RegisterInvocation:
    return RegisterInvocation(f, process, 0, ORIGIN + at, ORIGIN + at, register, value, expected)


def answered(process: int, at: int, kind: str = "ok", **facts: object) -> RegisterCompletion:
    return RegisterCompletion(process, kind, ORIGIN + at, **facts)  # type: ignore[arg-type]


WORKS: Rows = [
    asked("read", 1, 10),
    answered(1, 20, found=ABSENT),
    asked("write", 2, 30, value=5),
    answered(2, 40, version=1),
    asked("cas", 3, 50, expected=5, value=7),
    answered(3, 60, version=2),
    asked("cas", 2, 70, expected=5, value=8),
    answered(2, 80, "fail", refused=True, found=7, version=2),
    asked("read", 1, 90),
    answered(1, 100, found=7, version=2),
]
NOTHING_TOLD = f"check {REGISTERS}: no conclusive operation was acknowledged: nothing was checked"
STALE: Rows = [*WORKS, asked("read", 4, 110), answered(4, 120, found=5)]
OVERLAPPING: Rows = [
    *WORKS[:4],
    asked("cas", 3, 50, expected=5, value=7),
    asked("read", 4, 55),
    answered(4, 58, found=5),
    answered(3, 60),
]


def recorded(run: Path, rows: Rows, operations: list[Forged] | None = None, **manifest: object) -> Path:
    """A run with operations on registers, and on a log if there are any."""
    forge_run(run, operations or [], **{"checks": (REGISTERS,), **manifest})  # type: ignore[arg-type]
    with HistoryWriter(segment_path(run, 1), SegmentHeader(Manifest.load(run).run_id, 1)) as writer:
        for row in rows:
            if isinstance(row, RegisterInvocation):
                writer.invoke(row)
            else:
                writer.complete(row)
    return run


def judged(run: Path) -> Verdict:
    """The verdict, which is the same from segments, from Parquet, and again."""
    alone = verdict_of(run)
    verdict = check_run(run, InProcess())
    assert verdict.verdict == alone.verdict == check_run(run, InProcess()).verdict
    assert verdict.anomalies == alone.anomalies
    return verdict


def test_registers_that_work_are_valid_and_counted(tmp_path: Path) -> None:
    verdict = judged(recorded(tmp_path / "run", WORKS))
    assert (verdict.verdict, verdict.reasons) == ("valid", ())
    (checked,) = verdict.further
    assert (checked.check, checked.holds, checked.checked, checked.acknowledged) == (REGISTERS, True, 5, 4)
    assert checked.counts["registers"] == 1
    assert verdict.statements == (), "nothing is said of logs where nobody asked"
    first, statement, _, outcome = plain(verdict_lines(verdict)).splitlines()[:4]
    assert first.startswith("check  operations 5, registers 1, decided by zones 1 "), "and no word of sends"
    assert statement.strip() == "linearizable registers ✔"
    assert outcome.startswith("VALID     4 acknowledged operations: linearizable registers")


def test_a_stale_read_is_invalid_with_a_witness_and_a_picture(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", STALE)
    verdict = judged(run)
    assert verdict.verdict == "invalid"
    assert [(one.name, one.where) for one in verdict.anomalies] == [("stale_register_read", {REGISTERS: 1})]
    (told,) = verdict.further_witnesses
    assert told.title == "register retention.ms: a register showed a value that had been replaced before."
    assert "the compare-and-set of 5 to 7 had ended before the read 5 began" in plain(verdict_lines(verdict))
    page = (run / REPORT_FILE).read_text()
    assert 'aria-label="operations on a register over time"' in page
    assert told.title in page
    assert Verdict.load(run).further_witnesses == verdict.further_witnesses


def test_a_read_that_overlaps_the_change_may_show_either(tmp_path: Path) -> None:
    assert judged(recorded(tmp_path / "run", OVERLAPPING)).verdict == "valid"


def test_a_change_of_unknown_outcome_may_count_later(tmp_path: Path) -> None:
    late = [*WORKS, asked("write", 9, 105, value=99), answered(9, 106, "info"), asked("read", 4, 110)]
    assert judged(recorded(tmp_path / "seen", [*late, answered(4, 120, found=99)])).verdict == "valid"
    assert judged(recorded(tmp_path / "unseen", [*late, answered(4, 120, found=7)])).verdict == "valid"


def test_changes_of_unknown_outcome_and_writes_alone_check_nothing(tmp_path: Path) -> None:
    """Nobody saw what the register held: whatever it was, no answer says otherwise."""
    unknown = [asked("write", 1, 10, value=5), answered(1, 20, "info"), asked("write", 2, 30, value=6)]
    blind = [asked("write", 1, 10, value=5), answered(1, 20), asked("write", 2, 30, value=6), answered(2, 40)]
    for name, rows in (("unknown", [*unknown, answered(2, 40, "info")]), ("blind", blind)):
        verdict = judged(recorded(tmp_path / name, rows, healthy(1), checks=("log", REGISTERS)))
        assert verdict.verdict == "unknown"
        assert verdict.reasons == (f"check {REGISTERS}: no conclusive operation was acknowledged: nothing was checked",)
    seen = [*blind, asked("read", 3, 50), answered(3, 60, found=6)]
    assert judged(recorded(tmp_path / "seen", seen, healthy(1), checks=("log", REGISTERS))).verdict == "valid"


def test_a_deleted_table_of_registers_is_derived_again(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", STALE, healthy(1), checks=("log", "availability"))
    assert judged(run).verdict == "invalid"
    table = run / KINDS[REGISTERS].file
    table.unlink()
    assert judged(run).verdict == "invalid" and table.exists()
    table.unlink()
    shutil.rmtree(run / SEGMENTS_FOLDER)
    for verdict in (check_run(run, InProcess()), verdict_of(run)):
        assert verdict.verdict == "unknown"
        assert "registers.parquet: holds 0 of the 6 operations on registers" in verdict.reasons[0]


def test_logs_and_registers_of_one_run_are_both_judged(tmp_path: Path) -> None:
    both = judged(recorded(tmp_path / "works", WORKS, healthy(1), checks=("log", "availability")))
    assert both.verdict == "valid" and len(both.statements) == 3 and len(both.further) == 1
    wrong = judged(recorded(tmp_path / "stale", STALE, healthy(1), checks=("log", "availability")))
    assert wrong.verdict == "invalid", "what is in a history is checked, whether a suite names it or not"


def test_a_run_about_logs_says_nothing_of_what_it_does_not_hold(tmp_path: Path) -> None:
    run = forge_run(tmp_path / "run", healthy(1))
    verdict = judged(run)
    assert verdict.further == () and "further" not in (run / "verdict.json").read_text()
    assert not (run / KINDS[REGISTERS].file).exists()


def test_what_was_asked_for_and_never_recorded_is_unknown(tmp_path: Path) -> None:
    verdict = judged(recorded(tmp_path / "run", [], checks=(REGISTERS,)))
    assert verdict.verdict == "unknown"
    assert "check registers: no such operation was recorded: nothing was checked" in verdict.reasons


def test_nothing_acknowledged_is_nothing_checked(tmp_path: Path) -> None:
    """Reads that failed and writes of unknown outcome say nothing."""
    rows = [asked("read", 1, 10), answered(1, 20, "fail"), asked("write", 2, 30, value=5)]
    verdict = judged(recorded(tmp_path / "run", rows))
    assert verdict.verdict == "unknown"
    assert "only 0 operations were acknowledged; fewer than 1 (min_acknowledged) prove nothing" in verdict.reasons


def test_too_few_acknowledged_operations_prove_nothing(tmp_path: Path) -> None:
    assert judged(recorded(tmp_path / "enough", WORKS, min_acknowledged=4)).verdict == "valid"
    assert judged(recorded(tmp_path / "short", WORKS, min_acknowledged=5)).verdict == "unknown"


def test_a_check_that_says_nothing_of_operations_does_not_make_a_run_valid(tmp_path: Path) -> None:
    verdict = judged(forge_run(tmp_path / "run", healthy(1), checks=("availability",)))
    assert verdict.verdict == "unknown"
    assert "no check of operations was requested: nothing was checked" in verdict.reasons


def test_operations_keep_one_numbering_and_the_rules_of_processes_together(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", WORKS, healthy(1))
    close_history(run)
    history = History.load(run)
    ids = history.table["op_id"].to_pylist() + history.further[REGISTERS]["op_id"].to_pylist()
    assert len(set(ids)) == len(ids) == history.table.num_rows + 5
    busy = healthy(1)[0]
    early = asked("read", busy.process, busy.invoked + 1)
    with pytest.raises(IllFormedHistory, match=f"process {busy.process} has two outstanding operations"):
        History.load(recorded(tmp_path / "two", [early], healthy(1)))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([asked("swap", 1, 5)], ":2: f 'swap' of a register is not one of read, write, cas"),
        ([asked("write", 1, 5)], ":2: a write without a value"),
        ([asked("cas", 1, 5, value=5)], ":2: a cas without an expected value"),
        ([asked("read", 1, 5), asked("read", 1, 6)], ":3: process 1 has two outstanding operations"),
        ([asked("read", 1, 5), answered(1, 4)], ":3: time runs backwards within process 1"),
        ([answered(1, 4)], ":2: a completion of process 1 without an invocation"),
    ],
)
def test_an_ill_formed_operation_on_a_register_is_unknown_and_named(tmp_path: Path, rows: Rows, problem: str) -> None:
    verdict = judged(recorded(tmp_path / "run", rows))
    assert verdict.verdict == "unknown"
    assert problem in verdict.reasons[0]


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_forged_run_of_each_kind_is_valid(tmp_path: Path, kind: str) -> None:
    FAMILIES[kind].write(tmp_path, 4, 200, None)
    assert judged(tmp_path).verdict == "valid"


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_first_anomaly_of_each_kind_goes_the_whole_way_to_a_verdict(tmp_path: Path, kind: str) -> None:
    case = FAMILIES[kind].injections[0]
    FAMILIES[kind].write(tmp_path, 4, 200, case)
    verdict = judged(tmp_path)
    assert verdict.verdict == "invalid"
    assert case.anomaly in [one.name for one in verdict.anomalies]
    told = [one.anomaly for one in (*verdict.witnesses, *verdict.further_witnesses)]
    assert case.anomaly in told


SAY_TOO_LITTLE = (
    "a reader of uncommitted records",
    "a commit after the final read",
    "one transaction reads another",
    "a record of a transaction that began as its reader ended",
    "an unknown transaction at another's offset nobody saw",
)
"""Near-misses of the transactional log in which nobody looked for a committed record: it may be there or not."""


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "name"), [(kind, one.name) for kind, each in FAMILIES.items() for one in each.cases])
def test_every_case_goes_the_whole_way_to_a_verdict(tmp_path: Path, kind: str, name: str) -> None:
    case = FAMILIES[kind].case(name)
    FAMILIES[kind].write(tmp_path, 5, 300, case)
    verdict = judged(tmp_path)
    if case.anomaly is None:
        assert verdict.verdict == ("unknown" if name in SAY_TOO_LITTLE else "valid"), verdict.anomalies
    else:
        assert verdict.verdict == "invalid"
        assert case.anomaly in [one.name for one in verdict.anomalies]


def test_a_weaker_model_forgives_what_only_a_stronger_one_forbids(tmp_path: Path) -> None:
    FAMILIES[LIST_APPEND].write(tmp_path, 4, 200, FAMILIES[LIST_APPEND].case("write skew"))
    assert judged(tmp_path).verdict == "invalid"
    Manifest.load(tmp_path).with_changes(workload={"model": "read-committed"}).save(tmp_path)
    verdict = judged(tmp_path)
    assert (verdict.verdict, verdict.further[0].noted) == ("valid", {"G2": 1})
    Manifest.load(tmp_path).with_changes(workload={"model": "wishful"}).save(tmp_path)
    assert judged(tmp_path).verdict == "unknown"


def test_every_check_that_was_asked_for_must_have_something_to_look_at(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", WORKS, checks=(REGISTERS, GROUPS))
    assert "check groups: no such operation was recorded: nothing was checked" in judged(run).reasons


def test_a_group_whose_joins_do_not_tell_their_generation_is_not_valid() -> None:
    history = FAMILIES[GROUPS].healthy(1)
    silent = [replace(one, generation=None) if one.f == JOIN else one for one in history]
    assert check_further(GROUPS, group_table(history), {}).holds is True
    result = check_further(GROUPS, group_table(silent), {})
    assert (result.holds, result.anomalies) == (None, {})
    assert "group 1: no acknowledged join has a generation" in result.undecided[0]


@pytest.mark.parametrize("checks", [(REGISTERS,), (REGISTERS, "availability")])
def test_checks_that_leave_out_the_log_make_no_verdict_stronger(tmp_path: Path, checks: tuple[str, ...]) -> None:
    """A log without its final read proves as little as if it had been asked for."""
    unread = [one for one in healthy(1) if one.f not in ("marker", "final_poll")]
    both = judged(recorded(tmp_path / "both", WORKS, unread, checks=("log", *checks)))
    narrowed = judged(recorded(tmp_path / "narrowed", WORKS, unread, checks=checks))
    assert both.verdict == narrowed.verdict == "unknown"
    assert set(both.reasons) <= set(narrowed.reasons)
    whole = judged(recorded(tmp_path / "whole", WORKS, healthy(1), checks=checks, min_acknowledged=4))
    assert (whole.verdict, len(whole.statements)) == ("valid", 3)
