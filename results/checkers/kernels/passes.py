"""Find suspects with loops over rows: one linear pass each, compiled.

They fill arrays by slot (`observed.py`), and return which rows, slots, sessions or clients the rules of `log.py` must
examine; in a healthy history that is none. Rare cases are decided there, with numpy. A pass may name a suspect that
proves innocent, but never misses a violation.

Importing this module imports numba and loads or makes the machine code, which takes a second or many: it is imported
through `loops.py`, at the first judgement. All loops that are compiled together are in this one file, because numba
recompiles when this file changes, and only then; what it imports are types and codes of stored histories, which never
change.

Terms. Operations are rows. `key - base` is a slot: keys are offsets if slots are dense, and slots if they are not. The
records of a row are those from `starts[row]` to `starts[row + 1]`. `doubt` is how far off times may be, and empty if
they are exact. -1 stands for no row, and no slot.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from squall.results.checkers.kernels.compiling import (
    CODES,
    COUNTS_OUT,
    FLAGS,
    FLAGS_OUT,
    INT,
    INTS,
    INTS_OUT,
    ROWS,
    ROWS_OUT,
    YES_OR_NO,
    compiled,
    part,
    several,
)
from squall.results.checkers.kernels.operations import (
    ACKS_ALL,
    FINAL_POLL,
    MARKER,
    NEVER,
    NONE,
    OK,
    POLL,
    SEND,
)

PROCESS_BITS = 40
"""Values are numbered by process: `process << 40 | counter`."""
CODE_LIMIT = 256
"""The number of values of a one-byte code."""
MIXER = -7046029254386353131
"""2^64 divided by the golden ratio: multiplication by it spreads keys that lie close together."""
SMALLEST_TABLE = 256
CLASSES_PER_E = 1 / math.log(1.01)
"""Classes of latency are one per cent wide: this gives a first guess of the class, and the edges decide."""

# Parts ----------------------------------------------------------------------------------------------------------------


@part
def _is_append(f: Any) -> Any:
    return f in (SEND, MARKER)


@part
def _is_placed(f: Any, kind: Any, acks: Any, offset: Any) -> Any:
    """Whether an append was acknowledged under acks=all, with its offset."""
    return f in (SEND, MARKER) and kind == OK and acks == ACKS_ALL and offset != NONE


@part
def _late(moment: Any, row: Any, doubt: Any) -> Any:
    """The latest possible value of a time."""
    return moment if moment == NEVER or len(doubt) == 0 else moment + doubt[row]


@part
def _early(moment: Any, row: Any, doubt: Any) -> Any:
    return moment if len(doubt) == 0 else moment - doubt[row]


@part
def _spread(key: Any) -> Any:
    """A number whose low bits depend on all bits of a key."""
    mixed = (key ^ (key >> 29)) * MIXER
    return mixed ^ (mixed >> 32)


@part
def _place(table: Any, known: Any, key: Any) -> Any:
    """Where a key is in a hash table of places in `known`, or where it belongs."""
    mask = len(table) - 1
    place = _spread(key) & mask
    while table[place] >= 0 and known[table[place]] != key:
        place = (place + 1) & mask
    return place


@part
def _table(known: Any, count: Any) -> Any:
    """A hash table of the first `count` known keys, less than half full even when `known` is full."""
    size = SMALLEST_TABLE
    while size < 2 * len(known) + 2:
        size *= 2
    table = np.full(size, -1, np.int32)
    for number in range(count):
        table[_place(table, known, known[number])] = number
    return table


@part
def _longer(array: Any) -> Any:
    longer = np.empty(2 * len(array), np.int64)
    longer[: len(array)] = array
    return longer


# The observed log -----------------------------------------------------------------------------------------------------


@compiled(several(INT, INT, INT), CODES, CODES, CODES, INTS)
def acknowledged_extent(f: Any, kind: Any, acks: Any, offset: Any) -> Any:
    """The number of appends acknowledged under acks=all with an offset, and their lowest and highest offset."""
    count, low, high = 0, NEVER, NONE
    for row in range(len(f)):
        if _is_placed(f[row], kind[row], acks[row], offset[row]):
            count += 1
            low = min(low, offset[row])
            high = max(high, offset[row])
    return count, low, high


@compiled(several(INT, INT, INT), CODES, ROWS, INTS, INT, INTS, INTS, INTS_OUT, ROWS_OUT, FLAGS_OUT, INTS_OUT)
def read_log(
    f: Any,
    starts: Any,
    key: Any,
    base: Any,
    record_value: Any,
    completed: Any,
    value: Any,
    first_poll: Any,
    conflicting: Any,
    final_value: Any,
) -> Any:
    """Fill by slot: the value read first, the poll that ended first of those that read it, conflicts, the final read.

    Returns how many slots are in conflict, how many records the final read has, and its last slot.
    """
    conflicts, final_records, last = 0, 0, -1
    for row in range(len(f)):
        for record in range(starts[row], starts[row + 1]):
            slot = key[record] - base
            if first_poll[slot] < 0:
                value[slot] = record_value[record]
                first_poll[slot] = row
            else:
                if value[slot] != record_value[record] and not conflicting[slot]:
                    conflicting[slot] = True
                    conflicts += 1
                if completed[row] < completed[first_poll[slot]]:
                    first_poll[slot] = row
            if f[row] == FINAL_POLL:
                final_value[slot] = record_value[record]
                final_records += 1
                last = max(last, slot)
    return conflicts, final_records, last


@compiled(INT, CODES, CODES, CODES, INTS, INTS, INT, ROWS_OUT)
def first_acknowledged(f: Any, kind: Any, acks: Any, offset: Any, key: Any, base: Any, first: Any) -> Any:
    """Fill by slot: the first append acknowledged there. Returns how many were acknowledged where another had been."""
    again = 0
    for row in range(len(f)):
        if not _is_placed(f[row], kind[row], acks[row], offset[row]):
            continue
        slot = key[row] - base
        if first[slot] < 0:
            first[slot] = row
        else:
            again += 1
    return again


@compiled(INTS_OUT, INTS, ROWS, FLAGS, ROWS, INTS, YES_OR_NO)
def unexplained(value: Any, first_poll: Any, conflicting: Any, acknowledged: Any, sent: Any, unique: Any) -> Any:
    """Slots on whose value all readers agree and that is not the one acknowledged there.

    Unless sent values are `unique`, these are all slots on whose value all readers agree.
    """
    count = 0
    for filling in range(2):
        slots = np.empty(count, np.int64)
        count = 0
        for slot in range(len(value)):
            if first_poll[slot] < 0 or conflicting[slot]:
                continue
            if unique and acknowledged[slot] >= 0 and sent[acknowledged[slot]] == value[slot]:
                continue
            if filling:
                slots[count] = slot
            count += 1
    return slots


@compiled(INTS_OUT, INTS, INTS, CODES)
def first_places(wanted: Any, among: Any, f: Any) -> Any:
    """Where each wanted number occurs first, -1 if nowhere. With `f`, only appends count."""
    if len(wanted) == 0:
        return np.empty(0, np.int64)
    table = _table(wanted, 0)
    same = np.empty(len(wanted), np.int64)
    for number in range(len(wanted)):
        place = _place(table, wanted, wanted[number])
        if table[place] < 0:
            table[place] = number
        same[number] = table[place]
    found = np.full(len(wanted), -1, np.int64)
    for row in range(len(among)):
        if len(f) and not _is_append(f[row]):
            continue
        number = table[_place(table, wanted, among[row])]
        if number >= 0 and found[number] < 0:
            found[number] = row
    return found[same]


@compiled(YES_OR_NO, CODES, INTS)
def counts_up(f: Any, value: Any) -> Any:
    """Whether each process's values increase from append to append, so that none is sent twice."""
    known, last = np.empty(SMALLEST_TABLE, np.int64), np.empty(SMALLEST_TABLE, np.int64)
    table, count = _table(known, 0), 0
    for row in range(len(f)):
        if not _is_append(f[row]):
            continue
        process = value[row] >> PROCESS_BITS
        place = _place(table, known, process)
        if table[place] >= 0:
            if value[row] <= last[table[place]]:
                return False
            last[table[place]] = value[row]
            continue
        if count == len(known):
            known, last = _longer(known), _longer(last)
            table = _table(known, count)
            place = _place(table, known, process)
        known[count], last[count], table[place] = process, value[row], count
        count += 1
    return True


