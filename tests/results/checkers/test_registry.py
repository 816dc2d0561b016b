"""A check is declared once: names, tables, witnesses and anomalies follow from its declaration, or agree with it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from squall.harness.plugins.check_plugins import CHECKS
from squall.results.check import check_run
from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.common.check import Outcome, Proof, TableCheck
from squall.results.checkers.engine.engines import InProcess
from squall.results.checkers.further import FurtherWitness, check_further
from squall.results.checkers.log.anomalies import APPENDS, LOG_ANOMALIES, LOSSES, READS
from squall.results.checkers.registry import FURTHER_CHECKS, KNOWN_CHECKS, LOG, OUR_CHECKS
from squall.results.history.history import close_history
from squall.results.history.operation_kinds import GROUPS, OPERATION_KINDS
from squall.results.history.operation_tables import KINDS, recorded_kinds
from squall.results.report.report import REPORT_FILE
from squall.results.synthetic.forge_catalogue import FAMILIES, Case
from squall.results.witnesses.presentations import PRESENTATIONS

CASES = [(kind, case) for kind, family in FAMILIES.items() for case in family.injections]


def test_every_kind_has_its_table_and_its_check_and_forged_histories() -> None:
    assert tuple(FURTHER_CHECKS) == tuple(KINDS) == OPERATION_KINDS
    assert len(OUR_CHECKS) == len(FURTHER_CHECKS)
    assert tuple(FAMILIES) == (LOG, *FURTHER_CHECKS)


def test_suites_may_name_every_check() -> None:
    assert CHECKS == KNOWN_CHECKS == ("log", "availability", *KINDS)


def test_every_check_has_facts_that_a_verdict_holds_and_shows() -> None:
    fields = {one.name for one in msgspec.structs.fields(FurtherWitness)} - {"anomaly"}
    assert set(PRESENTATIONS) == fields
    assert {one.proof for one in OUR_CHECKS} <= fields


def test_an_anomaly_has_one_meaning_whoever_declares_it() -> None:
    for one in (*LOG_ANOMALIES, *(each for check in OUR_CHECKS for each in check.anomalies)):
        assert ANOMALIES[one.name] is one


def test_every_anomaly_of_logs_contradicts_one_statement() -> None:
    assert Counter((*APPENDS, *READS, *LOSSES)) == Counter(one.name for one in LOG_ANOMALIES)


@pytest.mark.parametrize(("kind", "case"), CASES, ids=[f"{kind}: {case.name}" for kind, case in CASES])
def test_a_check_reports_only_what_it_declares(kind: str, case: Case, tmp_path: Path) -> None:
    if kind == LOG:
        assert set(FAMILIES[LOG].found(case.history(4))) <= {one.name for one in LOG_ANOMALIES}
        return
    FAMILIES[kind].write(tmp_path, 4, 200, case)
    close_history(tmp_path)
    (table,) = recorded_kinds(tmp_path, None).values()
    result = check_further(kind, table, {})
    declared = {one.name for one in FURTHER_CHECKS[kind].anomalies}
    assert case.anomaly in result.anomalies
    assert {*result.anomalies, *(one.anomaly for one in result.witnesses)} <= declared


def test_declarations_are_read_without_arrays() -> None:
    """A suite is validated with the names of checks, long before anything is checked."""
    heavy = ("pyarrow", "numpy", "numba", "pandas")
    script = f"import sys, squall.harness.scenario.suite; print([one for one in {heavy} if one in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_check_that_describes_its_proofs_in_words_needs_its_declaration_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(table: Any, workload: Any, seconds: float) -> Outcome[Proof]:
        proof = Proof("stale_commit", "an old position", (("member 3", "received position 10"),))
        return Outcome(table.num_rows, {"stale_commit": 1}, (proof,), counts={"rows": table.num_rows})

    declared = TableCheck(GROUPS, "no old position", look, (ANOMALIES["stale_commit"],))
    monkeypatch.setitem(FURTHER_CHECKS, GROUPS, declared)  # type: ignore[arg-type]
    FAMILIES[GROUPS].write(tmp_path, 4, 200, None)
    verdict = check_run(tmp_path, InProcess())
    assert (verdict.verdict, verdict.further[0].statement) == ("invalid", "no old position")
    (told,) = verdict.further_witnesses
    assert (told.title, told.hint) == ("groups: an old position", ANOMALIES["stale_commit"].hint)
    assert [(line.subject, line.text) for line in told.lines] == [("member 3", "received position 10")]
    assert "received position 10" in (tmp_path / REPORT_FILE).read_text()
