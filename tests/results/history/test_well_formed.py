"""Well-formed histories, in whole and in shares: what one look at everything finds, tasks find as well, to the row.

The oracle is a loop over operations, one after the other. Histories have few processes and coarse times, so that ends
and beginnings meet, and row groups of a few rows, so that whatever belongs together lies in several of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from squall.results.check import check_run
from squall.results.checkers.engine.engines import (
    InProcess,
    LookedOver,
    decode_outcome,
    decode_task,
    encode_outcome,
    encode_task,
    outcome_of,
)
from squall.results.checkers.engine.well_formed_task import (
    FIRST,
    LAST,
    ONE_AT_A_TIME,
    RECORDED_ONCE,
    check_well_formed,
    first_breach,
    well_formed_tasks,
)
from squall.results.history.history import HISTORY_FILE, SCHEMA, History, close_history, validate
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.joining import SEGMENT_BITS
from squall.results.history.parquet_files import kept_open, seal_path
from squall.results.history.row_groups import Range, row_groups_beside, row_groups_of, span_of, stored_span
from squall.results.history.rows import TYPES
from squall.results.history.well_formed import (
    NEVER,
    Breach,
    Columns,
    least_repeated,
    overlapping,
    portions,
    suspects,
)
from squall.results.synthetic.forge import forge_run, healthy

OK, FAIL, INFO = TYPES["ok"], TYPES["fail"], TYPES["info"]
SEEDS = 200


@dataclass(frozen=True)
class Op:
    """What matters of an operation."""

    op_id: int
    process: int
    invoked: int
    completed: int | None
    type: int = OK


def table_of(operations: Sequence[Op]) -> pa.Table:
    """Rows of a history, in this order; what does not matter is the same in each."""
    plain = dict.fromkeys(SCHEMA.names) | {"client": 0, "f": 0, "topic": "events", "partition": 0, "at": 0, "acks": -1}
    plain |= {"idempotent": True, "offsets": [], "values": [], "clock_id": 0, "clock_error": 0}
    return pa.Table.from_pylist([plain | vars(one) for one in operations], SCHEMA)


def stored(path: Path, operations: Sequence[Op], rows: int, **options: object) -> Path:
    """A history with row groups of so many rows."""
    pq.write_table(table_of(operations), path, row_group_size=rows, **options)
    return path


def told(operations: Sequence[Op]) -> tuple[int, str] | None:
    """The oracle: the row and the problem, of the first rule that is broken."""
    rows = sorted(range(len(operations)), key=lambda row: (operations[row].op_id, row))
    for one, other in pairwise(rows):
        if operations[one].op_id == operations[other].op_id:
            return other, f"operation {operations[one].op_id} is recorded twice"
    for row, op in enumerate(operations):
        if op.completed is not None and op.completed < op.invoked:
            return row, f"time runs backwards within process {op.process}: completed before it was invoked"
    busy: dict[int, float] = {}
    for row in sorted(range(len(operations)), key=lambda row: order(operations[row])):
        op = operations[row]
        if op.invoked < busy.get(op.process, float("-inf")):
            return row, f"process {op.process} has two outstanding operations"
        busy[op.process] = float("inf") if op.completed is None or op.type == INFO else op.completed
    return None


def order(op: Op) -> tuple[int, int, int]:
    return op.process, op.invoked, op.op_id


def by_tasks(path: Path, most: int, beside: Path | None = None) -> tuple[int, str] | None:
    """What the tasks find, each of which holds at most so many rows."""
    with kept_open():
        groups = row_groups_of(path) + ([] if beside is None else row_groups_beside(path, beside))
        tasks = well_formed_tasks(0, path, groups, most=most, registers=beside)
        breach = first_breach(check_well_formed(one) for one in tasks)
    return None if breach is None else (breach.row, breach.problem)


def in_memory(table: pa.Table) -> tuple[int | None, str] | None:
    try:
        validate(table, Path("history"))
    except IllFormedHistory as trouble:
        return trouble.row, trouble.problem
    return None


# By lot ---------------------------------------------------------------------------------------------------------------


def legal(rng: random.Random) -> list[Op]:
    """Operations that follow on each other, often at the same instant, some of them without any duration."""
    found, op_id = [], rng.choice((0, 5, 3 << SEGMENT_BITS))
    for process in rng.sample(range(-3, 40), rng.randrange(1, 8)):
        now = rng.randrange(-5, 10)
        for _ in range(rng.randrange(1, 12)):
            now += rng.choice((0, 0, 1, 4))
            ended = now + rng.choice((0, 0, 1, 2, 7))
            op_id += rng.choice((1, 1, 1, 2, 1 << SEGMENT_BITS))
            kind = rng.choice((OK, OK, OK, OK, OK, FAIL, INFO))
            open_ended = kind == INFO and rng.random() < 0.5
            found.append(Op(op_id, process, now, None if open_ended else ended, kind))
            if kind == INFO:
                break
            now = ended
    rng.shuffle(found)
    return sorted(found, key=lambda one: one.invoked) if rng.random() < 0.5 else found


def spoilt(operations: list[Op], rng: random.Random) -> list[Op]:
    """With one or two rows changed, which may or may not break a rule."""
    found = list(operations)
    for _ in range(rng.randrange(1, 3)):
        row = rng.randrange(len(found))
        op, other = found[row], rng.choice(found)
        found[row] = rng.choice(
            (
                replace(op, op_id=other.op_id),
                replace(op, process=other.process),
                replace(op, process=other.process, invoked=other.invoked, completed=other.invoked),
                replace(op, invoked=op.invoked + rng.randrange(-4, 5)),
                replace(op, completed=None),
                replace(op, completed=op.invoked + rng.randrange(-2, 12)),
                replace(op, type=INFO),
            )
        )
    return found


def test_tasks_find_what_one_pass_over_everything_and_the_rules_find(tmp_path: Path) -> None:
    well, ill = 0, 0
    for seed in range(SEEDS):
        rng = random.Random(seed)
        operations = legal(rng)
        if rng.random() < 0.7:
            operations = spoilt(operations, rng)
        expected = told(operations)
        well, ill = well + (expected is None), ill + (expected is not None)
        assert in_memory(table_of(operations)) == expected, f"seed {seed}: in memory"
        statistics = rng.random() < 0.8
        path = stored(tmp_path / "history", operations, rng.randrange(1, 9), write_statistics=statistics)
        assert by_tasks(path, rng.choice((1, 2, 5, 12, 1000))) == expected, f"seed {seed}: by tasks"
    assert well > SEEDS / 4 and ill > SEEDS / 4


def test_a_table_beside_the_history_is_looked_at_as_more_of_the_same(tmp_path: Path) -> None:
    """By lot as above, with the last rows in a file of their own, as operations on registers are."""
    well, ill, seeds = 0, 0, SEEDS // 4
    for seed in range(seeds):
        rng = random.Random(f"beside/{seed}")
        operations = legal(rng)
        if rng.random() < 0.7:
            operations = spoilt(operations, rng)
        expected = told(operations)
        well, ill = well + (expected is None), ill + (expected is not None)
        cut = rng.randrange(len(operations))
        options = {"write_statistics": rng.random() < 0.8}
        path = stored(tmp_path / "history", operations[:cut], rng.randrange(1, 9), **options)
        beside = stored(tmp_path / "registers", operations[cut:], rng.randrange(1, 9), **options)
        assert by_tasks(path, rng.choice((1, 2, 5, 12, 1000)), beside) == expected, f"seed {seed}"
    assert well > seeds / 4 and ill > seeds / 4


# By hand: each rule with its legal near-miss, together in a row group and in two that are far apart ------------------

OTHERS = [Op(100 + number, 50 + number, number, number + 3) for number in range(30)]

LEGAL = {
    "one begins as the other ends": [Op(1, 7, 0, 10), Op(2, 7, 10, 20)],
    "instants": [Op(1, 7, 10, 10), Op(2, 7, 10, 10), Op(3, 7, 10, 20)],
    "an instant, then one of unknown outcome": [Op(1, 7, 10, 10), Op(2, 7, 10, 30, INFO)],
    "nothing follows one of unknown outcome": [Op(1, 7, 0, 10), Op(2, 7, 10, None, INFO)],
    "other processes meanwhile": [Op(1, 7, 0, None, INFO), Op(2, 8, 5, 10)],
    "the same number in another segment": [Op(1, 7, 0, 5), Op(1 + (1 << SEGMENT_BITS), 7, 5, 6)],
}
ILLEGAL = {
    "one begins before the other ends": ([Op(1, 7, 0, 10), Op(2, 7, 9, 20)], "process 7 has two outstanding"),
    "an instant within": ([Op(1, 7, 0, 10), Op(2, 7, 5, 5)], "process 7 has two outstanding"),
    "an instant after one of unknown outcome": (
        [Op(1, 7, 10, 12, INFO), Op(2, 7, 12, 12)],
        "process 7 has two outstanding",
    ),
    "an instant as one of unknown outcome begins": (
        [Op(1, 7, 10, None, INFO), Op(2, 7, 10, 10), Op(3, 7, 20, 30)],
        "process 7 has two outstanding",
    ),
    "one that begins with it, then an instant": ([Op(1, 7, 10, 20), Op(2, 7, 10, 10)], "process 7 has two outstanding"),
    "long after one of unknown outcome": ([Op(1, 7, 0, 1, INFO), Op(2, 7, 10**9, None)], "process 7 has two"),
    "one without a completion": ([Op(1, 7, 0, None), Op(2, 7, 10**9, 10**9 + 1)], "process 7 has two outstanding"),
    "ended before it began": ([Op(1, 7, 10, 9)], "time runs backwards within process 7"),
    "of unknown outcome, ended before it began": ([Op(1, 7, 10, 9, INFO)], "time runs backwards within process 7"),
    "recorded twice": ([Op(1, 7, 0, 10), Op(1, 8, 20, 30)], "operation 1 is recorded twice"),
}


def spread(operations: Sequence[Op]) -> list[Op]:
    """With so many others between that each lies in a row group of its own."""
    found = list(OTHERS)
    for number, one in enumerate(operations):
        found.insert(number * 10, one)
    return found


@pytest.mark.parametrize("arranged", [list, spread])
@pytest.mark.parametrize("most", [1, 4, 10_000])
@pytest.mark.parametrize("case", LEGAL)
def test_what_is_legal_is_well_formed(
    tmp_path: Path, case: str, most: int, arranged: Callable[[Sequence[Op]], list[Op]]
) -> None:
    operations = arranged(LEGAL[case])
    assert in_memory(table_of(operations)) is None
    assert by_tasks(stored(tmp_path / "history", operations, 5), most) is None


@pytest.mark.parametrize("arranged", [list, spread])
@pytest.mark.parametrize("most", [1, 4, 10_000])
@pytest.mark.parametrize("case", ILLEGAL)
def test_what_is_not_is_told_with_its_row(
    tmp_path: Path, case: str, most: int, arranged: Callable[[Sequence[Op]], list[Op]]
) -> None:
    wrong, problem = ILLEGAL[case]
    operations = arranged(wrong)
    found = by_tasks(stored(tmp_path / "history", operations, 5), most)
    assert found is not None and found == told(operations) == in_memory(table_of(operations))
    assert found[1].startswith(problem)
    assert operations[found[0]] in wrong


def test_of_several_breaches_the_first_rule_is_told_then_the_first_row() -> None:
    last = overlapping(3, 10, 1, row=0)
    breaches = [overlapping(3, 10, 2, row=5), None, last, overlapping(4, 0, 0, row=1)]
    assert first_breach(breaches) == last
    assert first_breach([None]) is None


# The quick looks ------------------------------------------------------------------------------------------------------


def columns(*rows: tuple[int, int, int]) -> Columns:
    """Process, invocation and end."""
    return tuple(np.array(one, np.int64) for one in zip(*rows, strict=True))


def test_suspects_are_few_where_all_is_well() -> None:
    assert suspects(*columns((7, 0, 10), (7, 10, 20), (8, 0, NEVER), (9, 3, 3), (9, 4, 4))).tolist() == []
    assert suspects(*columns((7, 0, 10), (7, 9, 20), (8, 0, 5))).tolist() == [7]


def test_times_and_processes_that_do_not_fit_a_word_make_suspects_of_all() -> None:
    far = 1 << 62
    assert suspects(*columns((0, -far, 5), (far, far, far + 1))).tolist() == [0, far]


def test_ids_spread_too_thinly_for_flags_are_sorted() -> None:
    thin = [number << 30 for number in range(100)]
    assert least_repeated(np.array(thin, np.int64)) is None
    assert least_repeated(np.array([*thin, 7 << 30, 3 << 30], np.int64)) == 3 << 30
    assert least_repeated(np.array([5, 4, 3, 4, 5], np.int64)) == 4
    assert least_repeated(np.zeros(0, np.int64)) is None


def test_portions_hold_what_they_may_and_together_everything() -> None:
    keys = np.random.default_rng(1).integers(0, 1000, 5_000)

    def read(low: int, high: int) -> Sequence[Columns]:
        return [(piece[(piece >= low) & (piece <= high)],) for piece in np.array_split(keys, 20)]

    found = list(portions(lambda low, high: iter(read(low, high)), 1, FIRST, LAST, 800))
    assert np.sort(np.concatenate([one.columns[0] for one in found])).tolist() == np.sort(keys).tolist()
    assert max(len(one.columns[0]) for one in found) <= 800
    assert [one.low for one in found[1:]] == [one.high + 1 for one in found[:-1]]
    assert (found[0].low, found[-1].high) == (FIRST, LAST)


def test_what_cannot_be_told_apart_is_held_all_the_same() -> None:
    same = np.full(100, 5)
    assert [len(one.columns[0]) for one in portions(lambda low, high: iter([(same,)]), 1, 5, 5, 10)] == [100]


# Planning -------------------------------------------------------------------------------------------------------------


def test_a_large_history_is_cut_by_ids_and_processes_then_by_id_and_time(tmp_path: Path) -> None:
    two = [Op(number, number // 50, number % 50, number % 50 + 1) for number in range(100)]
    path = stored(tmp_path / "history", two, 10)
    tasks = well_formed_tasks(3, path, row_groups_of(path), most=200)
    assert {(one.rule, one.row_groups) for one in tasks} >= {(ONE_AT_A_TIME, (0, 1, 2, 3, 4))}
    narrow = well_formed_tasks(3, path, row_groups_of(path), most=20)
    cuts = [(one.low, one.high) for one in narrow if one.rule == ONE_AT_A_TIME]
    assert sum(low == FIRST for low, _ in cuts) == sum(high == LAST for _, high in cuts) == 2
    assert len(cuts) > 4
    assert all(len(one.row_groups) <= 3 for one in narrow), "no task reads what does not matter to it"
    for rule in (RECORDED_ONCE, ONE_AT_A_TIME):
        assert {group for one in narrow if one.rule == rule for group in one.row_groups} == set(range(10))


def test_tasks_and_what_they_find_travel_whole(tmp_path: Path) -> None:
    path = stored(tmp_path / "history", ILLEGAL["recorded twice"][0], 1)
    (task, *_) = well_formed_tasks(3, path, row_groups_of(path), deadline=1e10)
    assert decode_task(encode_task(task)) == task
    (other, *_) = well_formed_tasks(3, path, row_groups_beside(path, path), registers=path)
    assert (other.row_groups, other.registers, other.register_groups) == ((), str(path), (0, 1))
    assert decode_task(encode_task(other)) == other
    outcome = outcome_of(task)
    assert outcome == LookedOver(3, Breach(0, (1,), 1, "operation 1 is recorded twice"))
    assert decode_outcome(encode_outcome(outcome)) == outcome


def test_row_groups_are_known_with_statistics_and_without(tmp_path: Path) -> None:
    operations = [Op(1, 7, 5, None, INFO), Op(2, 8, 6, None, INFO), Op(3, 9, 0, 4), Op(4, 7, 1, 2)]
    plain = row_groups_of(stored(tmp_path / "one", operations, 2))
    assert plain == row_groups_of(stored(tmp_path / "two", operations, 2, write_statistics=False))
    first, second = plain
    assert (first.first_row, first.rows, first.completed, first.endless) == (0, 2, None, True)
    assert (second.first_row, second.op_id, second.process) == (2, Range(3, 4), Range(7, 9))
    assert (second.invoked, second.completed, second.endless) == (Range(0, 1), Range(2, 4), False)


def test_the_span_of_a_stored_history_is_that_of_its_rows(tmp_path: Path) -> None:
    run = forge_run(tmp_path, healthy(1, 60) + healthy(1, 60, 1))
    path = close_history(run)
    span = span_of(History.load(run).table)
    assert span is not None and span.last_send < span.last
    assert stored_span(path, row_groups_of(path), sends_matter=True) == span
    assert stored_span(path, [], sends_matter=True) is span_of(table_of([])) is None


# Whole runs -----------------------------------------------------------------------------------------------------------


def verdict_on(run: Path, table: pa.Table) -> tuple[str, str]:
    """With this as its history, whatever its layout says of topic-partitions."""
    path = close_history(run)
    metadata = pq.ParquetFile(path).metadata.metadata
    with pq.ParquetWriter(path, SCHEMA.with_metadata({b"squall.schema": b"1"})) as file:
        file.write_table(table)
        file.add_key_value_metadata({b"squall.topic_partitions": metadata[b"squall.topic_partitions"]})
    seal_path(path).unlink(missing_ok=True)
    verdict = check_run(run, InProcess(), report=False)
    return verdict.verdict, verdict.reasons[0] if verdict.reasons else ""


def test_an_ill_formed_history_is_unknown_whatever_its_logs_look_like(tmp_path: Path) -> None:
    run = forge_run(tmp_path, healthy(1))
    table = History.load(run).table
    assert verdict_on(run, table) == ("valid", "")
    ids = table["op_id"].to_pylist()
    ids[9] = ids[4]
    wrong = table.set_column(table.schema.get_field_index("op_id"), SCHEMA.field("op_id"), pa.array(ids))
    assert verdict_on(run, wrong) == ("unknown", f"{tmp_path / HISTORY_FILE}:9: operation {ids[4]} is recorded twice")


def test_nulls_where_there_must_be_none_are_ill_formed(tmp_path: Path) -> None:
    operations = [Op(1, 7, 0, 1), Op(2, 7, 2, 3)]
    for name in ("op_id", "process", "invoked", "type"):
        column = pa.array([None, getattr(operations[1], name)], SCHEMA.field(name).type)
        table = table_of(operations).set_column(SCHEMA.get_field_index(name), name, column)
        path = tmp_path / name
        pq.write_table(table, path)
        with pytest.raises(IllFormedHistory, match=f"holds nulls in the column {name}; it must not"):
            row_groups_of(path)


def test_a_footer_that_says_something_else_than_the_rows_is_ill_formed(tmp_path: Path) -> None:
    """The ranges decide what is looked at together: they must not be believed unseen."""
    first, process = 3_000_001, 1_000_003
    operations = [Op(first, process, 2_000_005, 2_000_006), Op(first + 1, process, 2_000_007, 2_000_008)]
    path = stored(tmp_path / "history", operations, 2, compression="none", use_dictionary=False)
    content = path.read_bytes()
    footer = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    for value, name in ((first, "op_id"), (process, "process"), (2_000_005, "invoked"), (2_000_006, "completed")):
        least, other = (number.to_bytes(8, "little") for number in (value, value - 1 << 30))
        path.write_bytes(content[:footer] + content[footer:].replace(least, other))
        tasks = well_formed_tasks(0, path, row_groups_of(path))
        with pytest.raises(IllFormedHistory, match=f"says something else of {name} in row group 0"):
            for one in tasks:
                check_well_formed(one)