# Sessions -------------------------------------------------------------------------------------------------------------


@compiled(several(ROWS_OUT, INTS_OUT), CODES, ROWS, ROWS, ROWS)
def numbered_sessions(f: Any, starts: Any, client: Any, session: Any) -> Any:
    """By row: the number of its session, -1 if it neither polls nor delivers; and the key of each session."""
    numbers, known = np.full(len(f), -1, np.int32), np.empty(SMALLEST_TABLE, np.int64)
    table, count = _table(known, 0), 0
    for row in range(len(f)):
        if f[row] != POLL and starts[row] == starts[row + 1]:
            continue
        key = np.int64(client[row]) << 32 | np.int64(session[row])
        place = _place(table, known, key)
        if table[place] < 0:
            if count == len(known):
                known = _longer(known)
                table = _table(known, count)
                place = _place(table, known, key)
            known[count], table[place] = key, count
            count += 1
        numbers[row] = table[place]
    return numbers, known[:count].copy()


@part
def _read_before(first_poll: Any) -> Any:
    """By slot: the last read slot before it."""
    before, last = np.empty(len(first_poll), np.int32), -1
    for slot in range(len(first_poll)):
        before[slot] = last
        if first_poll[slot] >= 0:
            last = slot
    return before


@compiled(FLAGS_OUT, ROWS, INTS, INT, INTS, INTS, INTS, ROWS, INT, ROWS)
def irregular_sessions(
    starts: Any,
    key: Any,
    base: Any,
    invoked: Any,
    completed: Any,
    order: Any,
    numbers: Any,
    sessions: Any,
    first_poll: Any,
) -> Any:
    """By session: whether it went back, or passed over a read slot, within a poll or between two."""
    irregular = np.zeros(sessions, np.bool_)
    ended, last = np.full(sessions, NEVER, np.int64), np.full(sessions, -1, np.int64)
    before = np.empty(0, np.int32)
    for turn in range(len(numbers)):
        row = order[turn] if len(order) else turn
        if starts[row] == starts[row + 1]:
            continue
        session = numbers[row]
        previous = last[session] if ended[session] <= invoked[row] else -1
        for record in range(starts[row], starts[row + 1]):
            slot = key[record] - base
            if previous >= 0 and slot != previous + 1:
                if slot <= previous:
                    irregular[session] = True
                else:
                    if len(before) == 0:
                        before = _read_before(first_poll)
                    if before[slot] > previous:
                        irregular[session] = True
            previous = slot
        last[session], ended[session] = previous, completed[row]
    return irregular


