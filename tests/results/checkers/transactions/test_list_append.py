"""Every anomaly of list-append, in the smallest history that shows it, beside the nearest legal one."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from squall.results.checkers.kernels.operations import FAIL, INFO, OK
from squall.results.checkers.transactions import cycles, dependencies, suspects
from squall.results.checkers.transactions.list_append import MODELS, ListAppendResult, check_list_append, verdict_of
from squall.results.history.table_schemas import READ, TRANSACTION_SCHEMA
from squall.results.synthetic.forge_transactions import (
    ForgedTransaction,
    Micro,
    append,
    healthy_table,
    read,
    table_of,
    transactions_of,
)
from squall.results.witnesses.cycle import tell_transactions

X, Y, Z = 1, 2, 3


def txn(process: int, begun: int, ended: int | None, *operations: Micro, kind: int = OK) -> ForgedTransaction:
    return ForgedTransaction(process, begun, ended, operations, INFO if ended is None else kind)


def at_once(*each: tuple[Micro, ...]) -> list[ForgedTransaction]:
    """Committed transactions that run at the same time."""
    return [txn(number, 0, 10, *operations) for number, operations in enumerate(each)]


def result_of(history: list[ForgedTransaction]) -> ListAppendResult:
    return check_list_append(table_of(history))


def found_in(history: list[ForgedTransaction]) -> dict[str, int]:
    return result_of(history).anomalies


# Lists by themselves --------------------------------------------------------------------------------------------------


def test_g1a_an_element_of_an_aborted_transaction() -> None:
    writes, reads = txn(1, 0, 5, append(X, 1), kind=FAIL), txn(2, 6, 9, read(X, 1))
    assert found_in([writes, reads]) == {"G1a": 1}
    assert found_in([txn(1, 0, 5, append(X, 1)), reads]) == {}
    assert found_in([txn(1, 0, None, append(X, 1)), reads]) == {}


def test_g1a_counts_each_element_once() -> None:
    writes = txn(1, 0, 5, append(X, 1), append(Y, 1), kind=FAIL)
    readers = [txn(2, 6, 9, read(X, 1)), txn(3, 6, 9, read(X, 1), read(Y, 1))]
    assert found_in([writes, *readers]) == {"G1a": 2}


def test_g1b_a_state_that_a_transaction_left_behind_in_its_midst() -> None:
    writes = (append(X, 1), append(X, 2))
    assert found_in(at_once(writes, (read(X, 1),), (read(X, 1, 2),))) == {"G1b": 1}
    assert found_in(at_once(writes, (read(X),), (read(X, 1, 2),))) == {}
    assert found_in(at_once((append(X, 1), read(X, 1), append(X, 2)), (read(X, 1, 2),))) == {}


def test_internal_a_transaction_does_not_see_its_own_append() -> None:
    assert found_in(at_once((append(X, 1), read(X)))) == {"internal": 1}
    assert found_in(at_once((append(X, 1), read(X, 1)))) == {}


def test_internal_a_transaction_reads_twice_and_sees_what_changed_meanwhile() -> None:
    assert found_in(at_once((append(X, 1),), (read(X), read(X, 1)))) == {"internal": 1}
    assert found_in(at_once((append(X, 1),), (read(X, 1), read(X, 1)))) == {}


def test_internal_a_transaction_sees_its_own_append_too_early() -> None:
    assert found_in(at_once((read(X, 1), append(X, 1)))) == {"internal": 1}


def test_internal_another_element_where_the_own_one_should_be() -> None:
    spoilt = (read(X), append(X, 1), read(X, 2))
    assert "internal" in found_in(at_once(spoilt, (append(X, 2),)))


def test_internal_appends_out_of_their_transactions_order_are_found() -> None:
    writes, others = (append(X, 1), append(X, 2)), (append(X, 3),)
    assert found_in(at_once(writes, (read(X, 2, 1),))) == {"internal": 1, "G1b": 1}
    assert found_in(at_once(writes, (read(X, 1, 2),))) == {}
    assert found_in(at_once(writes, others, (read(X, 2, 1, 3),))) == {"internal": 1}
    assert found_in(at_once(writes, others, (read(X, 1, 2, 3),))) == {}
    apart = append(X, 1), append(Y, 1), append(X, 2)
    assert found_in(at_once(apart, others, (read(X, 2, 1, 3),))) == {"internal": 1}
    assert found_in(at_once(apart[::-1], others, (read(X, 2, 1, 3),))) == {}
    unknown = [txn(1, 0, None, *writes), txn(2, 0, 5, *others)]
    assert found_in([*unknown, txn(3, 6, 9, read(X, 2, 1, 3))]) == {"internal": 1}
    assert found_in([*unknown, txn(3, 6, 9, read(X, 1, 2, 3))]) == {}
    assert found_in(at_once((*writes, read(X, 2, 1)), others, (read(X, 2, 1, 3),))) == {"internal": 2}


def test_internal_a_list_turned_round_is_told_by_the_read_that_shows_it() -> None:
    around = [(append(X, number),) for number in range(10, 20)]
    shown = read(X, 2, 1, *range(10, 20))
    (witness,) = result_of(at_once((append(X, 1), append(X, 2)), *around, (shown,))).witnesses
    told = [line.text for line in tell_transactions(witness, 0)]
    assert "read key 1: 2 1 10 11 12 13 …" in told[1]
    assert told[-1] == "T1 appended 2 after its other element, and T2 read it before that one"


def test_incompatible_order() -> None:
    writes = [(append(X, 1),), (append(X, 2),)]
    assert found_in(at_once(*writes, (read(X, 1, 2),), (read(X, 2, 1),))) == {"incompatible_order": 1}
    assert found_in(at_once(*writes, (read(X, 1, 2),), (read(X, 2),))) == {"incompatible_order": 1}
    assert found_in(at_once(*writes, (read(X, 1, 2),), (read(X, 1),))) == {}


def test_a_key_without_an_order_takes_no_part_in_cycles() -> None:
    history = at_once(
        (append(X, 1),),
        (append(X, 2), read(Y)),
        (read(X, 2), append(Y, 1)),
        (read(X, 1, 2), read(Y, 1)),
    )
    assert found_in(history) == {"incompatible_order": 1}


def test_duplicate_element() -> None:
    assert found_in(at_once((append(X, 1),), (read(X, 1, 1),))) == {"duplicate_element": 1}


def test_phantom_element() -> None:
    assert found_in(at_once((append(X, 1),), (read(X, 1, 7),))) == {"phantom_element": 1}
    assert found_in(at_once((append(Y, 7),), (read(X, 7),))) == {"phantom_element": 1}, "another key's element"


def test_an_element_of_nobody_ties_its_reader_to_nobody() -> None:
    history = at_once((append(X, 1),), (read(X), read(Y, 7)), (read(X, 1),))
    assert found_in(history) == {"phantom_element": 1}


# Cycles of dependencies -----------------------------------------------------------------------------------------------


def test_g0_two_transactions_overwrite_each_other() -> None:
    first, second = (append(X, 1), append(Y, 1)), (append(X, 2), append(Y, 2))
    assert found_in(at_once(first, second, (read(X, 1, 2), read(Y, 2, 1)))) == {"G0": 1}
    assert found_in(at_once(first, second, (read(X, 1, 2), read(Y, 1, 2)))) == {}


def test_g0_appends_of_a_transaction_are_torn_apart() -> None:
    assert found_in(at_once((append(X, 1), append(X, 3)), (append(X, 2),), (read(X, 1, 2, 3),))) == {"G0": 1}


def test_g1c_two_transactions_see_each_other() -> None:
    assert found_in(at_once((append(X, 1), read(Y, 1)), (append(Y, 1), read(X, 1)))) == {"G1c": 1}
    assert found_in(at_once((append(X, 1), read(Y)), (append(Y, 1), read(X, 1)))) == {}


def test_g_single_a_lost_update() -> None:
    both = (read(X), append(X, 1)), (read(X), append(X, 2))
    assert found_in(at_once(*both, (read(X, 1, 2),))) == {"G-single": 1}
    assert found_in(at_once(both[0], (read(X, 1), append(X, 2)), (read(X, 1, 2),))) == {}


def test_g_single_half_of_a_transaction_is_seen() -> None:
    assert found_in(at_once((append(X, 1), append(Y, 1)), (read(X, 1), read(Y)))) == {"G-single": 1}


def test_g2_write_skew() -> None:
    assert found_in(at_once((read(X), append(Y, 1)), (read(Y), append(X, 1)))) == {"G2": 1}
    assert found_in(at_once((read(X), append(Y, 1)), (read(Y, 1), append(X, 1)))) == {}


def test_g2_two_readers_see_two_appends_in_opposite_orders() -> None:
    readers = (read(X, 1), read(Y)), (read(X), read(Y, 1))
    assert found_in(at_once((append(X, 1),), (append(Y, 1),), *readers)) == {"G2": 1}


def test_two_groups_of_transactions_are_two_anomalies() -> None:
    skew = [(read(X), append(Y, 1)), (read(Y), append(X, 1))]
    elsewhere = [(append(Z, 1), read(9, 1)), (append(9, 1), read(Z, 1))]
    assert found_in(at_once(*skew, *elsewhere)) == {"G2": 1, "G1c": 1}


def test_several_transactions_may_append_unread_after_having_read_everything() -> None:
    """The two must not precede each other through the list's unknown end, except where each missed the other."""
    assert found_in([txn(1, 0, 5, read(X), append(X, 1))]) == {}
    both = [txn(1, 0, 5, read(X), append(X, 1)), txn(2, 0, 5, read(X), append(X, 2))]
    assert found_in(both) == {"G2": 1}, "whichever came first, the other should have seen it"


