"""Slices of a huge log: what they say together is what the rules say of the whole, or they leave it to the whole.

Small histories stand for huge ones: row groups of a few rows, slices of a few more.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from squall.results.checkers.common.tally import Counts
from squall.results.checkers.kernels.operations import Operations
from squall.results.checkers.log.figures import FiguresTask, measured_in, settled
from squall.results.checkers.log.partition import Task, check_table, counted
from squall.results.checkers.log.result import PartitionResult
from squall.results.checkers.log.slices import Slice, SliceTask, check_slice_of, disagreement
from squall.results.checkers.log.slicing import HIGHEST, LOWEST, LogGroup, closing_of, cut
from squall.results.history.history import history_of, joined
from squall.results.history.row_groups import Range
from squall.results.history.segments import SegmentHeader
from squall.results.synthetic.forge import INJECTIONS, NEAR_MISSES, ORIGIN, Forged, healthy, rows_of
from tests.results.checkers.kernels.test_linearizability import random_history

FULL = [pytest.mark.full, pytest.mark.timeout(3600)]
WHOLE = Task(0, "events", "events", 0, (), ORIGIN, 10**7, ORIGIN + 10**9)


def table_of(history: list[Forged]) -> pa.Table:
    rows = enumerate(rows_of(history), 2)
    made = history_of([joined(Path("segment"), SegmentHeader("forged", 0), rows)], 0, Path("history"))
    return made.of("events", 0).combine_chunks()


def group_of(number: int, first_row: int, rows: pa.Table) -> LogGroup:
    """What the footer would say of these rows."""

    def told(values: pa.Array) -> Range | None:
        found = pc.min_max(values).as_py()
        return None if found["min"] is None else Range(found["min"], found["max"])

    def known(name: str) -> Range:
        found = told(rows[name])
        assert found is not None
        return found

    started = told(rows["log_start"])
    return LogGroup(
        number=number,
        first_row=first_row,
        rows=rows.num_rows,
        f=known("f"),
        clock_id=known("clock_id"),
        worst_clock_error=known("clock_error").high,
        log_start=0 if started is None else max(0, started.high),
        sent=told(rows["offset"]),
        delivered=told(pc.list_flatten(rows["offsets"])),
        stated=told(rows["high_watermark"]),
    )


def in_slices(
    table: pa.Table, group_rows: int, each: int, whole: Task = WHOLE
) -> tuple[PartitionResult | None, list[Slice], Counts]:
    """What slices come to, and what was counted of them; no slices where the log is not cut."""
    begins = range(0, table.num_rows, group_rows)
    parts = [table.slice(begin, group_rows) for begin in begins]
    groups = [group_of(number, number * group_rows, part) for number, part in enumerate(parts)]
    mixed = [parts[one.number] for one in groups if one.holds_marker]
    closing = closing_of(groups, pa.concat_tables(mixed) if mixed else None, keeps_front=whole.keeps_front)
    slices, counts = [], []
    for task, _ in cut(whole, groups, closing, each):
        if isinstance(task, FiguresTask):
            continue
        one, of_it = check_slice_of(task, pa.concat_tables([parts[number] for number in task.row_groups]))
        slices.append(one)
        counts.append(of_it)
    clocks = len(pc.unique(table["clock_id"])) > 1
    result = settled(measured_in(whole, table), closing, clocks, slices) if slices else None
    return result, slices, Counts.sum(counts)


def of_the_whole(table: pa.Table, whole: Task = WHOLE) -> PartitionResult:
    return check_table(whole, table)


def same(one: PartitionResult, other: PartitionResult) -> bool:
    return msgspec.structs.replace(one, milliseconds=0) == msgspec.structs.replace(other, milliseconds=0)


@pytest.mark.parametrize("seed", range(20))
def test_slices_settle_a_healthy_log_and_report_the_same_as_the_whole(seed: int) -> None:
    table = table_of(healthy(seed, sends=600))
    settled_by_slices, slices, counts = in_slices(table, group_rows=25, each=200)
    assert len(slices) >= 3
    assert disagreement(slices) is None
    assert settled_by_slices is not None and same(settled_by_slices, of_the_whole(table))
    assert counts == counted(WHOLE.frame, table, Operations.from_table(table))


@pytest.mark.parametrize("name", [*INJECTIONS, *NEAR_MISSES])
def test_slices_never_say_that_a_log_is_sound_which_is_not(name: str) -> None:
    change = INJECTIONS[name][1] if name in INJECTIONS else NEAR_MISSES[name]
    for seed in range(4):
        table = table_of(change(healthy(seed), random.Random(seed)))
        for group_rows, each in ((5, 10), (8, 40), (30, 60)):
            found, _, _ = in_slices(table, group_rows, each)
            assert found is None or same(found, of_the_whole(table)), f"seed {seed}, {group_rows}, {each}"


@pytest.mark.parametrize("keeps_front", [False, True])
def test_slices_know_whether_a_stated_start_excuses_what_lies_below_it(keeps_front: bool) -> None:
    """The front of the log is gone at the end; a poll states the start that would explain it."""
    history = healthy(3, sends=600)
    history = [gone_below(one, 40) if one.f == "final_poll" else one for one in history]
    whole = msgspec.structs.replace(WHOLE, keeps_front=keeps_front)
    table = table_of(history)
    found, slices, _ = in_slices(table, 25, 200, whole)
    expected = of_the_whole(table, whole)
    assert len(slices) >= 3
    assert ("lost_write" in expected.anomalies) is keeps_front
    assert found is None if keeps_front else found is not None and same(found, expected)


def gone_below(read: Forged, start: int) -> Forged:
    run = tuple(one for one in read.run if one[0] >= start)
    return replace(read, run=run, log_start=start)


@pytest.mark.parametrize("histories", [800, pytest.param(100_000, marks=FULL)])
def test_small_random_logs_are_told_alike_by_slices_or_left_to_the_whole(histories: int) -> None:
    said = Counter[str]()
    for seed in range(histories):
        rng = random.Random(seed)
        table = table_of(random_history(rng))
        found, slices, _ = in_slices(table, rng.randrange(1, 4), 1)
        expected = of_the_whole(table)
        if found is not None:
            assert same(found, expected), f"seed {seed}: {found} instead of {expected}"
        said[
            "not cut" if not slices else "unsound" if expected.anomalies else "left" if found is None else "settled"
        ] += 1
    assert min(said[name] for name in ("unsound", "settled")) > histories / 20, said


def disturbed(history: list[Forged], rng: random.Random) -> list[Forged]:
    """The same with one to three operations changed, lost or moved in time at random: legal or not, nobody knows."""
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(history))
        one = replace(history[place], process=10_000 + place)
        run, other = list(one.run), rng.choice(history)
        late = one.invoked + rng.randrange(1, 40_000_000)
        changes = [
            None,
            replace(one, completed=None if one.completed is None else late),
            replace(one, invoked=rng.randrange(0, late), completed=late),
            replace(one, invoked=other.invoked, completed=other.completed or late),
            replace(one, session=other.session),
        ]
        if one.f in ("send", "marker"):
            changes += [
                replace(one, offset=other.offset),
                replace(one, type="info", offset=None, completed=None),
                replace(one, value=other.value if other.value is not None else one.value),
            ]
        if run:
            at = rng.randrange(len(run))
            changes += [
                replace(one, run=tuple(run[:at] + run[at + 1 :])),
                replace(one, run=tuple(run[at:])),
                replace(one, run=(*run, run[at])),
                replace(one, run=tuple(sorted({*run, *other.run}))),
                replace(one, run=tuple(other.run)),
            ]
        changed = rng.choice(changes)
        history = history[:place] + ([] if changed is None else [changed]) + history[place + 1 :]
    return history


def with_clocks(table: pa.Table, clocks: list[int], errors: list[int]) -> pa.Table:
    """The same with its times by these clocks, which may be off by so much."""
    for name, values in (("clock_id", clocks), ("clock_error", errors)):
        place, field = table.schema.get_field_index(name), table.schema.field(name)
        table = table.set_column(place, field, pa.array(values, field.type))
    return table


def by_two_clocks(table: pa.Table, rng: random.Random) -> pa.Table:
    """The same with times that are off by up to some milliseconds."""
    clocks = [client % 2 for client in table["client"].to_pylist()]
    return with_clocks(table, clocks, [rng.choice((0, 200_000, 3_000_000)) if clock else 0 for clock in clocks])


@pytest.mark.parametrize("histories", [150, pytest.param(20_000, marks=FULL)])
def test_of_disturbed_logs_slices_say_what_the_rules_say_of_the_whole(histories: int) -> None:
    said = Counter[str]()
    for seed in range(histories):
        rng = random.Random(seed)
        table = table_of(disturbed(healthy(seed % 50, sends=60), rng))
        if rng.random() < 0.3:
            table = by_two_clocks(table, rng)
        found, slices, _ = in_slices(table, rng.randrange(3, 10), rng.randrange(10, 40))
        expected = of_the_whole(table)
        if found is not None:
            assert same(found, expected), f"seed {seed}: {found} instead of {expected}"
        said[
            "not cut" if not slices else "unsound" if expected.anomalies else "left" if found is None else "settled"
        ] += 1
    assert min(said[name] for name in ("unsound", "settled")) > histories / 10, said


def append(value: int, offset: int, at: int, **more: Any) -> Forged:
    return Forged("send", 1, 1, at, at + 1, value=1 << 40 | value, offset=offset, **more)


def poll(at: int, *offsets: int, session: int = 0, client: int = 50) -> Forged:
    run = tuple((offset, 1 << 40 | offset + 1) for offset in offsets)
    return Forged("poll", 1_000 + 10_000 * session + at, client, at, at + 1, run=run, session=session)


def log_of(count: int) -> list[Forged]:
    """Appended one after the other, each read at once; no final read."""
    return [
        one
        for offset in range(count)
        for one in (append(offset + 1, offset, 10 * offset), poll(10 * offset + 5, offset))
    ]


def told_of(history: list[Forged], group_rows: int = 4, each: int = 8) -> str | None:
    """Why slices leave a log to the whole."""
    result, slices, _ = in_slices(table_of(history), group_rows, each)
    assert len(slices) > 1
    reason = disagreement(slices)
    assert (result is None) == (reason is not None)
    return reason


def told_at_edges(history: list[Forged]) -> str | None:
    """The same of slices that begin at the offsets 4, 8, 12 and 16, each of which sees all rows."""
    return told_at_edges_of(table_of(history))


def told_at_edges_of(table: pa.Table) -> str | None:
    group = group_of(0, 0, table)
    closing = closing_of([group], None)
    slices = []
    for number, (low, high) in enumerate(pairwise([LOWEST, 4, 8, 12, 16, HIGHEST])):
        task = SliceTask(
            whole=WHOLE,
            low=low,
            high=high,
            row_groups=(0,),
            rows=(group.rows,),
            first_rows=(0,),
            belonging=() if number else (0,),
            closing=closing,
            several_clocks=group.clock_id.low < group.clock_id.high,
        )
        slices.append(check_slice_of(task, table)[0])
    reason = disagreement(slices)
    found = settled(measured_in(WHOLE, table), closing, group.clock_id.low < group.clock_id.high, slices)
    assert found is None if reason else found is not None and same(found, of_the_whole(table))
    return reason


def test_a_log_without_a_final_read_is_settled_if_its_reads_are_without_gaps() -> None:
    assert told_of(log_of(20)) is None


def test_a_session_that_skips_the_last_records_of_a_slice_needs_the_whole() -> None:
    read_twice = [replace(one, client=51, process=51) for one in log_of(20) if one.f == "poll"]
    passing = [one for one in log_of(20) if one.f == "send" or one.run[0][0] not in (7, 8)]
    assert told_of([*passing, *read_twice]) == "a session skips records that were read"


@pytest.mark.parametrize(
    ("unread", "said"),
    [
        ({7}, "records that were not read lie between others"),
        ({16}, "a session skips records that were not read"),
        ({19}, None),
    ],
)
def test_records_that_nobody_read_may_only_lie_at_the_end(unread: set[int], said: str | None) -> None:
    """A slice cannot tell whether somebody passed over its first and its last ones."""
    assert told_at_edges([one for one in log_of(20) if one.f == "send" or one.run[0][0] not in unread]) == said


def test_a_session_that_goes_back_to_a_lower_slice_is_a_matter_for_the_whole() -> None:
    history = log_of(20)
    assert told_of([*history, poll(1_000, 2)]) is not None
    assert told_of([*history, poll(1_000, 2, session=1)]) is None
    assert told_of([*history, poll(1_000, 2, 3, 15, session=1)]) is not None


def test_a_session_that_leaves_a_slice_out_and_returns_needs_the_whole() -> None:
    back = [poll(1_000 + 2 * place, *range(low, low + 4), client=51) for place, low in enumerate((0, 8, 4))]
    assert told_at_edges([*log_of(20), *back]) == "a session goes to and fro between slices"


def test_a_poll_that_delivers_backwards_across_slices_is_a_matter_for_the_whole() -> None:
    assert told_of([*log_of(20), poll(1_000, 17, 1, session=1)]) == "a poll delivers backwards"


def test_a_value_that_was_sent_in_two_slices_is_a_matter_for_the_whole() -> None:
    again = {offset: (2 << 40 | offset if offset > 12 else 1 << 40 | 3) for offset in range(12, 20)}
    history = [
        replace(one, value=again.get(one.offset, one.value))
        if one.offset is not None
        else replace(one, run=tuple((offset, again.get(offset, value)) for offset, value in one.run))
        for one in log_of(20)
    ]
    assert told_of(history) == "a process's values do not ascend from slice to slice"


def test_a_value_that_was_read_in_two_slices_is_a_matter_for_the_whole() -> None:
    """Its send, of unknown outcome, is known to both: it stands in a row group that has to do with all offsets."""
    landed = Forged("send", 9, 9, 0, None, "info", value=9 << 40 | 1)
    rest = [one for one in log_of(20) if not {5, 15} & {one.offset, *(offset for offset, _ in one.run)}]
    run = tuple((offset, landed.value if offset in (5, 15) else 1 << 40 | offset + 1) for offset in range(20))
    all_of_it = Forged("poll", 60, 60, 1, 10_000, run=run, session=0)
    apart = [replace(one, session=place) for place, one in enumerate(rest)]
    assert told_of([landed, all_of_it, *apart]) == "a value was read at two offsets"


LATE = "something of a lower slice began after something of an upper one had ended"


def read_late(third: int = 1 << 40 | 4) -> list[Forged]:
    """Twenty records, of which that at offset 3 may be another, by a session that began when all else had ended."""
    reads = [poll(10_000 + 2 * offset, offset) for offset in range(20)]
    return [*reads[:3], replace(reads[3], run=((3, third),)), *reads[4:]]


@pytest.mark.parametrize("kind", ["ok", "info"])
def test_an_append_after_a_higher_one_had_ended_needs_the_whole_log(kind: str) -> None:
    sends = [one for one in log_of(20) if one.f == "send"]
    assert told_at_edges([*sends, *read_late()]) is None
    late = replace(sends[3], process=7, client=7, invoked=900, completed=901, value=7 << 40 | 1)
    if kind == "info":
        late = replace(late, type="info", completed=None, offset=None)
    history = [*sends[:3], late, *sends[4:], *read_late(7 << 40 | 1)]
    assert "rt_order" in of_the_whole(table_of(history)).anomalies
    assert told_at_edges(history) == LATE


def test_an_append_after_a_higher_one_was_read_needs_the_whole_log() -> None:
    """Of the appends themselves none had ended."""
    sends = [replace(one, process=place + 1, completed=5_000) for place, one in enumerate(log_of(20)[::2])]
    sends[3] = replace(sends[3], invoked=900, value=7 << 40 | 1)
    reads = read_late(7 << 40 | 1)
    assert told_at_edges([*sends, *reads]) is None
    assert told_at_edges([*sends, *reads, poll(800, 19, session=9)]) == LATE


def by_another_clock(table: pa.Table, rows: set[int]) -> pa.Table:
    """The same with the times of some rows by a clock that may be off by a microsecond."""
    clocks = [int(row in rows) for row in range(table.num_rows)]
    return with_clocks(table, clocks, [1_000 * clock for clock in clocks])


def test_between_slices_times_may_be_off_by_as_much_as_their_clocks() -> None:
    sends = [one for one in log_of(20) if one.f == "send"]
    late = replace(sends[3], process=7, client=7, invoked=900, completed=901, value=7 << 40 | 1)
    table = table_of([*sends[:3], late, *sends[4:], *read_late(7 << 40 | 1)])
    assert told_at_edges_of(table) == LATE
    of_late = table["client"].to_pylist().index(7)
    assert told_at_edges_of(by_another_clock(table, {of_late})) is None


def test_a_slice_that_sees_one_clock_knows_that_there_are_others() -> None:
    """Its own times may be off, as they may in the eyes of the whole."""
    history = log_of(20)
    late = replace(history[2], process=7, client=7, invoked=25, completed=26, value=7 << 40 | 1)
    read = replace(history[3], run=((1, 7 << 40 | 1),))
    table = table_of([*history[:2], late, read, *history[4:]])
    assert "rt_order" in of_the_whole(table).anomalies
    found, slices, _ = in_slices(by_another_clock(table, set(range(8))), 4, 8)
    assert disagreement(slices) is None and found is not None


def test_a_stated_log_end_below_another_slices_records_is_a_matter_for_the_whole() -> None:
    def stated(end: int) -> Forged:
        return Forged("list_offsets", 60, 60, 1_000, 1_001, high_watermark=end)

    assert told_of([*log_of(20), stated(20)]) is None
    assert told_of([*log_of(20), stated(1)]) is not None


def test_sequence_numbers_that_do_not_ascend_are_a_matter_for_the_whole() -> None:
    def numbered(order: Callable[[int], int]) -> list[Forged]:
        return [one if one.offset is None else replace(one, sequence=order(one.offset)) for one in log_of(20)]

    assert told_of(numbered(lambda place: place)) is None
    fours = numbered(lambda place: place ^ 4)
    assert "nonmonotonic_send" in of_the_whole(table_of(fours)).anomalies
    assert told_of(fours) == "a client's sequence numbers do not ascend from slice to slice"


def test_acknowledgements_that_do_not_say_where_are_a_matter_for_the_whole() -> None:
    nowhere = Forged("send", 9, 9, 0, 1, value=9 << 40 | 1)
    assert told_of([*log_of(20), nowhere]) == "appends were acknowledged without an offset"


def test_what_no_slice_took_in_is_missed() -> None:
    """A footer that does not say the truth cannot hide anything."""
    table = table_of([*log_of(20), poll(1_000, 2, session=1)])
    parts = [table.slice(begin, 4) for begin in range(0, table.num_rows, 4)]
    groups = [group_of(number, number * 4, part) for number, part in enumerate(parts)]
    groups[-1] = replace(groups[-1], delivered=None)
    closing = closing_of(groups, None)
    slices = [
        check_slice_of(task, pa.concat_tables([parts[number] for number in task.row_groups]))[0]
        for task, _ in cut(WHOLE, groups, closing, 8)
        if isinstance(task, SliceTask)
    ]
    assert disagreement(slices) == "slices did not take in all that there is"


def test_a_final_read_that_slices_were_not_given_needs_the_whole_log() -> None:
    table = table_of(healthy(1, sends=100))
    measured = measured_in(WHOLE, table)
    parts = [table.slice(begin, 20) for begin in range(0, table.num_rows, 20)]
    groups = [group_of(number, number * 20, part) for number, part in enumerate(parts)]
    closing = closing_of(groups, pa.concat_tables([parts[one.number] for one in groups if one.holds_marker]))
    _, slices, _ = in_slices(table, 20, 60)
    assert settled(measured, closing, False, slices) is not None
    assert settled(measured, closing, True, slices) is None
    for name in ("start", "end", "marker_offset", "marker_invoked"):
        assert settled(measured, replace(closing, **{name: getattr(closing, name) - 1}), False, slices) is None


def test_a_poll_far_from_the_send_below_its_high_watermark_leaves_the_log_to_the_whole() -> None:
    """R3: the poll delivers what lies in the first slice, and the send that contradicts it lies in the last."""
    history = healthy(1, sends=600)
    sends = [one for one in history if one.f == "send" and one.type == "ok" and one.offset is not None]
    last = max(sends, key=lambda one: one.invoked)
    first = min((one for one in history if one.f == "poll" and one.run), key=lambda one: one.invoked)
    told = replace(first, high_watermark=(last.offset or 0) + 1)
    assert told.completed is not None and told.completed < last.invoked
    table = table_of([told if one is first else one for one in history])
    found, slices, _ = in_slices(table, group_rows=25, each=200)
    assert len(slices) >= 3
    assert of_the_whole(table).anomalies["hw_ahead"] >= 1
    assert found is None