@compiled(FLAGS_OUT, ROWS, INTS, INT, INTS, INTS, INTS, ROWS, INT, INT)
def passed_over(
    starts: Any,
    key: Any,
    base: Any,
    invoked: Any,
    completed: Any,
    order: Any,
    numbers: Any,
    sessions: Any,
    slots: Any,
) -> Any:
    """By slot: whether it lies between two records that some poll, or a session, delivered one after the other."""
    edges = np.zeros(slots + 1, np.int32)
    ended, last = np.full(sessions, NEVER, np.int64), np.full(sessions, -1, np.int64)
    for turn in range(len(numbers)):
        row = order[turn] if len(order) else turn
        if starts[row] == starts[row + 1]:
            continue
        session = numbers[row]
        previous = last[session] if ended[session] <= invoked[row] else -1
        for record in range(starts[row], starts[row + 1]):
            slot = key[record] - base
            if previous >= 0 and slot > previous + 1:
                edges[previous + 1] += 1
                edges[slot] -= 1
            previous = slot
        last[session], ended[session] = previous, completed[row]
    passed, depth = np.empty(slots, np.bool_), 0
    for slot in range(slots):
        depth += edges[slot]
        passed[slot] = depth > 0
    return passed


@compiled(INTS_OUT, CODES, CODES, CODES, INTS, INTS, ROWS, INTS, INT, INTS, INTS, INTS, ROWS, INT, ROWS, INT)
def lags(
    f: Any,
    kind: Any,
    acks: Any,
    offset: Any,
    offset_key: Any,
    starts: Any,
    key: Any,
    base: Any,
    invoked: Any,
    completed: Any,
    order: Any,
    numbers: Any,
    sessions: Any,
    first_poll: Any,
    lowest: Any,
) -> Any:
    """For polls of sessions with an earlier delivery at the slot `lowest` or beyond: the lag of the next record.

    That is how long the next record had been known, by a read or an acknowledgement, when the poll was invoked.
    """
    known = np.full(len(first_poll) + 1, NEVER, np.int64)
    for slot in range(len(first_poll)):
        if first_poll[slot] >= 0:
            known[slot] = completed[first_poll[slot]]
    for row in range(len(f)):
        if _is_placed(f[row], kind[row], acks[row], offset[row]):
            slot = offset_key[row] - base
            known[slot] = min(known[slot], completed[row])
    for slot in range(len(first_poll) - 1, -1, -1):
        if known[slot] == NEVER:
            known[slot] = known[slot + 1]
    cursor = np.full(sessions, -1, np.int64)
    found, count = np.empty(len(f), np.int64), 0
    for turn in range(len(f)):
        row = order[turn] if len(order) else turn
        if f[row] != POLL or kind[row] != OK:
            continue
        session = numbers[row]
        if cursor[session] >= 0:
            since = known[cursor[session] + 1]
            found[count] = 0 if since == NEVER else max(0, invoked[row] - since)
            count += 1
        for record in range(starts[row], starts[row + 1]):
            slot = key[record] - base
            if slot >= lowest:
                cursor[session] = max(cursor[session], slot)
    return found[:count].copy()


