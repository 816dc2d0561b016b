"""The tables beside a history say whose they are: what is found in another run's is no verdict about this one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import squall.results
from squall.results.check import check_run, verdict_of
from squall.results.checkers.engine.engines import InProcess, TaskFailure, outcome_of
from squall.results.checkers.further import FurtherTask
from squall.results.history.history import HISTORY_FILE, TYPES, History, close_history
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import MANIFEST_FILE
from squall.results.history.operation_tables import GROUPS, KINDS, LIST_APPEND, REGISTERS, write_kind
from squall.results.history.parquet_files import RUN_KEY, run_id_of, seal_path, write_sealed
from squall.results.history.segments import SEGMENTS_FOLDER, RegisterCompletion, segment_path
from squall.results.synthetic.forge import ORIGIN, forge_run, healthy
from squall.results.synthetic.forge_catalogue import FAMILIES, LOG
from squall.results.verdict.verdict import Verdict
from tests.facts import naming
from tests.results.test_further import STALE, WORKS, Rows, recorded

FURTHER = [name for name in FAMILIES if name != LOG]


def both(run: Path) -> tuple[Verdict, Verdict]:
    """The two ways to a verdict; the one that writes nothing first."""
    return verdict_of(run), check_run(run, InProcess(), report=False)


def made(run: Path, kind: str, seed: int, *, spoilt: bool = False) -> Path:
    """A forged run that was judged, and of which no segments are left that its tables could be made of again."""
    run.mkdir()
    FAMILIES[kind].write(run, seed, 200, FAMILIES[kind].injections[0] if spoilt else None)
    for verdict in both(run):
        assert verdict.verdict == ("invalid" if spoilt else "valid")
    shutil.rmtree(run / SEGMENTS_FOLDER)
    return run


def copied(kind: str, source: Path, target: Path) -> None:
    """The table of a kind, with its seal."""
    table = source / KINDS[kind].file
    for path in (table, seal_path(table)):
        shutil.copy2(path, target / path.name)


@pytest.mark.parametrize("kind", FURTHER)
def test_a_valid_runs_table_says_nothing_about_an_invalid_run(tmp_path: Path, kind: str) -> None:
    bad, good = made(tmp_path / "bad", kind, 1, spoilt=True), made(tmp_path / "good", kind, 2)
    copied(kind, good, bad)
    for verdict in both(bad):
        assert verdict.verdict == "unknown"
        said = f"bad/{KINDS[kind].file}: is the table of run 'forged-2', and must be that of run 'forged-1': "
        assert said in verdict.reasons[0]
    with pytest.raises(IllFormedHistory, match=naming("run 'forged-2'")):
        squall.results.load(bad)


@pytest.mark.parametrize("kind", FURTHER)
def test_a_table_that_does_not_say_whose_it_is_is_unknown_until_it_does(tmp_path: Path, kind: str) -> None:
    run = made(tmp_path / "run", kind, 2)
    path = run / KINDS[kind].file
    table = pq.read_table(path).replace_schema_metadata(None)
    write_sealed(path, table)
    for verdict in both(run):
        assert verdict.verdict == "unknown"
        assert "does not say of which run it is, and must say 'forged-2'" in verdict.reasons[0]
        assert "write it with write_kind(..., run_id='forged-2')" in verdict.reasons[0]
    with pytest.raises(IllFormedHistory, match="does not say of which run it is"):
        squall.results.load(run)
    write_kind(run, kind, table, run_id="forged-2")
    assert [verdict.verdict for verdict in both(run)] == ["valid", "valid"]
    assert squall.results.load(run).history.further[kind].equals(table)


@pytest.mark.parametrize("kind", FURTHER)
def test_every_table_says_whose_it_is_in_its_footer(tmp_path: Path, kind: str) -> None:
    path = made(tmp_path / "run", kind, 3) / KINDS[kind].file
    assert pq.ParquetFile(path).metadata.metadata[b"squall.run_id"] == b"forged-3"


@pytest.mark.parametrize("kind", FURTHER)
def test_who_carries_a_task_out_looks_whose_table_lies_there(tmp_path: Path, kind: str) -> None:
    path = made(tmp_path / "run", kind, 2) / KINDS[kind].file
    outcome = outcome_of(FurtherTask(0, str(path), kind, {}, "forged-1"))
    assert isinstance(outcome, TaskFailure) and "is the table of run 'forged-2'" in outcome.problem


FOUND_LAST = [*WORKS, *STALE[-2:-1], RegisterCompletion(4, "ok", ORIGIN + 120, found=7)]
"""As many operations as `STALE`, of a register that works."""


@pytest.mark.parametrize("says", ["another run", "nothing"])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("rows", [FOUND_LAST, WORKS], ids=["as many", "fewer"])
def test_registers_of_another_run_are_made_again_of_the_segments(
    tmp_path: Path, rows: Rows, closed: bool, says: str
) -> None:
    bad = recorded(tmp_path / "bad", STALE, healthy(1), seed=1)
    good = recorded(tmp_path / "good", rows, healthy(1), seed=2)
    assert [one.verdict for run in (bad, good) for one in both(run)] == ["invalid", "invalid", "valid", "valid"]
    copied(REGISTERS, good, bad)
    table = bad / KINDS[REGISTERS].file
    if says == "nothing":
        write_sealed(table, pq.read_table(table).replace_schema_metadata(None))
    if not closed:
        (bad / HISTORY_FILE).unlink()
    assert [one.verdict for one in both(bad)] == ["invalid", "invalid"]
    assert run_id_of(table, []) == "forged-1"


def test_half_of_the_segments_never_replaces_a_whole_history(tmp_path: Path) -> None:
    """Whoever took the segment of the registers away, and put another run's table there, gets no verdict for it."""
    bad, good = (recorded(tmp_path / str(seed), STALE, healthy(1), seed=seed, segments=None) for seed in (1, 2))
    for run in (bad, good):
        close_history(run)
    copied(REGISTERS, good, bad)
    segment_path(bad, 1).unlink()
    before = (bad / HISTORY_FILE).read_bytes()
    for verdict in both(bad):
        assert verdict.verdict == "unknown"
        assert "registers.parquet: is the table of run 'forged-2'" in verdict.reasons[0]
    assert (bad / HISTORY_FILE).read_bytes() == before


