"""The compiled loops: when they are loaded, where their machine code goes, what only large histories make them do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.results.checkers.kernels import loops
from squall.results.checkers.kernels.observed import Slots
from squall.results.checkers.kernels.operations import POLL, SEND, Operations, UnusableRecords, filled
from squall.results.checkers.kernels.series import class_edges, latency_class
from squall.results.checkers.log.partition import Task, check_task
from squall.results.checkers.log.result import PartitionResult
from squall.results.history.history import SegmentHeader
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.joining import SCHEMA, joined
from squall.results.synthetic.forge import Forged, rows_of

Check = Callable[..., PartitionResult]


def send(number: int, offset: int, **stated: Any) -> Forged:
    """The send of a process of its own, one after the other."""
    return Forged("send", number, 0, 10 * number, 10 * number + 5, value=number << 40 | 1, offset=offset, **stated)


def poll(client: int, invoked: int, *run: tuple[int, int], session: int = 0) -> Forged:
    return Forged("poll", client, client, invoked, invoked + 1, run=run, session=session)


# Loading --------------------------------------------------------------------------------------------------------------


def said_by(program: str, **environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_numba_is_not_loaded_before_something_is_judged() -> None:
    """It takes as long as everything else together."""
    program = "import sys, squall.harness.cli.main, squall.results.check; print('numba' in sys.modules)"
    assert said_by(program).strip() == "False"


def test_what_cannot_be_kept_is_compiled_all_the_same() -> None:
    """A function without a file has no place for its machine code either."""
    program = """
