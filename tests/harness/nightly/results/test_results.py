"""What a night says to machines and people: unknown is never a pass, and everything foreign is escaped."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import xmlschema

from squall.harness.nightly.ledger.ledger import Event, LeftOut, Lost, Omission, TornDown
from squall.harness.nightly.ledger.night_state import fold
from squall.harness.nightly.results.junit import Case, junit_xml
from squall.harness.nightly.results.night_report import (
    NightView,
    annotation,
    as_json,
    cases_of,
    github_annotations,
    markdown,
)
from squall.harness.nightly.results.suite_report import SuiteReport, SuiteRun
from tests.harness.nightly.nights import attempts, begun, ended, item, plan, working

SCHEMA = xmlschema.XMLSchema(Path(__file__).parents[1] / "junit.xsd")
HOSTILE = "100 % a|b <script>`x`</script>\n::error::\x1b[31m"


def view(*events: Event, status: int | None = 1, **more: Any) -> NightView:
    items = [
        item(name, suite="suites/a.yaml", repeat=f"squall run {name}") for name in ("good", "bad", "doubt", "never")
    ]
    left = (Omission(item=item("dear"), seconds=900.0, value=1.0, why="takes about 900 s"),)
    state = fold([plan(*items, left_out=left), working(), *events])
    return NightView(state=state, now=1.0e9 + 60, status=status, classname="nightly", **more)


NIGHT = (
    *attempts("good", "unknown", "valid"),
    begun("bad"),
    ended("bad", "invalid", anomalies=("lost_write",), problem=HOSTILE, cause="finding", directory="runs/bad/1"),
    *attempts("doubt", "unknown", "error"),
    Lost(cluster="a", hosts=("b2",), why="during doubt"),
    LeftOut(item="never", why="no hosts are left"),
    TornDown(round=1, seconds=3.0, problem="the teardown hook ended with 3"),
)


def case_named(name: str, document: str) -> ET.Element:
    (found,) = [one for one in ET.fromstring(document.split("\n", 1)[1]).iter("testcase") if one.get("name") == name]
    return found


def test_junit_has_a_testcase_for_every_item_and_holds_to_its_schema() -> None:
    document = junit_xml("night", cases_of(view(*NIGHT)), started="2026-11-25T02:00:00", properties={"suite": HOSTILE})
    SCHEMA.validate(document)
    suite = ET.fromstring(document.split("\n", 1)[1])[0]
    assert {one: suite.get(one) for one in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5", "failures": "1", "errors": "1", "skipped": "2",
    }  # fmt: skip
    assert case_named("bad", document).find("failure") is not None
    assert case_named("doubt", document).find("error") is not None
    assert len(case_named("good", document)) == 2, "properties, and the earlier attempt"
    properties = {one.get("name"): one.get("value") for one in case_named("bad", document).iter("property")}
    assert properties["seed"] == "7" and properties["verdict"] == "invalid" and properties["repeat"] == "squall run bad"


@pytest.mark.parametrize("ending", ["unknown", "error", "refused", "invalid"])
@pytest.mark.parametrize("status", [None, 1])
def test_what_is_not_as_expected_is_never_a_pass(ending: Any, status: int | None) -> None:
    (one,) = [case for case in cases_of(view(*attempts("bad", ending), status=status)) if case.name == "bad"]
    assert one.outcome == ("failure" if ending == "invalid" else "error")


def test_an_item_that_has_not_run_yet_is_an_error() -> None:
    outcomes = {one.name: one.outcome for one in cases_of(view(begun("good"), status=None))}
    assert outcomes == {"good": "error", "bad": "error", "doubt": "error", "never": "error", "dear": "skipped"}


def test_an_excused_ending_is_skipped_and_a_warning() -> None:
    excused = view(*attempts("doubt", "unknown", "unknown"), excused=frozenset({"doubt"}))
    (one,) = [case for case in cases_of(excused) if case.name == "doubt"]
    assert one.outcome == "skipped" and one.message.startswith("quarantined: unknown")
    assert github_annotations(excused)[0].startswith("::warning title=doubt")


def test_characters_that_xml_cannot_hold_are_replaced() -> None:
    document = junit_xml("n\x00", [Case("c\x1b\ud800", "\ufffe", outcome="error", message="\x07", detail="\x01]]>")])
    SCHEMA.validate(document.replace("\ud800", "?"))
    assert case_named("c��", document).find("error").text == "�]]>"  # type: ignore[union-attr]


def test_a_schema_refuses_a_pass_with_two_outcomes() -> None:
    document = junit_xml("n", [Case("a", "b", outcome="error", message="m")])
    doubled = document.replace("<error", '<skipped message="x" /><error')
    assert SCHEMA.is_valid(document) and not SCHEMA.is_valid(doubled)


def test_annotations_are_one_line_each_and_cannot_be_forged() -> None:
    lines = github_annotations(view(*NIGHT, problems=("quarantine of x expired",)))
    assert lines[0].startswith("::error title=bad,file=suites/a.yaml::invalid (lost_write) where valid is expected")
    assert "%0A" in lines[0] and "100 %25 a|b" in lines[0]
    assert not [line for line in lines if "\n" in line]
    assert [line.split("::")[1] for line in lines] == [
        "error title=bad,file=suites/a.yaml",
        "error title=doubt,file=suites/a.yaml",
        "error title=quarantine",
        "error title=teardown",
        "warning title=good",
    ]
    assert annotation("error", "a:b,c", "x", "f.yaml") == "::error title=a%3Ab%2Cc,file=f.yaml::x"


def test_the_summary_names_what_failed_first_and_escapes_it() -> None:
    text = markdown(view(*NIGHT, cost=1.5))
    lines = text.splitlines()
    assert lines[0] == "## ❌ Night n"
    assert lines[2] == (
        "1 of 4 items ended as expected, 1 with a finding, 1 without a conclusion, 2 left out. "
        "It took 3 seconds and cost 1.50."
    )
    rows = [line for line in lines if line.startswith("| ") and "repeat with" not in line]
    assert rows[0].startswith("| bad | invalid (lost&#95;write) |") and rows[1].startswith("| doubt | error |")
    assert all(line.count("|") == 5 for line in rows) and "<script>" not in text and "\x1b" not in text
    assert "Left out: dear (takes about 900 s), never (no hosts are left)" in text
    assert "Lost: b2 of a" in text and "retried: good" in text


def test_a_summary_of_many_failures_is_read_in_a_minute() -> None:
    names = [f"s{number}" for number in range(200)]
    events = [event for name in names for event in attempts(name, "invalid")]
    state = fold([plan(*map(item, names)), working(), *events])
    text = markdown(NightView(state=state, now=0, status=1))
    assert len(text.splitlines()) <= 60 and "175 more" in text


def test_night_json_has_both_attempts_and_every_reason() -> None:
    found = json.loads(json.dumps(as_json(view(*NIGHT))))
    by_id = {one["id"]: one for one in found["items"]}
    assert [one["verdict"] for one in by_id["good"]["attempts"]] == ["unknown", "valid"] and by_id["good"]["flaky"]
    assert by_id["bad"]["directory"] == "runs/bad/1" and by_id["bad"]["problem"] == HOSTILE
    assert {one["id"]: one["why"] for one in found["left_out"]} == {
        "dear": "takes about 900 s", "never": "no hosts are left",
    }  # fmt: skip
    assert found["finished"] and found["exit_status"] == 1 and found["lost"][0]["hosts"] == ["b2"]


def test_a_suite_that_was_interrupted_says_what_did_not_end() -> None:
    runs = [
        SuiteRun("a", 1, "valid", "valid", True, seconds=3, repeat="squall run a"),
        SuiteRun("b", 1, "valid", None, False, refused=True, problem="b: no host offers it\n    leave it out"),
        SuiteRun("c", 1, "valid", "unknown", False, problem="no final read"),
        SuiteRun("d", 1, "valid", None, False),
    ]
    report = SuiteReport("suites/a.yaml", "2026-11-25T02:00:00+00:00", runs, None)
    assert [one["verdict"] for one in report.as_json()["items"]] == ["valid", "refused", "unknown", None]
    assert not report.as_json()["finished"]
    SCHEMA.validate(report.junit())
    errors = [one.get("message") for one in ET.fromstring(report.junit().split("\n", 1)[1]).iter("error")]
    assert errors == ["refused: b: no host offers it", "unknown where valid is expected", "did not end"]
