"""A kill at a disk call: proven by the process table and by what the files of the call are like."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from squall.nemesis.entries import AnyFault
from squall.nemesis.faults.disk.disk import watched_calls
from squall.nemesis.faults.processes.failpoint import why_not_there
from squall.nemesis.options import KillAtCall

OPTIONS: TypeAdapter[Any] = TypeAdapter(AnyFault)
LOG, NEXT = "/data/events-0/00.log", "/data/events-0/01.log"


def options(**written: Any) -> KillAtCall:
    found = OPTIONS.validate_python({"fault": "kill-at-call", "target": "b1", **written})
    assert isinstance(found, KillAtCall)
    return found


def deed(before: dict[str, int | None], now: dict[str, int | None], error: str = "") -> dict[str, Any]:
    return {"call": "write", "when": "before", "before": before, "now": now, "error": error}


def test_the_call_is_one_that_nodes_must_be_watched_for() -> None:
    assert watched_calls([options(call="rename")]) == ("rename",)


@pytest.mark.parametrize(
    ("call", "when", "before", "now", "reason"),
    [
        ("write", "before", {LOG: 10}, {LOG: 10}, None),
        ("write", "before", {LOG: 10}, {LOG: 20}, "changed, although the call was not made"),
        ("write", "after", {LOG: 10}, {LOG: 20}, None),
        ("write", "after", {LOG: 10}, {LOG: 5}, "became shorter"),
        ("create", "before", {LOG: None}, {LOG: None}, None),
        ("create", "before", {LOG: None}, {LOG: 0}, "changed"),
        ("create", "after", {LOG: None}, {LOG: 0}, None),
        ("create", "after", {LOG: None}, {LOG: None}, "does not exist, although the call was made"),
        ("remove", "after", {LOG: 9}, {LOG: None}, None),
        ("remove", "after", {LOG: 9}, {LOG: 9}, "still exists, although the call was made"),
        ("rename", "after", {LOG: 9, NEXT: None}, {LOG: None, NEXT: 9}, None),
        ("rename", "after", {LOG: 9, NEXT: None}, {LOG: 9, NEXT: None}, "does not exist"),
    ],
)
def test_files_bear_out_that_it_died_there_or_they_do_not(
    call: str, when: str, before: dict[str, int | None], now: dict[str, int | None], reason: str | None
) -> None:
    found = why_not_there(options(call=call, when=when), deed(before, now))
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_a_call_that_failed_by_itself_is_no_proof() -> None:
    assert why_not_there(options(when="after"), deed({LOG: 1}, {LOG: 1}, "File exists")) == (
        "the call itself failed: File exists"
    )


@pytest.mark.parametrize(
    ("wrong", "where"),
    [({"nth": 0}, "nth"), ({"call": "open"}, "call"), ({"when": "while"}, "when"), ({"path": ""}, "path")],
)
def test_what_makes_no_sense_is_an_error_at_its_place(wrong: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError) as caught:
        options(**wrong)
    assert caught.value.errors()[0]["loc"][-1] == where