# Losses and the order of sends ----------------------------------------------------------------------------------------


@compiled(INTS_OUT, CODES, CODES, CODES, INTS, INTS, INT, INTS, INTS, INTS, ROWS, INTS, INT, INT, INT, INT, YES_OR_NO)
def unaccounted(
    f: Any,
    kind: Any,
    acks: Any,
    offset: Any,
    key: Any,
    base: Any,
    sent: Any,
    completed: Any,
    value: Any,
    first_poll: Any,
    final_value: Any,
    start: Any,
    end: Any,
    log_start: Any,
    marker_invoked: Any,
    complete: Any,
) -> Any:
    """Acknowledged appends that the final read, from `start` to `end`, should have but does not.

    Those outside its range are included if they were not read at their offset, or if a complete final read should have
    reached them.
    """
    found, count = np.empty(16, np.int64), 0
    for row in range(len(f)):
        if not _is_placed(f[row], kind[row], acks[row], offset[row]) or offset[row] < log_start:
            continue
        slot = key[row] - base
        if start <= offset[row] <= end:
            if final_value[slot] == sent[row]:
                continue
        else:
            read_here = first_poll[slot] >= 0 and value[slot] == sent[row]
            if read_here and not (complete and offset[row] > end and completed[row] < marker_invoked):
                continue
        if count == len(found):
            found = _longer(found)
        found[count] = row
        count += 1
    return found[:count].copy()


@compiled(INTS_OUT, ROWS, INTS, INTS, INT, INT, INT, INT, INT)
def retracted_slots(
    first_poll: Any,
    completed: Any,
    final_value: Any,
    lowest: Any,
    covered_from: Any,
    covered_to: Any,
    beyond: Any,
    marker_invoked: Any,
) -> Any:
    """Slots from `lowest` on that were read and where the final read has nothing.

    The final read covers them, or they lie `beyond` it and were read before the marker was sent.
    """
    found, count = np.empty(16, np.int64), 0
    for slot in range(lowest, len(first_poll)):
        if first_poll[slot] < 0 or final_value[slot] != NONE:
            continue
        early = slot >= beyond and completed[first_poll[slot]] < marker_invoked
        if not early and not covered_from <= slot < covered_to:
            continue
        if count == len(found):
            found = _longer(found)
        found[count] = slot
        count += 1
    return found[:count].copy()


@compiled(INTS_OUT, CODES, CODES, CODES, FLAGS, ROWS, INTS, INTS, FLAGS)
def disorderly_clients(
    f: Any, kind: Any, acks: Any, idempotent: Any, client: Any, sequence: Any, offset: Any, lost: Any
) -> Any:
    """Clients whose idempotent sends are not in the order of their sequence, or whose offsets do not increase."""
    known, count = np.empty(SMALLEST_TABLE, np.int64), 0
    last, highest = np.empty(SMALLEST_TABLE, np.int64), np.empty(SMALLEST_TABLE, np.int64)
    table = _table(known, 0)
    found, wrong = np.empty(SMALLEST_TABLE, np.int64), 0
    for row in range(len(f)):
        if sequence[row] == NONE or not idempotent[row] or lost[row]:
            continue
        if not _is_placed(f[row], kind[row], acks[row], offset[row]):
            continue
        name = np.int64(client[row])
        place = _place(table, known, name)
        if table[place] < 0:
            if count == len(known):
                known, last, highest = _longer(known), _longer(last), _longer(highest)
                table = _table(known, count)
                place = _place(table, known, name)
            known[count], table[place] = name, count
            count += 1
        elif sequence[row] < last[table[place]] or offset[row] <= highest[table[place]]:
            if wrong == len(found):
                found = _longer(found)
            found[wrong] = name
            wrong += 1
        last[table[place]], highest[table[place]] = sequence[row], offset[row]
    return found[:wrong].copy()


