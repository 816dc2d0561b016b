"""Witnesses of groups and of transactional logs are told in words that a person can follow, and drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.checkers.further import FurtherResult, check_further
from squall.results.checkers.groups.anomalies import GROUP_ANOMALIES
from squall.results.checkers.groups.rules import COMMIT, JOIN, NOWHERE, POLL, POSITION
from squall.results.checkers.kernels.operations import INFO, OK
from squall.results.checkers.log.result import Delivered as DeliveredRun
from squall.results.checkers.log.result import OperationFacts, WitnessFacts
from squall.results.checkers.transactions.anomalies import TRANSACTIONAL_LOG_ANOMALIES
from squall.results.history.operation_tables import GROUPS, TRANSACTIONAL_LOG
from squall.results.history.segments import FaultWindow
from squall.results.report.render import plain, verdict_lines
from squall.results.report.report import REPORT_FILE
from squall.results.synthetic.forge_catalogue import FAMILIES, LOG, Case
from squall.results.synthetic.forge_groups import GroupOperation, group_table
from squall.results.synthetic.forge_log_transactions import Delivered, LogTransaction, Sent, log_table
from squall.results.verdict.further import ToldFurther, tell_further
from squall.results.witnesses.group import group_diagram
from squall.results.witnesses.log import log_diagram
from squall.results.witnesses.witness import Surroundings, tell

QUIET = Surroundings(0)
TABLES = {GROUPS: group_table, TRANSACTIONAL_LOG: log_table}
SVG = "{http://www.w3.org/2000/svg}"

SENTENCES: dict[str, str] = {
    "position of yesterday": r"member 50 received position 10 anyway: position 20 or a later one was the group's",
    "position forgotten": r"member 50 received no position anyway: position 20 or a later one was the group's",
    "position that went back": r"the commit of position 20 by member 50 was done by .* when member 50 received that",
    "position nobody committed": r"no commit of position 5 that was not refused had begun when member 50 received",
    "refused commit stored": r"member 50's commit of position 20 was refused: it must have no effect",
    "two owners": r"topic-partition \d was given to member \d and to member 60 in generation \d+",
    "older generation": r"generation \d+ was complete for member \d at .*, before member 60's join began at",
    "commit of a zombie": r"generation \d+ was complete for member \d .* before member 50's commit of position 20",
    "unknown commit of a zombie": r"it was not: the commit of position 20 by member 50 was done by .*, "
    "when member 50 received that position, and no other commit can have put it there",
    "unknown commit ahead of delivery": r"the commit of position 20 by member 50 was done by .*, "
    "when member 50 received that position, as no other commit can have put it there, and passes offset 15, which",
    "commit ahead of delivery": r"the commit of position \d+ by member 50 was done at .* and passes offset \d+",
    "aborted transaction read": r"T\d sent value \S+ and was aborted; T\d, .* committed records only, was delivered it",
    "record nobody sent": r"T1 was delivered value \S+ from topic-partition \d, and no transaction sent it there",
    "committed record lost": r"T\d was committed, and value \S+ of it is missing: ",
    "torn transaction": r"the outcome of T1 is unknown, but T2 was delivered another record of it",
    "own record read": r"T1 sent value \S+ and was delivered it before it was over",
    "each read the other": r"T2 comes before T1: T1 was delivered value \S+ at offset 0 of topic-partition \d, which",
    "record from the future": r"T\d comes before T\d: T\d had ended at .*, before T\d began at",
    "record from the process's future": r"comes before T\d: process 60 had ended the one when it began the other",
    "final reads disagree": r"offset \d+ of topic-partition \d holds value \S+ and value \S+, and a log has one record",
    "unknown transaction at another's offset": r"outcome of T\d is unknown, but T\d was delivered a record of it(.|\n)*"
    r"offset 0 of topic-partition 7 holds value \S+ and value \S+, and a log has one record",
    "unknown transaction read elsewhere": r"which was sent once, lies at offset 1 and at offset 3 of topic-partition 7",
    "committed record replaced": r"value \S+ of it is missing: T\d was delivered value \S+ at its offset",
    "later transaction below an earlier one": r"T\d sent the record at offset 5 before T\d began .* below, at offset 4",
    "transaction below what was read": r"T\d was delivered offset 5 before T\d began at .* lies below, at offset 4",
    "sends of an unknown transaction turned": r"T1 sent value \S+ first, and it lies at offset 5, above offset 4",
    "transactions of a process turned": r"T1 sent the record at offset 5 before T2 began at .* lies below, at offset 4",
    "record left out by a poll": r"a poll of T\d goes past offset \d+ to \d+ without value \S+, which T\d was",
    "record left out by a session": r"the session of T\d goes past offset \d+ to \d+ without value \S+, which T\d was",
    "poll goes back": r"one poll of T\d delivers offset \d+ after offset \d+",
    "session goes back": r"the session of T\d delivers offset \d+ after offset \d+",
}
"""By injection: what contradicts what."""


CASES = [(kind, case) for kind in TABLES for case in FAMILIES[kind].injections]
NAMES = [case.name for _, case in CASES]


def found(kind: str, history: list[object]) -> FurtherResult:
    return check_further(kind, TABLES[kind](history), {})  # type: ignore[operator]


def told(kind: str, *history: object) -> ToldFurther:
    """The only witness of a history, in words."""
    (one,) = tell_further([found(kind, list(history))], QUIET)
    return one


def reasons(one: ToldFurther) -> str:
    return "\n".join(line.text for line in one.lines if line.subject in ("so", "because"))


@pytest.mark.parametrize(("kind", "case"), CASES, ids=NAMES)
@pytest.mark.parametrize("seed", [1, 5])
def test_every_injections_words_say_who_did_what_and_what_contradicts(kind: str, case: Case, seed: int) -> None:
    for one in tell_further([found(kind, case.history(seed))], QUIET):
        proof = one.facts.group.operations if one.facts.group else one.facts.log.transactions  # type: ignore[union-attr]
        subjects = " ".join(line.subject for line in one.lines[: len(proof)])
        assert all(f"process {each.process}" in subjects for each in proof)
        assert all("begun at" in line.text and line.time for line in one.lines[: len(proof)])
        assert one.lines[len(proof)].subject in ("so", "because"), "after the operations comes why they are wrong"
        assert one.lines[-1].subject == "rows", "where they are to be looked up comes last"
        assert re.search(SENTENCES[case.name] if one.anomaly == case.anomaly else ".", reasons(one)), reasons(one)


@pytest.mark.parametrize(("kind", "case"), CASES, ids=NAMES)
def test_every_injection_has_a_picture_with_all_its_operations(kind: str, case: Case) -> None:
    for witness in found(kind, case.history(5)).witnesses:
        if witness.group is not None:
            drawn, one = group_diagram(witness.group, QUIET), witness.group
            count = len(one.operations) + len(one.before) + len(one.after)
        else:
            assert witness.log is not None
            drawn, each = log_diagram(witness.log, QUIET), witness.log
            count = len(each.transactions) + len(each.before) + len(each.after)
        picture = ElementTree.fromstring(drawn)
        assert len(picture.findall(f"{SVG}rect")) == count
        arrows = len(witness.log.steps) if witness.log else 0
        assert len(picture.findall(f"{SVG}circle")) == arrows


def test_every_anomaly_of_both_kinds_has_a_sentence() -> None:
    shown = {case.anomaly for _, case in CASES if case.name in SENTENCES}
    assert {one.name for one in (*GROUP_ANOMALIES, *TRANSACTIONAL_LOG_ANOMALIES)} <= shown
    assert set(SENTENCES) == set(NAMES)


# Groups ---------------------------------------------------------------------------------------------------------------


def commit(position: int, invoked: int, completed: int | None) -> GroupOperation:
    kind = INFO if completed is None else OK
    return GroupOperation(COMMIT, 1, invoked, completed, kind, partition=0, position=position)


def asked(position: int, invoked: int, completed: int) -> GroupOperation:
    return GroupOperation(POSITION, 2, invoked, completed, partition=0, position=position)


def poll(invoked: int, completed: int, *offsets: int, member: int = 1) -> GroupOperation:
    return GroupOperation(POLL, member, invoked, completed, partition=0, delivered=offsets)


def test_an_operation_has_its_member_its_position_its_times_and_its_outcome() -> None:
    one = told(GROUPS, commit(5, 1_000, 2_000), commit(9, 3_000, 4_000), asked(5, 5_000, 6_000))
    assert one.title == "group 1, topic-partition 0: a group received a position that had been replaced."
    assert [(line.subject, line.text, line.time) for line in one.lines[1:3]] == [
        ("process 1, member 1", "commit of position 9, acknowledged; begun at 0.000003 s", "0.000004 s"),
        ("process 2, member 2", "question for the position, told position 5; begun at 0.000005 s", "0.000006 s"),
    ]


def test_only_what_lies_next_to_the_proof_stands_beside_it() -> None:
    many = [commit(at, 10 * at, 10 * at + 1) for at in range(1, 20)]
    one = told(GROUPS, *many, asked(500, 205, 206), *(commit(at, 10 * at, 10 * at + 1) for at in range(21, 30)))
    assert [line.text.split(",")[1].split(": ")[1] for line in one.lines if line.subject == "before that"] == [
        "commit of position 18", "commit of position 19"
    ]  # fmt: skip
    assert [line.text.split(",")[1].split(": ")[1] for line in one.lines if line.subject == "after that"] == [
        "commit of position 21", "commit of position 22"
    ]  # fmt: skip


def test_two_positions_of_a_group_at_one_time_are_shown_with_their_times() -> None:
    """Both commits at once: neither had replaced the other, but no order explains that both are told in turn."""
    one = told(
        GROUPS,
        commit(5, 0, 30),
        commit(9, 1, 31),
        asked(5, 32, 33),
        asked(9, 34, 35),
        asked(5, 36, 37),
        asked(9, 38, 39),
    )
    assert one.anomaly == "stale_commit"
    assert re.search(r"position \d was the group's all the time from .* to .*", reasons(one))
    assert "a group has one position at a time" in reasons(one)


def test_a_group_that_is_told_none_is_told_so() -> None:
    assert "member 2 received no position anyway" in reasons(told(GROUPS, commit(5, 0, 1), asked(NOWHERE, 4, 5)))


@pytest.mark.parametrize("name", ["unknown commit of a zombie", "unknown commit ahead of delivery"])
def test_the_answer_that_proves_a_commit_of_unknown_outcome_stands_in_the_proof(name: str) -> None:
    (one,) = tell_further([found(GROUPS, FAMILIES[GROUPS].case(name).history(1))], QUIET)
    assert one.facts.group is not None
    (commit,) = [each for each in one.facts.group.operations if each.role in ("older", "ahead")]
    (seen,) = one.facts.group.of(f"{commit.role} seen")
    assert (commit.type, seen.f, seen.type, seen.position) == ("info", "position", "ok", commit.position)
    assert any("told position 20" in line.text for line in one.lines[: len(one.facts.group.operations)])
    drawn = ElementTree.fromstring(group_diagram(one.facts.group, QUIET))
    around = len(one.facts.group.before) + len(one.facts.group.after)
    assert len(drawn.findall(f"{SVG}rect")) == len(one.facts.group.operations) + around


def test_an_acknowledged_zombie_needs_no_other_proof() -> None:
    history = [
        GroupOperation(JOIN, 2, 0, 1, generation=2),
        replace(commit(5, 2, 9), generation=1),
        asked(5, 4, 5),
    ]
    assert "it was not" not in reasons(told(GROUPS, *history))


def test_a_record_given_to_a_member_too_late_is_shown_with_the_late_poll() -> None:
    one = told(GROUPS, poll(0, 1, 0, 1, 3), commit(4, 2, 3), poll(5, 6, 2, member=3))
    assert "passes offset 2" in reasons(one)
    assert "member 3 was given it only by a poll begun at 0.000000005 s" in reasons(one)


def test_the_fault_of_that_time_is_named_and_shaded() -> None:
    fault = FaultWindow(id="1", fault="isolate", targets=("c2",), summary="", injected=2_500)
    around = Surroundings(0, faults=(fault,))
    result = found(GROUPS, [commit(5, 1_000, 2_000), commit(9, 3_000, 4_000), asked(5, 5_000, 6_000)])
    (one,) = tell_further([result], around)
    assert ("under fault", "isolate c2") in [(line.subject, line.text) for line in one.lines]
    assert one.facts.group is not None
    assert 'class="faultname">isolate c2' in group_diagram(one.facts.group, around)


# Transactional logs ---------------------------------------------------------------------------------------------------


def test_a_gap_in_a_poll_is_told_with_both_of_its_sides() -> None:
    one = told(
        TRANSACTIONAL_LOG,
        LogTransaction(1, 0, 10, (Sent(0, 7, 0), Sent(0, 8, 1), Sent(0, 9, 2))),
        LogTransaction(2, 20, 30, (), (Delivered(0, 0, 7), Delivered(0, 2, 9))),
    )
    assert (
        one.title == "transactional log, topic-partition 0, offset 1: an acknowledged record is missing from the log."
    )
    assert reasons(one) == "T1 was committed, and value 8 of it is missing: a poll of T2 goes from offset 0 to 2"


def test_the_poll_that_lacks_a_record_may_be_what_proves_the_commit() -> None:
    one = told(
        TRANSACTIONAL_LOG,
        LogTransaction(1, 0, None, (Sent(0, 7, 0), Sent(0, 8, 1), Sent(0, 9, 2)), type=INFO),
        LogTransaction(2, 20, 30, (), (Delivered(0, 0, 7), Delivered(0, 2, 9))),
    )
    assert "the outcome of T1 is unknown, but T2 was delivered another record of it" in reasons(one)
    assert "a poll of T2 goes from offset 0 to 2" in reasons(one)


def test_a_phantom_that_was_sent_elsewhere_says_so() -> None:
    one = told(
        TRANSACTIONAL_LOG,
        LogTransaction(1, 0, 10, (Sent(1, 7, 0),)),
        LogTransaction(2, 20, 30, (), (Delivered(0, 0, 7),)),
    )
    assert "T1 sent it, to another topic-partition" in reasons(one)


# The page and the terminal --------------------------------------------------------------------------------------------


def written(run: Path, kind: str) -> tuple[str, str]:
    """The report and the first line of the terminal of a forged run of a kind."""
    FAMILIES[kind].write(run, 4, 1000, FAMILIES[kind].injections[0])
    verdict = check_run(run, InProcess())
    return (run / REPORT_FILE).read_text(), plain(verdict_lines(verdict)).splitlines()[0]


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_page_names_the_checks_and_partitions_only_if_there_are_any(tmp_path: Path, kind: str) -> None:
    page, _ = written(tmp_path, kind)
    assert "Checked in process in " in page
    assert ('id="partitions"' in page) is ('href="#partitions"' in page) is (kind == LOG)


def test_a_long_line_keeps_its_distance_from_what_checked_it(tmp_path: Path) -> None:
    _, line = written(tmp_path, GROUPS)
    assert re.search(r"poll operations \d+ in process, \d", line)


def test_the_picture_and_the_words_of_a_group_stand_in_the_page(tmp_path: Path) -> None:
    page, _ = written(tmp_path, GROUPS)
    assert 'aria-label="operations of a consumer group over time"' in page
    assert "told position 10" in page


# Polls ----------------------------------------------------------------------------------------------------------------


def facts_of(anomaly: str, *operations: OperationFacts) -> WitnessFacts:
    return WitnessFacts(anomaly=anomaly, topic="events", partition=0, offset=73, operations=operations)


def reader(role: str, *near: int, first: int, last: int) -> OperationFacts:
    run = DeliveredRun(first, last, last - first + 1, tuple((offset, offset) for offset in near))
    return OperationFacts(role=role, op_id=1, f="poll", type="ok", process=5, client=0, invoked=0, delivered=run)


BEFORE_THE_GAP = reader("previous_reader", first=60, last=67)


@pytest.mark.parametrize(
    ("facts", "left_out"),
    [
        (
            facts_of("poll_skip", BEFORE_THE_GAP, reader("reader", 74, first=74, last=80)),
            ["offsets 68 to 73, 6 in all"],
        ),
        (facts_of("int_poll_skip", reader("reader", 71, 74, first=60, last=80)), ["offsets 72 to 73, 2 in all"]),
        (facts_of("int_poll_skip", reader("reader", 72, 74, first=60, last=80)), []),
        (facts_of("int_poll_skip", reader("reader", 74, first=60, last=80)), []),
    ],
    ids=["between polls", "within a poll", "a single one", "not known from where"],
)
def test_a_gap_of_several_offsets_is_told_from_where_to_where(facts: WitnessFacts, left_out: list[str]) -> None:
    assert [line.text for line in tell(facts, 1, QUIET).lines if line.subject == "left out"] == left_out