def test_registers_of_another_run_beside_a_history_without_any_are_unknown(tmp_path: Path) -> None:
    log = forge_run(tmp_path / "log", healthy(1), seed=1)
    assert [one.verdict for one in both(log)] == ["valid", "valid"]
    good = recorded(tmp_path / "good", WORKS, seed=2)
    close_history(good)
    copied(REGISTERS, good, log)
    for verdict in both(log):
        assert verdict.verdict == "unknown"
        assert "registers.parquet: is the table of run 'forged-2'" in verdict.reasons[0]


def test_derived_transactions_are_derived_again_over_a_foreign_table(tmp_path: Path) -> None:
    """A table of before there was anything said, too."""
    run = forge_run(tmp_path / "run", healthy(1), seed=1, workload={"name": LIST_APPEND})
    expected = both(run)[1]
    path = run / KINDS[LIST_APPEND].file
    own = pq.read_table(path)
    for table in (own.slice(0, 1).replace_schema_metadata({RUN_KEY: "another"}), own.replace_schema_metadata(None)):
        write_sealed(path, table)
        alone, checked = both(run)
        assert (alone.verdict, alone.reasons) == (checked.verdict, checked.reasons)
        assert (checked.verdict, checked.reasons) == (expected.verdict, expected.reasons)
        assert run_id_of(path, []) == "forged-1" and pq.read_table(path).equals(own)


def test_without_a_manifest_tables_must_be_of_the_run_of_which_the_history_is(tmp_path: Path) -> None:
    run, other = made(tmp_path / "run", GROUPS, 1), made(tmp_path / "other", GROUPS, 2)
    (run / MANIFEST_FILE).unlink()
    assert GROUPS in History.load(run).further
    copied(GROUPS, other, run)
    with pytest.raises(IllFormedHistory, match="must be that of run 'forged-1'"):
        History.load(run)
    assert History.load(run, kinds=()).further == {}
    with pytest.raises(IllFormedHistory, match="is the history of run 'forged-1'"):
        History.load(run, run_id="forged-2", kinds=())


# A history and its registers keep the rules together ---------------------------------------------------------------


def changed(run: Path, **values: int) -> None:
    """Change the last operation on a register, in the table of this very run."""
    table = pq.read_table(run / KINDS[REGISTERS].file)
    rows = table.to_pylist()
    rows[-1] |= values
    write_kind(run, REGISTERS, pa.Table.from_pylist(rows, table.schema), run_id="forged-1")


@pytest.fixture
def logs_and_registers(tmp_path: Path) -> Path:
    """A valid run of both, whose segments are gone."""
    run = recorded(tmp_path / "run", WORKS, healthy(1), checks=("log", "availability"))
    assert [one.verdict for one in both(run)] == ["valid", "valid"]
    shutil.rmtree(run / SEGMENTS_FOLDER)
    return run


def test_an_operation_that_is_in_both_tables_is_unknown(logs_and_registers: Path) -> None:
    twice = History.load(logs_and_registers).table["op_id"][7].as_py()
    changed(logs_and_registers, op_id=twice)
    for verdict in both(logs_and_registers):
        assert verdict.verdict == "unknown"
        assert verdict.reasons[0].endswith(f"registers.parquet:4: operation {twice} is recorded twice")


def last_on_a_log(run: Path) -> dict[str, Any]:
    """The one that ended last, of all that were acknowledged."""
    rows = [row for row in History.load(run).table.to_pylist() if row["type"] == TYPES["ok"]]
    return max(rows, key=lambda row: (row["completed"], row["invoked"]))


def test_a_process_with_an_operation_in_each_table_at_once_is_unknown(logs_and_registers: Path) -> None:
    row = last_on_a_log(logs_and_registers)
    end = row["completed"]
    changed(logs_and_registers, process=row["process"], invoked=end - 1, completed=end + 5)
    for verdict in both(logs_and_registers):
        assert verdict.verdict == "unknown"
        problem = f"registers.parquet:4: process {row['process']} has two outstanding operations"
        assert verdict.reasons[0].endswith(problem)


def test_a_process_that_works_on_a_log_and_then_on_a_register_is_no_breach(logs_and_registers: Path) -> None:
    """The near-miss, to the nanosecond."""
    row = last_on_a_log(logs_and_registers)
    end = row["completed"]
    changed(logs_and_registers, process=row["process"], invoked=end, completed=end + 5)
    assert [one.verdict for one in both(logs_and_registers)] == ["valid", "valid"]


def test_an_operation_on_a_register_that_ended_before_it_began_is_unknown(logs_and_registers: Path) -> None:
    changed(logs_and_registers, completed=ORIGIN)
    for verdict in both(logs_and_registers):
        assert verdict.verdict == "unknown"
        assert "registers.parquet:4: time runs backwards within process 1" in verdict.reasons[0]