# Real time ------------------------------------------------------------------------------------------------------------

RT_ORDER, FUTURE_READ, STALE_READ, HW_REGRESS = 0, 1, 2, 3
"""The rows of the result of `real_time_suspects`; its columns are:"""
TOTAL, LOWEST, LATEST = 0, 1, 2


@part
def _suspected(suspects: Any, rule: Any, high: Any, began: Any) -> Any:
    suspects[rule, TOTAL] += 1
    suspects[rule, LOWEST] = min(suspects[rule, LOWEST], high)
    suspects[rule, LATEST] = max(suspects[rule, LATEST], began)


@part
def _sends_ended(
    f: Any, kind: Any, acks: Any, offset: Any, key: Any, base: Any, completed: Any, doubt: Any, lost: Any, slots: Any
) -> Any:
    """By slot: when the first append that lies there ended."""
    ended = np.full(slots + 1, NEVER, np.int64)
    for row in range(len(f)):
        if _is_placed(f[row], kind[row], acks[row], offset[row]) and not lost[row]:
            slot = key[row] - base
            ended[slot] = min(ended[slot], _late(completed[row], row, doubt))
    return ended


@part
def _reads_ended(starts: Any, key: Any, base: Any, completed: Any, doubt: Any, states: Any, slots: Any) -> Any:
    """By slot: when the first read that went so far ended."""
    ended = np.full(slots + 1, NEVER, np.int64)
    for row in range(len(completed)):
        if starts[row] == starts[row + 1] or completed[row] == NEVER or (len(states) and states[row]):
            continue
        slot = 0
        for record in range(starts[row], starts[row + 1]):
            slot = max(slot, key[record] - base)
        ended[slot] = min(ended[slot], _late(completed[row], row, doubt))
    return ended


@part
def _earliest_from(ended: Any) -> None:
    """Replace each time by the earliest from that slot on."""
    for slot in range(len(ended) - 2, -1, -1):
        ended[slot] = min(ended[slot], ended[slot + 1])


@compiled(
    COUNTS_OUT, CODES, CODES, CODES, INTS, INTS, INT, ROWS, INTS, INTS, INTS, INTS, FLAGS, INT, INTS, INTS, INTS,
    INTS, INTS, INTS, FLAGS,
)  # fmt: skip
def real_time_suspects(
    f: Any,
    kind: Any,
    acks: Any,
    offset: Any,
    offset_key: Any,
    base: Any,
    starts: Any,
    key: Any,
    invoked: Any,
    completed: Any,
    doubt: Any,
    lost: Any,
    slots: Any,
    shown: Any,
    shown_slot: Any,
    shown_ended: Any,
    stating: Any,
    stated_slot: Any,
    log_end: Any,
    states: Any,
) -> Any:
    """Count by rule the operations that show less of the log than one that had ended before they began.

    Also returns by rule the lowest slot or log end that one of them shows, and when the last of them began. `shown` are
    appends that a read shows at `shown_slot`. `stating` are reads that state a `log_end`, the first slot at or beyond
    which is `stated_slot`; `states` marks those of them that show nothing else, and is empty if there are none.
    """
    suspects = np.zeros((4, 3), np.int64)
    suspects[:, LOWEST], suspects[:, LATEST] = NEVER, NONE
    sent = _sends_ended(f, kind, acks, offset, offset_key, base, completed, doubt, lost, slots)
    for number in range(len(shown)):
        slot = shown_slot[number]
        sent[slot] = min(sent[slot], _late(shown_ended[number], shown[number], doubt))
    read = _reads_ended(starts, key, base, completed, doubt, states, slots)
    for number in range(len(stating)):
        row, slot = stating[number], stated_slot[number] - 1
        if slot >= 0 and states[row]:
            read[slot] = min(read[slot], _late(completed[row], row, doubt))
    _earliest_from(sent)
    _earliest_from(read)
    for row in range(len(f)):
        if _is_placed(f[row], kind[row], acks[row], offset[row]) and not lost[row]:
            slot, began = offset_key[row] - base, _early(invoked[row], row, doubt)
            if sent[slot + 1] < began:
                _suspected(suspects, RT_ORDER, slot, began)
            if read[slot] < began:
                _suspected(suspects, FUTURE_READ, slot, began)
    for number in range(len(shown)):
        slot, began = shown_slot[number], _early(invoked[shown[number]], shown[number], doubt)
        if sent[slot + 1] < began:
            _suspected(suspects, RT_ORDER, slot, began)
        if read[slot] < began:
            _suspected(suspects, FUTURE_READ, slot, began)
    for number in range(len(stating)):
        row, slot = stating[number], stated_slot[number]
        began = _early(invoked[row], row, doubt)
        if sent[slot] < began:
            _suspected(suspects, STALE_READ, log_end[row], began)
        if read[slot] < began:
            _suspected(suspects, HW_REGRESS, log_end[row], began)
    return suspects


