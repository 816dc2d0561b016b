"""One history by hand for each anomaly of registers, and beside it the one that is just legal."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from squall.results.checkers.registers.check import Limits, check_registers
from squall.results.checkers.registers.operations import ABSENT, RegisterOperation, register_table
from squall.results.checkers.registers.result import RegisterResult
from squall.results.checkers.registers.search import Budget
from squall.results.history.ill_formed import IllFormedHistory

Times = tuple[int, int]


def read(found: int | None, times: Times, **more: object) -> RegisterOperation:
    return replace(RegisterOperation("read", 0, *times, found=found), **more)  # type: ignore[arg-type]


def write(value: int, times: Times, **more: object) -> RegisterOperation:
    return replace(RegisterOperation("write", 0, *times, value=value), **more)  # type: ignore[arg-type]


def cas(expected: int, value: int, times: Times, **more: object) -> RegisterOperation:
    one = RegisterOperation("cas", 0, *times, expected=expected, value=value)
    return replace(one, **more)  # type: ignore[arg-type]


def unknown(one: RegisterOperation) -> RegisterOperation:
    return replace(one, type="info", completed=None)


def failed(one: RegisterOperation) -> RegisterOperation:
    return replace(one, type="fail")


def refused(one: RegisterOperation, found: int | None) -> RegisterOperation:
    return replace(one, type="fail", refused=True, found=found)


def check(*operations: RegisterOperation, limits: Limits | None = None) -> RegisterResult:
    return check_registers(register_table(operations), limits=limits)


def anomalies(*operations: RegisterOperation) -> dict[str, int]:
    return check(*operations).anomalies


def test_a_register_that_works_has_no_anomaly() -> None:
    assert not anomalies(read(ABSENT, (0, 1)), write(1, (2, 4)), read(1, (3, 5)), cas(1, 2, (6, 7)), read(2, (8, 9)))


def test_a_register_that_was_only_read_is_judged() -> None:
    """There is no write for the reads to be compared with."""
    assert not anomalies(read(ABSENT, (0, 1)))
    assert anomalies(read(7, (0, 1))) == {"register_phantom": 1}


def test_a_value_that_nobody_wrote() -> None:
    assert anomalies(write(1, (0, 1)), read(2, (2, 3))) == {"register_phantom": 1}
    assert anomalies(write(1, (0, 1)), cas(2, 3, (2, 3))) == {"register_phantom": 1}
    assert not anomalies(write(1, (0, 1)), unknown(cas(2, 3, (2, 3))))


def test_a_value_whose_write_had_failed() -> None:
    assert anomalies(failed(write(1, (0, 1))), read(1, (2, 3))) == {"register_aborted_read": 1}
    assert not anomalies(unknown(write(1, (0, 1))), read(1, (2, 3)))


def test_a_read_before_the_write() -> None:
    assert anomalies(read(1, (0, 1)), write(1, (2, 3))) == {"register_future_read": 1}
    assert not anomalies(read(1, (0, 2)), write(1, (2, 3))), "times that are equal say nothing"
    assert anomalies(read(1, (0, 1)), unknown(write(1, (2, 3)))) == {"register_future_read": 1}


def test_a_read_of_a_value_that_had_been_replaced() -> None:
    first, second, seen = write(1, (0, 1)), write(2, (2, 3)), read(2, (4, 5))
    assert anomalies(first, second, seen, read(1, (6, 7))) == {"stale_register_read": 1}
    assert not anomalies(first, second, seen, read(1, (3, 7))), "it began before the write had ended"
    assert not anomalies(replace(first, completed=9), second, seen, read(1, (6, 7))), "the writes overlap"


def test_a_witness_has_no_reader_where_the_writer_is_enough() -> None:
    """That the replaced value was there before is shown by its write alone."""
    replaced = (write(1, (0, 1)), read(1, (0, 2)), write(2, (3, 4)), read(1, (5, 6)))
    (witness,) = check(*replaced).witnesses
    assert [one.f for one in witness.operations] == ["write", "write", "read"]


def test_two_readers_who_disagree_about_the_order_of_two_writes() -> None:
    """Nobody knows which of two writes at a time came first, but it cannot have been both."""
    writes = write(1, (0, 9)), write(2, (0, 9))
    assert anomalies(*writes, read(1, (1, 2)), read(2, (3, 4)), read(1, (5, 6))) == {"stale_register_read": 1}
    assert not anomalies(*writes, read(1, (1, 2)), read(2, (3, 4)), read(2, (5, 6)))


def test_a_replaced_value_that_a_compare_and_set_meets() -> None:
    first, second = write(1, (0, 1)), write(2, (2, 3))
    assert anomalies(first, second, read(2, (4, 5)), cas(1, 3, (6, 7))) == {"stale_register_read": 1}
    assert anomalies(write(1, (0, 1)), cas(1, 2, (2, 3)), read(2, (4, 5)), read(1, (6, 7))) == {
        "stale_register_read": 1
    }


def test_an_acknowledged_write_that_nobody_sees() -> None:
    first, second = write(1, (0, 1)), write(2, (2, 3))
    assert anomalies(first, second, read(1, (4, 5))) == {"lost_register_write": 1}
    assert not anomalies(first, unknown(second), read(1, (4, 5))), "it may never have happened"
    assert not anomalies(first, second, write(3, (4, 5)), read(3, (6, 7))), "overwritten before anybody looked"
    assert anomalies(first, cas(1, 2, (2, 3)), read(1, (4, 5))) == {"lost_register_write": 1}


def test_two_compare_and_sets_from_one_value() -> None:
    first = write(1, (0, 1))
    assert anomalies(first, cas(1, 2, (2, 5)), cas(1, 3, (2, 5))) == {"register_double_cas": 1}
    assert not anomalies(first, cas(1, 2, (2, 5)), refused(cas(1, 3, (2, 5)), 2))
    assert not anomalies(first, cas(1, 2, (2, 5)), unknown(cas(1, 3, (2, 5))))
    seen = read(3, (6, 7))
    assert anomalies(first, cas(1, 2, (2, 5)), unknown(cas(1, 3, (2, 5))), seen) == {"register_double_cas": 1}


def test_a_refusal_that_shows_what_was_expected() -> None:
    assert anomalies(write(1, (0, 1)), refused(cas(1, 2, (2, 3)), 1)) == {"register_false_refusal": 1}
    assert not anomalies(write(1, (0, 1)), refused(cas(7, 2, (2, 3)), 1))
    assert not anomalies(write(1, (0, 1)), failed(cas(1, 2, (2, 3)))), "not sent is not refused"


def test_a_refusal_says_what_the_register_held() -> None:
    first, second, seen = write(1, (0, 1)), write(2, (2, 3)), read(2, (4, 5))
    assert anomalies(first, second, seen, refused(cas(7, 8, (6, 7)), 1)) == {"stale_register_read": 1}


def test_compare_and_sets_in_a_circle() -> None:
    circle = cas(1, 2, (0, 9)), cas(2, 1, (0, 9))
    assert anomalies(*circle) == {"nonlinearizable_register": 1}


def test_one_version_for_two_values() -> None:
    first, second = write(1, (0, 1), version=1), write(2, (2, 3), version=2)
    assert anomalies(first, second, read(2, (4, 5), version=1)) == {"register_version_conflict": 2}
    assert not anomalies(first, second, read(2, (4, 5), version=2))


def test_a_lower_version_for_a_later_write() -> None:
    assert anomalies(write(1, (0, 1), version=2), write(2, (2, 3), version=1)) == {"register_version_regress": 1}
    assert not anomalies(write(1, (0, 2), version=2), write(2, (2, 3), version=1))
    assert not anomalies(write(1, (0, 1), version=2), write(2, (2, 3), version=9)), "versions may leave some out"


def test_versions_show_stale_reads_that_values_do_not() -> None:
    """Two writes at a time: only the versions say which came first."""
    writes = write(1, (0, 9), version=1), write(2, (0, 9), version=2)
    assert anomalies(*writes, read(2, (1, 3), version=2), read(1, (4, 5), version=1)) == {"stale_register_read": 1}
    assert not anomalies(*writes, read(1, (1, 3), version=1), read(2, (4, 5), version=2))


def test_versions_that_contradict_compare_and_sets() -> None:
    chain = write(1, (0, 9), version=3), cas(1, 2, (0, 9), version=2)
    assert anomalies(*chain) == {"register_version_regress": 1}
    between = write(3, (0, 9), version=2)
    apart = write(1, (0, 9), version=1), cas(1, 2, (0, 9), version=3)
    assert anomalies(*apart, between) == {"register_version_regress": 1}
    assert not anomalies(*apart, replace(between, version=4))


def test_versions_with_a_write_of_unknown_version_between() -> None:
    """The unanswered write of 2 is seen by a compare-and-set alone; by time it lies between two that have versions."""
    low, high = write(1, (0, 9), version=5), write(4, (20, 29), version=3)
    between = write(2, (10, 11)), read(2, (15, 16))
    assert anomalies(low, *between, high) == {"register_version_regress": 1}
    one, other = write(1, (0, 20), version=5), write(4, (12, 30), version=3)
    late = write(2, (21, 22)), read(2, (23, 24))
    assert not anomalies(one, other, *late)
    early = write(2, (0, 5)), read(2, (6, 21))
    pinned = read(4, (0, 3), version=3)
    assert anomalies(one, replace(other, invoked=0), read(1, (1, 2), version=5), *early, pinned, read(4, (6, 7))) == {
        "stale_register_read": 1
    }


def test_values_that_are_written_again_are_searched() -> None:
    result = check(write(1, (0, 1)), write(2, (2, 3)), write(1, (4, 5)), read(2, (6, 7)))
    assert result.anomalies == {"nonlinearizable_register": 1}
    assert (result.by_zones, result.by_search) == (0, 1)
    (witness,) = result.witnesses
    assert [(one.f, one.value or one.found) for one in witness.operations] == [("read", 2)]
    assert witness.held == (1,)
    assert not anomalies(write(1, (0, 1)), write(2, (2, 3)), write(1, (4, 5)), read(1, (6, 7)))


def test_refusals_that_do_not_say_what_they_met_are_searched() -> None:
    assert anomalies(write(1, (0, 1)), refused(cas(1, 2, (2, 3)), None)) == {"nonlinearizable_register": 1}
    assert not anomalies(write(1, (0, 1)), refused(cas(1, 2, (2, 3)), None), write(3, (0, 5)))
    assert not anomalies(write(1, (0, 1)), refused(cas(1, 2, (2, 3)), None), unknown(write(3, (0, 5))))


def test_a_search_without_budget_is_unknown_and_never_valid() -> None:
    many = [write(number % 3, (0, 100)) for number in range(12)] + [read(1, (101, 102)), read(2, (103, 104))]
    result = check(*many, limits=Limits(Budget(steps=50)))
    assert (result.verdict, result.anomalies, result.checked) == ("unknown", {}, 0)
    (reason,) = result.undecided
    assert reason == (
        "register r: 51 steps did not suffice to order 14 operations, up to 12 of them open at once; "
        "the first 0 could be ordered"
    )
    nothing = check(*many, limits=Limits(seconds=0.0))
    assert nothing.undecided == ("register r: 14 operations were not looked at: no time was left",)


def test_a_violation_elsewhere_stands_although_a_search_did_not_end() -> None:
    many = [write(number % 3, (0, 100)) for number in range(12)] + [read(1, (101, 102)), read(2, (103, 104))]
    wrong = read(7, (0, 1), register="other")
    result = check(*many, wrong, limits=Limits(Budget(steps=50)))
    assert (result.verdict, result.wrong, result.undecided_count) == ("invalid", ("other",), 1)


def test_nothing_checked_is_nothing_known() -> None:
    assert check().verdict == "unknown"
    assert check(failed(write(1, (0, 1))), unknown(read(None, (2, 3)))).verdict == "unknown"


def test_intervals_are_widened_by_the_error_of_several_clocks() -> None:
    early, late = read(1, (0, 10), clock_id=1, clock_error=4), write(1, (17, 20), clock_id=2, clock_error=4)
    assert not anomalies(early, late)
    assert anomalies(replace(early, clock_error=2), late) == {"register_future_read": 1}
    assert anomalies(replace(early, clock_id=2), late) == {"register_future_read": 1}, "one clock is right by itself"


def test_a_table_of_several_parts_is_one_history() -> None:
    """As it comes from several files: each part has names and numbers of its own."""
    parts = [
        register_table([write(1, (0, 1), register="a"), write(2, (0, 1), register="b")]),
        register_table([read(1, (2, 3), register="b"), read(1, (2, 3), register="a")]),
    ]
    result = check_registers(pa.concat_tables(parts))
    assert (result.anomalies, result.wrong, result.registers) == ({"register_phantom": 1}, ("b",), 2)


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (write(1, (5, 3)), "completed before it was invoked"),
        (replace(write(1, (0, 1)), value=None), "does not say to which value"),
        (replace(cas(1, 2, (0, 1)), expected=None), "compare-and-set without an expected value"),
        (replace(write(1, (0, 1)), completed=None), "acknowledged or refused, but at no time"),
        (replace(refused(cas(1, 2, (0, 1)), 7), completed=None), "acknowledged or refused, but at no time"),
    ],
)
def test_an_operation_that_makes_no_sense_is_an_error(operation: RegisterOperation, problem: str) -> None:
    with pytest.raises(IllFormedHistory, match=problem):
        check(operation)