from squall.results.checkers.kernels.compiling import INT, compiled
space = {}
exec("def twice(number): return 2 * number", space)
twice = compiled(INT, INT)(space["twice"])
print(twice(21), type(twice).__name__, len(twice.signatures))
"""
    assert said_by(program).split() == ["42", "CPUDispatcher", "1"]


# What only large histories do -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 255, 256, 257, 3_000])
def test_tables_of_processes_grow_and_forget_none(count: int) -> None:
    """Of as many processes as there may be, one that sends its first value again is noticed."""
    values = np.concatenate((np.arange(count) << 40 | 1, np.arange(count) << 40 | 2))
    f = np.full(2 * count, SEND, np.int8)
    assert loops.counts_up(f, values)
    for process in (0, count // 2, count - 1):
        again = values.copy()
        again[count + process] = process << 40 | 1
        assert not loops.counts_up(f, again)
        f_of_a_poll = f.copy()
        f_of_a_poll[count + process] = POLL
        assert loops.counts_up(f_of_a_poll, again)


@pytest.mark.parametrize("count", [3, 255, 256, 257, 3_000])
def test_sessions_are_numbered_however_many_there_are(count: int) -> None:
    client = np.tile(np.arange(count, dtype=np.int32) % 7, 2)
    session = np.tile(np.arange(count, dtype=np.int32), 2)
    f = np.full(2 * count, POLL, np.int8)
    numbers, keys = loops.numbered_sessions(f, np.zeros(2 * count + 1, np.int32), client, session)
    assert numbers.tolist() == 2 * list(range(count))
    assert keys.tolist() == (client[:count].astype(np.int64) << 32 | session[:count]).tolist()


@pytest.mark.parametrize("count", [0, 1, 200, 5_000])
def test_the_first_place_of_each_number_is_found(count: int) -> None:
    random = np.random.default_rng(count)
    among = random.integers(0, 4 * count + 1, 3 * count + 5) << 40
    wanted = random.integers(0, 4 * count + 1, count) << 40
    expected = [int(np.flatnonzero(among == one)[0]) if one in among else -1 for one in wanted]
    assert loops.first_places(wanted, among, np.zeros(0, np.int8)).tolist() == expected


def test_a_skip_is_found_in_the_last_of_many_sessions(check: Check) -> None:
    sends = [send(number, number - 1) for number in range(1, 4)]
    values = [(one.offset or 0, one.value or 0) for one in sends]
    readers = [poll(10 + number, 100 + number, *values) for number in range(600)]
    assert check([*sends, *readers]).anomalies == {}
    skipping = [poll(609, 1_000, values[0], session=1), poll(609, 1_002, values[2], session=1)]
    found = check([*sends, *readers[:-1], *skipping])
    assert found.anomalies == {"poll_skip": 1}
    assert found.witnesses[0].offset == 1


def test_clients_that_send_out_of_order_are_found_among_many(check: Check) -> None:
    def pair(client: int, swapped: bool) -> list[Forged]:
        first, second = (2 * client + 1, 2 * client) if swapped else (2 * client, 2 * client + 1)
        return [
            Forged("send", 2 * client, client, 1, 9_000, value=(2 * client) << 40 | 1, offset=first, sequence=1),
            Forged(
                "send", 2 * client + 1, client, 2, 9_001, value=(2 * client + 1) << 40 | 1, offset=second, sequence=2
            ),
        ]

    clients = 400
    history = [one for client in range(clients) for one in pair(client, client == clients - 1)]
    reader = poll(5_000, 9_010, *sorted((one.offset or 0, one.value or 0) for one in history))
    found = check([*history, reader])
    assert found.anomalies == {"nonmonotonic_send": 1}
    assert found.witnesses[0].operations[0].client == clients - 1


def test_offsets_far_apart_are_sorted_and_found_again(check: Check) -> None:
    """Direct addressing would take a terabyte."""
    far = 1 << 38
    sends = [send(number, number * far) for number in range(1, 6)]
    run = [(one.offset or 0, one.value or 0) for one in sends]
    assert check([*sends, poll(90, 100, *run), poll(91, 100, *run)]).anomalies == {}
    found = check([*sends, poll(90, 100, *run), poll(91, 100, *run[:2], *run[3:])])
    assert found.anomalies == {"int_poll_skip": 1}
    assert found.witnesses[0].offset == 3 * far


def test_slots_are_those_of_the_offsets_dense_or_not() -> None:
    offsets = np.array([5, 6, 9])
    for slots in (Slots(5, 5), Slots(5, 3, offsets)):
        assert slots.offset(slots.index(offsets)).tolist() == [5, 6, 9]
        assert [slots.place(one) >= 0 for one in (4, 5, 9, 10)] == [False, True, True, False]
        first = slots.from_offset(np.array([-(2**63), 4, 5, 9, 10, 2**63 - 1]))
        assert first[:3].tolist() == [0, 0, 0] and first[4:].tolist() == [len(slots)] * 2
        assert slots.offset(first[3:4]).tolist() == [9]


def test_classes_of_latency_are_the_same_by_their_edges() -> None:
    edges = class_edges()
    random = np.random.default_rng(3)
    times = np.concatenate(
        (edges[:-1], edges[:-1] + 1, np.exp(random.uniform(0, 43, 50_000)).astype(np.int64), [-5, 0])
    )
    assert np.searchsorted(edges, times).tolist() == latency_class(times).tolist()


# Records that are none ------------------------------------------------------------------------------------------------


def with_lists(offsets: list[Any], values: list[Any]) -> pa.Table:
    """A poll each."""
    polls = [Forged("poll", number, number, number, number + 1, session=0) for number in range(len(offsets))]
    table = joined(Path("segment"), SegmentHeader("forged", 0), enumerate(rows_of(polls), 2))
    for name, lists in (("offsets", offsets), ("values", values)):
        column = SCHEMA.get_field_index(name)
        table = table.set_column(column, pa.field(name, pa.list_(pa.int64())), pa.array(lists, pa.list_(pa.int64())))
    return table


@pytest.mark.parametrize(
    ("offsets", "values", "problem"),
    [
        ([[1], [2]], [[1], [2, 3]], "more offsets than values"),
        ([[1], [2, 3]], [[1, 2], [3]], "more offsets than values"),
        ([[1], None], [[1], [2]], "nulls in the column offsets"),
        ([[1], [2]], [[1], [None]], "nulls within the lists of the column values"),
    ],
)
def test_offsets_and_values_that_do_not_belong_together_are_refused(
    offsets: list[Any], values: list[Any], problem: str, tmp_path: Path
) -> None:
    """Loops over them would read what is not theirs."""
    table = with_lists(offsets, values)
    with pytest.raises(UnusableRecords, match=problem):
        Operations.from_table(table)
    path = tmp_path / "history.parquet"
    pq.write_table(table, path)
    with pytest.raises(IllFormedHistory, match=problem):
        check_task(Task(0, str(path), "events", 0, (0,), 0, 10, 100))


def test_lists_in_several_pieces_are_read_as_one() -> None:
    """Row groups, and slices of them, whose lists do not begin at 0."""
    whole = with_lists([[1, 2], [], [3], [4, 5]], [[10, 20], [], [30], [40, 50]])
    pieces = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 2), whole.slice(3)])
    for table in (whole, pieces, whole.slice(1), pieces.slice(1)):
        operations = Operations.from_table(table)
        delivered = [
            operations.record_offset[start:end].tolist()
            for start, end in zip(operations.starts[:-1], operations.starts[1:], strict=True)
        ]
        assert delivered == table["offsets"].to_pylist()
        assert (operations.record_value == 10 * operations.record_offset).all()


@given(st.lists(st.none() | st.integers(-128, 127), max_size=40), st.data())
def test_nulls_are_filled_as_arrow_fills_them(numbers: list[int | None], data: st.DataObject) -> None:
    """Wherever in an array the rows lie."""
    kind = data.draw(st.sampled_from((pa.int8(), pa.int32(), pa.int64())))
    first = data.draw(st.integers(0, len(numbers)))
    column = pa.array(numbers, kind).slice(first, data.draw(st.integers(0, len(numbers))))
    found = filled(column, -7)
    assert found.dtype == np.dtype(kind.to_pandas_dtype())
    assert found.tolist() == pc.fill_null(column, -7).to_pylist()