# Order within processes, and real time --------------------------------------------------------------------------------


def test_g_single_process_a_session_forgets_what_it_did() -> None:
    first = txn(1, 0, 5, append(X, 1))
    assert found_in([first, txn(1, 5, 9, read(X))]) == {"G-single-process": 1}
    assert found_in([first, txn(2, 5, 9, read(X))]) == {}


def test_transactions_that_took_no_time_do_not_cut_the_order_of_their_process() -> None:
    """Two at one instant have no order, but both come after what had ended by then, and before what follows."""
    seen = txn(9, 20, 30, read(X, 1), read(Y, 2))
    first = txn(1, 3, 6, append(X, 1))
    assert found_in([first, txn(1, 6, 6, append(Y, 2)), txn(1, 6, 6, read(X)), seen]) == {"G-single-process": 1}
    assert found_in([first, txn(1, 6, 6, append(Y, 2)), txn(2, 6, 6, read(X)), seen]) == {}
    before = txn(1, 6, 6, append(X, 1))
    assert found_in([before, txn(1, 6, 6, append(Y, 2)), txn(1, 6, 8, read(X)), seen]) == {"G-single-process": 1}
    assert found_in([before, txn(1, 6, 6, append(Y, 2)), txn(1, 6, 6, read(X)), seen]) == {}, (
        "who knows which was first"
    )