# Series ---------------------------------------------------------------------------------------------------------------


@compiled(INTS_OUT, CODES, CODES)
def tallied(f: Any, kind: Any) -> Any:
    """The number of operations of each `f` and type, at `f << 8 | type` as unsigned codes."""
    highest = 0
    for row in range(len(f)):
        highest = max(highest, f[row] & 0xFF)
    counts = np.zeros((highest + 1) * CODE_LIMIT, np.int64)
    for row in range(len(f)):
        counts[(f[row] & 0xFF) << 8 | (kind[row] & 0xFF)] += 1
    return counts


@compiled(several(INT, INT), INTS, INT)
def extent(times: Any, never: Any) -> Any:
    """The lowest and the highest number that is not `never`; without any, the lowest is the higher one."""
    low, high = NEVER, NONE
    for row in range(len(times)):
        if times[row] != never:
            low = min(low, times[row])
            high = max(high, times[row])
    return low, high


@compiled(COUNTS_OUT, CODES, CODES, INTS, ROWS, INT, INT, INT, INT, INT)
def counted_by_time(
    f: Any, kind: Any, times: Any, column: Any, columns: Any, start: Any, width: Any, first: Any, buckets: Any
) -> Any:
    """The number of operations that ended in each bucket from `first` on, by the column of their `f << 8 | type`."""
    counts = np.zeros((buckets, columns), np.int64)
    edge, bucket = start + first * width, 0
    for row in range(len(times)):
        if times[row] == NEVER:
            continue
        if times[row] < edge or times[row] >= edge + width:
            bucket = (times[row] - start) // width - first
            edge = start + (first + bucket) * width
        counts[bucket, column[(f[row] & 0xFF) << 8 | (kind[row] & 0xFF)]] += 1
    return counts


@compiled(several(INT, INT, INT, INT), CODES, CODES, INTS, INTS)
def acknowledged_sends_extent(f: Any, kind: Any, at: Any, completed: Any) -> Any:
    """For acknowledged sends: first and last `at`, least and greatest time from then to completion."""
    first, last, least, greatest = NEVER, NONE, NEVER, NONE
    for row in range(len(f)):
        if f[row] == SEND and kind[row] == OK:
            first, last = min(first, at[row]), max(last, at[row])
            took = completed[row] - at[row]
            least, greatest = min(least, took), max(greatest, took)
    return first, last, least, greatest


@compiled(COUNTS_OUT, CODES, CODES, INTS, INTS, INT, INT, INT, INT, INTS)
def counted_by_latency(
    f: Any, kind: Any, at: Any, completed: Any, start: Any, width: Any, first: Any, buckets: Any, edges: Any
) -> Any:
    """Count acknowledged sends by the bucket of their intended start, from `first` on, and by class of latency.

    The class is the first of `edges`, the upper ends of consecutive classes, that the latency does not exceed.
    """
    counts = np.zeros((buckets, len(edges)), np.int64)
    edge, bucket = start + first * width, 0
    for row in range(len(f)):
        if f[row] != SEND or kind[row] != OK:
            continue
        if at[row] < edge or at[row] >= edge + width:
            bucket = (at[row] - start) // width - first
            edge = start + (first + bucket) * width
        took = completed[row] - at[row]
        place = 0
        if took > edges[0]:
            guess = math.log(took / edges[0]) * CLASSES_PER_E
            place = min(int(guess), len(edges) - 1)
        while place > 0 and took <= edges[place - 1]:
            place -= 1
        while place + 1 < len(edges) and took > edges[place]:
            place += 1
        counts[bucket, place] += 1
    return counts
