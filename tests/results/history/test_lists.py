"""Transactions out of a history of lists: what is an append, what is a read, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from squall.results.checkers.transactions.list_append import check_list_append, verdict_of
from squall.results.history.history import history_of
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.joining import joined
from squall.results.history.lists import holds_lists, transactions_of
from squall.results.history.segments import CompletionRow, InvocationRow, SegmentHeader
from squall.results.synthetic.forge import ORIGIN
from tests.facts import naming

Rows = list[InvocationRow | CompletionRow]


def invoked(f: str, process: int, at: int, value: int | None = None, partition: int = 0) -> InvocationRow:
    return InvocationRow(f, process, process, ORIGIN + at, ORIGIN + at, "events", partition, value)


def completed(process: int, at: int, kind: str = "ok", **facts: object) -> CompletionRow:
    return CompletionRow(process, kind, ORIGIN + at, **facts)  # type: ignore[arg-type]


def appended(process: int, at: int, value: int, offset: int | None, kind: str = "ok", partition: int = 0) -> Rows:
    return [invoked("send", process, at, value, partition), completed(process, at + 5, kind, offset=offset)]


def marker(process: int, at: int, value: int, offset: int | None, kind: str = "ok", partition: int = 0) -> Rows:
    return [invoked("marker", process, at, value, partition), completed(process, at + 5, kind, offset=offset)]


def read(process: int, at: int, values: list[int], session: int = 0, position: int = 0, f: str = "poll") -> Rows:
    offsets = list(range(position, position + len(values)))
    facts = {"offsets": offsets, "values": values, "session": session, "position": position}
    return [invoked(f, process, at), completed(process, at + 5, **facts)]


def transactions(*parts: Rows) -> pa.Table:
    rows = [row for part in parts for row in part]
    table = joined(Path("segment"), SegmentHeader("lists", 1), enumerate(rows, 2))
    return transactions_of(history_of([table], 0, Path("history")).table)


def told(table: pa.Table) -> list[tuple[int, int, int, list[int] | None]]:
    """(kind, list, element, what was read) of each transaction."""
    return [
        (functions[0], keys[0], elements[0], reads[0])
        for functions, keys, elements, reads in zip(
            *(table[name].to_pylist() for name in ("functions", "keys", "elements", "reads")), strict=True
        )
    ]


def test_sends_are_appends_and_polls_from_the_start_are_reads() -> None:
    table = transactions(
        appended(1, 0, 7, 0), appended(1, 10, 8, 1), read(2, 20, [7, 8]), read(2, 30, [7, 8], session=1)
    )
    assert told(table) == [(0, 0, 7, None), (0, 0, 8, None), (1, 0, 0, [7, 8]), (1, 0, 0, [7, 8])]
    assert verdict_of(check_list_append(table), "strict-serializable") == "valid"


def test_every_topic_partition_is_a_list_of_its_own() -> None:
    table = transactions(appended(1, 0, 7, 0), appended(1, 10, 8, 0, partition=3))
    assert [(key, element) for _, key, element, _ in told(table)] == [(0, 7), (1, 8)]


def test_an_empty_list_was_read_and_a_failed_read_says_nothing() -> None:
    failed: Rows = [invoked("poll", 3, 30), completed(3, 35, "fail", error="disconnected")]
    assert told(transactions(read(2, 20, []), failed)) == [(1, 0, 0, [])]


def test_a_poll_that_goes_on_from_somewhere_is_no_read_of_a_list() -> None:
    assert told(transactions(read(2, 20, [9], position=4))) == []


def test_what_became_of_an_append_is_kept() -> None:
    table = transactions(
        appended(1, 0, 7, None, "fail"), appended(2, 0, 8, None, "info"), [invoked("send", 3, 0, 9)], read(4, 20, [8])
    )
    assert table["type"].to_pylist() == [1, 2, 2, 0]
    assert verdict_of(check_list_append(table), "serializable") == "valid"


def test_the_final_polls_of_a_session_are_one_read() -> None:
    """Also when they were many; its time is that of all of them."""
    table = transactions(
        appended(1, 0, 7, 0),
        marker(1, 10, 8, 1),
        read(2, 20, [7], f="final_poll"),
        read(2, 30, [8], position=1, f="final_poll"),
    )
    assert told(table)[-1] == (1, 0, 0, [7, 8])
    assert (table["invoked"][-1].as_py(), table["completed"][-1].as_py()) == (ORIGIN + 20, ORIGIN + 35)


def test_final_polls_that_do_not_begin_at_the_start_are_left_out() -> None:
    table = transactions(marker(1, 0, 8, 1), read(2, 30, [8], position=1, f="final_poll"))
    assert told(table) == [(0, 0, 8, None)]


def test_final_polls_that_were_cut_off_are_no_read_of_the_whole_list() -> None:
    """What they did not come to was there all the same."""
    appends = [*appended(1, 0, 101, 0), *appended(1, 10, 102, 1), *read(2, 20, [101, 102]), *marker(3, 30, 103, 2)]
    failed: Rows = [invoked("final_poll", 4, 50), completed(4, 55, "fail", error="disconnected")]
    cut_off = check_list_append(transactions(appends, read(4, 40, [101], f="final_poll"), failed))
    assert verdict_of(cut_off, "strict-serializable") == "valid"
    whole = check_list_append(transactions(appends, read(4, 40, [101, 102, 103], f="final_poll")))
    assert verdict_of(whole, "strict-serializable") == "valid"
    turned = check_list_append(transactions(appends, read(4, 40, [102, 101, 103], f="final_poll")))
    assert verdict_of(turned, "serializable") == "invalid"


@pytest.mark.parametrize("kind", ["fail", "info", None])
def test_without_an_acked_marker_the_reach_of_final_polls_is_unknown(kind: str | None) -> None:
    ending = marker(3, 30, 103, None, kind) if kind else []
    table = transactions(appended(1, 0, 7, 0), ending, read(4, 40, [7], f="final_poll"))
    assert [shown for *_, shown in told(table) if shown is not None] == []


def test_a_marker_of_another_topic_partition_is_no_end() -> None:
    table = transactions(appended(1, 0, 7, 0), marker(3, 30, 103, 0, partition=1), read(4, 40, [7], f="final_poll"))
    assert [shown for *_, shown in told(table) if shown is not None] == []


def test_lists_that_disagree_are_found_and_the_near_miss_is_not() -> None:
    """A read of less than there is is older or a deposed leader's, which is no matter of order."""
    appends = [*appended(1, 0, 7, 0), *appended(1, 10, 8, 1)]
    wrong = check_list_append(transactions(appends, read(2, 20, [7, 8]), read(3, 30, [8])))
    assert verdict_of(wrong, "serializable") == "invalid" and "incompatible_order" in wrong.anomalies
    older = check_list_append(transactions(appends, read(2, 20, [7, 8]), read(3, 30, [7])))
    assert verdict_of(older, "serializable") == "valid"
    assert verdict_of(older, "strict-serializable") == "invalid"


def test_an_element_whose_append_failed_must_not_be_there() -> None:
    found = check_list_append(transactions(appended(1, 0, 7, None, "fail"), read(2, 20, [7])))
    assert verdict_of(found, "serializable") == "invalid"


def test_nulls_among_what_polls_delivered_are_ill_formed_and_no_crash() -> None:
    rows = enumerate(read(2, 20, [7]), 2)
    table = history_of([joined(Path("segment"), SegmentHeader("lists", 1), rows)], 0, Path("history")).table
    nulls = table.set_column(table.schema.get_field_index("values"), "values", pa.nulls(1, pa.list_(pa.int64())))
    with pytest.raises(IllFormedHistory, match=naming("nulls", "column values")):
        transactions_of(nulls)


def test_only_the_workload_of_lists_is_read_so() -> None:
    assert holds_lists({"name": "list-append"})
    assert not holds_lists({"name": "log"}) and not holds_lists({})