def test_too_many_transactions_at_one_instant_are_not_called_valid(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    moments = [txn(1, now, now, append(10 * now + number, 1)) for now in (5, 6) for number in range(3)]
    history = [*moments, txn(2, 9, 10, read(50, 1))]
    assert verdict_of(result_of(history), "strong-session-serializable") == "valid"
    monkeypatch.setattr(dependencies, "INSTANT_EDGES", 7)
    result = result_of(history)
    assert result.undecided == ("too many transactions of a process took no time, at one instant",)
    assert verdict_of(result, "strong-session-serializable") == "unknown"


def test_g_single_realtime_a_stale_read() -> None:
    first = txn(1, 0, 5, append(X, 1))
    assert found_in([first, txn(2, 6, 9, read(X))]) == {"G-single-realtime": 1}
    assert found_in([first, txn(2, 5, 9, read(X))]) == {}, "they overlap"
    assert found_in([txn(1, 0, None, append(X, 1)), txn(2, 6, 9, read(X))]) == {}, "it may happen yet"


def test_g1c_realtime_a_read_from_the_future() -> None:
    assert found_in([txn(1, 6, 9, append(X, 1)), txn(2, 0, 5, read(X, 1))]) == {"G1c-realtime": 1}
    assert found_in([txn(1, 5, 9, append(X, 1)), txn(2, 0, 5, read(X, 1))]) == {}


def test_g0_realtime_an_append_is_lost() -> None:
    first, second = txn(1, 0, 5, append(X, 1)), txn(2, 6, 9, append(X, 2))
    assert found_in([first, second, txn(3, 10, 12, read(X, 2))]) == {"G0-realtime": 1}
    assert found_in([first, second, txn(3, 10, 12, read(X, 1, 2))]) == {}


def test_g2_realtime() -> None:
    history = [
        txn(1, 20, 25, read(X)),
        txn(2, 0, 30, append(X, 1), read(Y)),
        txn(3, 0, 5, append(Y, 1)),
        txn(4, 40, 45, read(X, 1), read(Y, 1)),
    ]
    assert found_in(history) == {"G2-realtime": 1}
    assert found_in([txn(1, 5, 25, read(X)), *history[1:]]) == {}


def test_the_error_of_clocks_widens_intervals() -> None:
    table = table_of([txn(1, 0, 5, append(X, 1)), txn(2, 8, 12, read(X))])
    assert check_list_append(table).anomalies == {"G-single-realtime": 1}
    doubt = table.set_column(5, TRANSACTION_SCHEMA.field("clock_error"), pa.array([1, 2]))
    assert check_list_append(doubt).anomalies == {}


def test_rows_may_come_in_any_order() -> None:
    table = healthy_table(4, 300)
    assert check_list_append(table.take(list(range(299, -1, -1)))).anomalies == {}


# Verdicts -------------------------------------------------------------------------------------------------------------


def test_each_model_forbids_more_than_the_weaker_ones() -> None:
    models = list(MODELS.values())
    assert all(weaker < stronger for weaker, stronger in pairwise(models))


def test_a_model_allows_what_it_does_not_forbid() -> None:
    skew = result_of(at_once((append(Z, 1),), (read(X), append(Y, 1)), (read(Y), append(X, 1)), (read(Z, 1),)))
    assert verdict_of(skew, "read-committed") == "valid"
    assert verdict_of(skew, "serializable") == "invalid"
    stale = result_of([txn(1, 0, 5, append(X, 1)), txn(2, 6, 9, read(X)), txn(3, 10, 12, read(X, 1))])
    assert verdict_of(stale, "strong-session-serializable") == "valid"
    assert verdict_of(stale, "strict-serializable") == "invalid"


def test_a_history_of_nothing_proves_nothing() -> None:
    for history in ([], [txn(1, 0, 5, append(X, 1))], [txn(1, 0, 5, read(X))], [txn(1, 0, None, append(X, 1))]):
        assert verdict_of(result_of(history), "strict-serializable") == "unknown"


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ([txn(1, 0, 5, append(X, 1)), txn(2, 0, 5, append(X, 1))], "element 1 was appended twice to key 1"),
        ([txn(1, 5, 0, append(X, 1))], "operation 0 ended before it began"),
        ([txn(1, 0, 5), txn(1, 4, 9)], "process 1 began another transaction before 0 had ended"),
        ([txn(1, 0, None), txn(1, 4, 9)], "process 1 began another transaction before 0 had ended"),
        ([txn(1, 0, 5, kind=7)], "operation 0 has the type 7"),
    ],
)
def test_a_history_that_makes_no_sense_is_unknown(history: list[ForgedTransaction], reason: str) -> None:
    result = result_of(history)
    assert verdict_of(result, "read-committed") == "unknown"
    assert reason in result.undecided[0]


