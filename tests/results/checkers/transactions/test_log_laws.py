"""A transactional log is a log: each law in the smallest history that breaks it, beside the nearest legal one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.checkers.kernels.operations import FAIL, INFO
from squall.results.checkers.transactions.log_rules import check_transactional_log
from squall.results.history.manifest import Manifest
from squall.results.history.operation_tables import TRANSACTIONAL_LOG, write_kind
from squall.results.history.table_schemas import LOG_OPTIONAL
from squall.results.synthetic.forge import forge_run
from squall.results.synthetic.forge_log_transactions import Delivered, LogTransaction, Sent, log_table

X, Y = 0, 1
"""Topic-partitions."""


def found_in(*history: LogTransaction) -> dict[str, int]:
    return check_transactional_log(log_table(history)).counts


def sends(process: int, *records: Sent, begun: int = 0, ended: int | None = 10, kind: int = 0) -> LogTransaction:
    return LogTransaction(process, begun, None if kind == INFO else ended, records, type=kind)


def polls(process: int, *records: Delivered, begun: int = 20, ended: int = 30, **facts: object) -> LogTransaction:
    return LogTransaction(process, begun, ended, (), records, **facts)  # type: ignore[arg-type]


ONE, TWO, THREE = Delivered(X, 0, 1), Delivered(X, 1, 2), Delivered(X, 2, 3)
WRITTEN = sends(1, Sent(X, 1, 0), Sent(X, 2, 1), Sent(X, 3, 2))


# R0: an offset holds one value, a value lies at one offset ------------------------------------------------------------


def test_two_final_reads_that_disagree_about_an_offset_are_no_log() -> None:
    """Valid if the tables alone were judged."""
    unknown = [sends(1, Sent(X, 1), kind=INFO), sends(2, Sent(X, 2), kind=INFO)]
    first = polls(8, ONE, final=True, final_partitions=(X,))
    assert found_in(*unknown, first, polls(9, Delivered(X, 0, 2), final=True)) == {"inconsistent_offset": 1}
    assert found_in(*unknown, first, polls(9, TWO, final=True)) == {}


def test_two_committed_sends_at_one_offset_that_is_not_read_are_inconsistent() -> None:
    both = [sends(1, Sent(X, 1, 0)), sends(2, Sent(X, 2, 0))]
    assert found_in(*both) == {"inconsistent_offset": 1}
    assert found_in(both[0], sends(2, Sent(Y, 2, 0))) == {}


def test_an_offset_of_an_unknown_transaction_that_a_poll_proves_committed_counts() -> None:
    """`info send x@0=1, y=1; ok send x@0=2; poll y:5=1`."""
    unknown = sends(1, Sent(X, 1, 0), Sent(Y, 11), kind=INFO)
    committed, proof = sends(2, Sent(X, 2, 0)), polls(3, Delivered(Y, 5, 11))
    assert found_in(unknown, committed, proof) == {"inconsistent_offset": 1}
    assert found_in(unknown, committed) == {}, "without a reader it may have been aborted"
    assert found_in(replace(unknown, type=FAIL, completed=10), committed) == {}


def test_an_unknown_transactions_record_read_at_two_offsets_is_duplicate() -> None:
    """Told offset 3, read at 1 by everybody; this was valid."""
    assert found_in(sends(1, Sent(X, 2, 3), kind=INFO), polls(2, TWO)) == {"duplicate": 1}
    assert found_in(sends(1, Sent(X, 2, 1), kind=INFO), polls(2, TWO)) == {}
    assert found_in(sends(1, Sent(X, 2), kind=INFO), polls(2, TWO)) == {}


def test_a_committed_record_whose_offset_holds_another_value_is_lost() -> None:
    unknown = sends(2, Sent(X, 2), kind=INFO)
    assert found_in(sends(1, Sent(X, 1, 1)), unknown, polls(3, TWO)) == {"lost_write": 1}
    assert found_in(sends(1, Sent(X, 1, 0)), unknown, polls(3, TWO)) == {}


def test_readers_of_uncommitted_records_see_the_same_log() -> None:
    sent = [sends(1, Sent(X, 1, 0)), sends(2, Sent(X, 2), kind=FAIL)]
    assert found_in(*sent, polls(3, ONE), polls(4, ONE, TWO, committed_only=False)) == {}
    other = polls(4, Delivered(X, 0, 2), committed_only=False)
    assert found_in(*sent, polls(3, ONE), other) == {"inconsistent_offset": 1}
    assert found_in(sent[0], polls(4, ONE, TWO, committed_only=False)) == {"phantom": 1}


# R1: real time --------------------------------------------------------------------------------------------------------


def test_a_transaction_that_began_after_another_had_ended_stands_behind_it() -> None:
    early, late = sends(1, Sent(X, 1, 5)), sends(2, Sent(X, 2, 4), begun=11, ended=20)
    assert found_in(early, late) == {"rt_order": 1}
    assert found_in(early, replace(late, invoked=10)) == {}, "at once"
    assert found_in(early, replace(late, sent=(Sent(Y, 2, 4),))) == {}
    assert found_in(early, replace(late, type=FAIL)) == {}, "what was aborted may be gone"


def test_a_transaction_does_not_stand_before_what_was_read_before_it_began() -> None:
    unknown = sends(1, Sent(X, 1), kind=INFO)
    read = polls(2, Delivered(X, 5, 1), begun=1, ended=8)
    assert found_in(unknown, read, sends(3, Sent(X, 2, 4), begun=9, ended=20)) == {"future_read": 1}
    assert found_in(unknown, read, sends(3, Sent(X, 2, 4), begun=8, ended=20)) == {}
    assert found_in(unknown, read, sends(3, Sent(X, 2, 6), begun=9, ended=20)) == {}


def test_the_end_of_an_unknown_transaction_is_that_of_who_first_saw_it() -> None:
    unknown = sends(1, Sent(X, 1, 5), Sent(Y, 11), kind=INFO)
    proof, late = polls(2, Delivered(Y, 0, 11), begun=1, ended=8), sends(3, Sent(X, 2, 4), begun=9, ended=20)
    assert found_in(unknown, proof, late) == {"rt_order": 1}
    assert found_in(unknown, replace(proof, invoked=9, completed=12), late) == {}


# S3: the order of sends -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, INFO])
def test_sends_of_one_transaction_are_ordered_even_with_unknown_outcome(kind: int) -> None:
    assert found_in(sends(1, Sent(X, 1, 3), Sent(X, 2, 1), kind=kind)) == {"nonmonotonic_send": 1}
    assert found_in(sends(1, Sent(X, 1, 1), Sent(X, 2, 3), kind=kind)) == {}, "others' records may lie between"
    assert found_in(sends(1, Sent(X, 1, 3), Sent(Y, 2, 1), kind=kind)) == {}


def test_the_committed_transactions_of_a_process_are_in_order() -> None:
    first = replace(sends(1, Sent(X, 1, 5)), clock_error=50)
    second = replace(sends(1, Sent(X, 2, 3), begun=10, ended=20), clock_error=50)
    assert found_in(first, second) == {"nonmonotonic_send": 1}
    assert found_in(first, replace(second, process=2)) == {}, "of another process the clock is too far off to tell"
    assert found_in(first, replace(second, type=FAIL)) == {}


# R2, S1, S2: polls ----------------------------------------------------------------------------------------------------


def test_a_poll_delivers_offsets_that_increase() -> None:
    assert found_in(WRITTEN, polls(2, TWO, ONE)) == {"int_nonmonotonic": 1}
    assert found_in(WRITTEN, polls(2, ONE, TWO)) == {}
    assert found_in(WRITTEN, polls(2, TWO, replace(ONE, run=1))) == {}, "two polls, and no session is stated"


def test_a_record_that_a_poll_leaves_out_and_another_has_is_skipped_not_lost() -> None:
    """One name in all checks: in a log it is `int_poll_skip`, too."""
    skips = polls(2, ONE, THREE)
    assert found_in(WRITTEN, skips, polls(3, TWO)) == {"int_poll_skip": 1}
    assert found_in(WRITTEN, skips) == {"lost_write": 1}, "no reader has it: it is lost, and once"
    assert found_in(WRITTEN, polls(2, ONE, replace(THREE, run=1)), polls(3, TWO)) == {}


def test_a_final_read_that_leaves_out_what_was_read_has_lost_it() -> None:
    final = polls(4, ONE, THREE, final=True, begun=40, ended=50)
    assert found_in(WRITTEN, polls(3, TWO), final) == {"lost_write": 1}
    assert found_in(WRITTEN, polls(3, TWO, final=True), final) == {"int_poll_skip": 1}, "another final read has it"
    assert found_in(WRITTEN, polls(3, TWO), replace(final, polled=(ONE, TWO, THREE))) == {}


def test_a_poll_may_leave_out_what_was_aborted() -> None:
    aborted = [sends(1, Sent(X, 1, 0), Sent(X, 3, 2)), sends(2, Sent(X, 2, 1), kind=FAIL)]
    everything = polls(3, ONE, TWO, THREE, committed_only=False)
    assert found_in(*aborted, everything, polls(4, ONE, THREE)) == {}


def test_a_reader_of_uncommitted_records_leaves_out_nothing_that_another_has() -> None:
    aborted = [sends(1, Sent(X, 1, 0), Sent(X, 3, 2)), sends(2, Sent(X, 2, 1), kind=FAIL)]
    everything = polls(3, ONE, TWO, THREE, committed_only=False)
    assert found_in(*aborted, everything, polls(4, ONE, THREE, committed_only=False)) == {"int_poll_skip": 1}
    unknown = [sends(1, Sent(X, 1, 0), Sent(X, 2, 1)), sends(2, Sent(X, 3), kind=INFO)]
    skips = polls(4, ONE, THREE, committed_only=False)
    assert found_in(*unknown, polls(3, TWO), skips) == {"int_poll_skip": 1}, "also on the way to what nobody committed"


def test_polls_continue_each_other_in_a_stated_session_only() -> None:
    def session(*runs: LogTransaction) -> dict[str, int]:
        return found_in(WRITTEN, polls(9, ONE, TWO, THREE), *runs)

    first, again = polls(2, ONE, TWO, session=1), polls(2, TWO, THREE, begun=40, ended=50, session=1)
    assert session(first, again) == {"nonmonotonic_poll": 1}
    assert session(first, replace(again, session=2)) == {}
    assert session(replace(first, session=None), replace(again, session=None)) == {}
    assert session(first, replace(again, process=3)) == {}
    skips = [polls(2, ONE, session=1), polls(2, THREE, begun=40, ended=50, session=1)]
    assert session(*skips) == {"poll_skip": 1}
    assert session(polls(2, ONE, replace(THREE, run=1), session=1)) == {"poll_skip": 1}


def test_an_aborted_transaction_may_rewind_its_consumer_or_not() -> None:
    def third(*records: Delivered) -> dict[str, int]:
        first = polls(2, ONE, session=1)
        aborted = polls(2, TWO, begun=40, ended=50, session=1, type=FAIL)
        return found_in(WRITTEN, first, aborted, polls(2, *records, begun=60, ended=70, session=1))

    assert third(TWO, THREE) == third(THREE) == {}


# Older tables, and the whole way --------------------------------------------------------------------------------------


def test_a_table_without_sessions_as_older_ones_are_is_read() -> None:
    table = log_table([WRITTEN, polls(2, ONE, TWO, THREE)]).drop_columns(list(LOG_OPTIONAL))
    assert check_transactional_log(table).verdict == "valid"


@pytest.mark.parametrize("checks", [("transactional-log",), ("log", "transactional-log"), ("registers",)])
def test_no_choice_of_checks_makes_a_contradictory_log_valid(tmp_path: Path, checks: tuple[str, ...]) -> None:
    unknown = [sends(1, Sent(X, 1), kind=INFO), sends(2, Sent(X, 2), kind=INFO)]
    final = [polls(8, ONE, final=True), polls(9, Delivered(X, 0, 2), final=True)]
    forge_run(tmp_path, [], checks=checks, min_acknowledged=1)
    run_id = Manifest.load(tmp_path).run_id
    write_kind(tmp_path, TRANSACTIONAL_LOG, log_table([*unknown, *final]), run_id=run_id)
    verdict = check_run(tmp_path, InProcess())
    assert verdict.verdict == "invalid"
    assert [one.name for one in verdict.anomalies] == ["inconsistent_offset"]