def test_a_table_without_its_columns_is_unknown() -> None:
    result = check_list_append(healthy_table(1, 5).drop_columns(["reads"]))
    assert result.undecided == ("the table of transactions lacks the columns reads",)


def test_when_the_time_is_up_nothing_is_called_valid() -> None:
    result = check_list_append(healthy_table(1, 2000), seconds=-1.0)
    assert verdict_of(result, "strict-serializable") == "unknown"
    assert result.undecided


def test_what_was_found_stands_when_the_time_is_up() -> None:
    spoilt = [txn(1, 0, 5, append(X, 1)), txn(2, 6, 9, read(X)), txn(3, 0, 5, append(Y, 1), kind=FAIL)]
    result = check_list_append(table_of([*spoilt, txn(4, 6, 9, read(Y, 1))]), seconds=-1.0)
    assert verdict_of(result, "read-committed") == "invalid"
    assert result.anomalies["G1a"] == 1


def verdicts(result: ListAppendResult) -> list[str]:
    return [verdict_of(result, model) for model in MODELS]


SEEN_BY_EACH_OTHER = [txn(5, 21, 29, append(-1, 1), read(-2, 2)), txn(6, 21, 29, append(-2, 2), read(-1, 1))]


class Clock:
    """A clock by which the time is up after a few looks at it."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def monotonic(self) -> float:
        self.looks -= 1
        return float("-inf") if self.looks >= 0 else float("inf")


@pytest.mark.parametrize("looks", [0, 5])
def test_a_lesser_cycle_is_found_although_the_time_was_up(monkeypatch, looks: int) -> None:  # type: ignore[no-untyped-def]
    """Each transaction of a long chain depends on the one before, and began before it: a case that takes long."""
    size, later = 2_000, 10**6
    chain = [txn(10 + at, 15, 10 * later, read(at - 1, 1), append(at, 1)) for at in range(1, size)]
    stale = [txn(0, 0, 10, append(0, 1)), txn(1, later, later + 10, read(0)), *chain]
    monkeypatch.setattr(suspects, "time", Clock(looks))
    result = result_of([*stale, *SEEN_BY_EACH_OTHER])
    assert result.anomalies["G1c"] == 1
    assert verdicts(result) == ["invalid"] * 4
    monkeypatch.setattr(suspects, "time", Clock(looks))
    near = result_of([*stale, SEEN_BY_EACH_OTHER[0], txn(6, 21, 29, append(-2, 2))])
    if looks:
        assert near.anomalies == {"G-single-realtime": 1}
        assert verdicts(near) == ["valid", "valid", "valid", "invalid"]
    else:
        assert verdicts(near) == ["unknown", "unknown", "unknown", "invalid"], "one edge leads back in time"


@pytest.mark.parametrize("size", [300, cycles.NODES + 5_000])
def test_a_lesser_cycle_is_found_in_a_piece_of_any_size(size: int) -> None:
    base = transactions_of(healthy_table(1, size, unknown=0, aborted=0))
    first, last = min(one.invoked for one in base), max(one.completed or 0 for one in base)
    middle, who, key = (first + last) // 2, 10**6, 10**9
    stale = [
        txn(who, first - 10, first - 5, append(key, 1)),
        *base,
        txn(who + 1, last + 10, last + 20, read(key)),
        txn(who + 2, last + 30, last + 40, read(key, 1)),
    ]
    pair = [txn(who + at, middle, middle + 9, *one.operations) for at, one in enumerate(SEEN_BY_EACH_OTHER, 3)]
    result = result_of([*stale, *pair])
    assert result.anomalies["G1c"] == 1
    assert verdicts(result) == ["invalid"] * 4
    near = result_of(stale)
    assert near.anomalies == {"G-single-realtime": 1}
    assert verdicts(near) == ["valid", "valid", "valid", "invalid"]


def test_unknown_reads_of_a_committed_transaction_say_nothing() -> None:
    silent = txn(2, 6, 9, Micro(READ, X))
    assert found_in([txn(1, 0, 5, append(X, 1)), silent]) == {}
