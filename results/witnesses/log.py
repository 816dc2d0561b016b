"""Describe witnesses of a transactional log in words: the transactions, and why they contradict.

The transactions are T1 to Tn; a plain poll counts as a transaction that sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.common.text import Clock, clock_of, grouped, several, short_value
from squall.results.checkers.transactions.log_facts import (
    LogRecord,
    LogStep,
    LogTransactionFacts,
    LogWitness,
    PolledExtent,
)
from squall.results.witnesses.span_diagram import Arrow, Span, span_diagram
from squall.results.witnesses.witness import Surroundings, WitnessLine

MOST_SENT: Final = 2
_OUTCOMES: Final = {"ok": "committed", "fail": "aborted", "info": "outcome unknown"}
COLOURS: Final = {"ok": "#0072B2", "fail": "#D55E00", "info": "#0072B2"}
POLL_COLOUR: Final = "#009E73"


def log_title(witness: LogWitness) -> str:
    """`transactional log, topic-partition 2, offset 7: a record was read although its send had failed.`"""
    place = "" if witness.record is None else f", topic-partition {witness.record.partition}"
    if witness.record is not None and witness.record.offset is not None:
        place += f", offset {grouped(witness.record.offset)}"
    return f"transactional log{place}: {ANOMALIES[witness.anomaly].headline(1)}."


def tell_log(witness: LogWitness, origin: int) -> tuple[WitnessLine, ...]:
    """Describe a witness in words: the proof, why it is one, the operations around it. Times count from `origin`."""
    when = _clock(witness, origin)
    lines = [_line(f"{name(at)}, process {one.process}", one, when) for at, one in enumerate(witness.transactions)]
    if witness.steps:
        lines += [WitnessLine("because", _reason(step, witness, when)) for step in witness.steps]
        circle = " → ".join([*(name(step.source) for step in witness.steps), name(witness.steps[0].source)])
        lines.append(WitnessLine("so", f"{circle}: no order of these transactions explains what they were handed"))
    else:
        lines += [WitnessLine("so", text) for text in _CONTRADICTIONS[witness.anomaly](witness, when)]
    lines += [_around("before that", one, when) for one in witness.before]
    lines += [_around("after that", one, when) for one in witness.after]
    return tuple(lines)


def _clock(witness: LogWitness, origin: int) -> Clock:
    return clock_of((time for one in witness.transactions for time in (one.invoked, one.completed)), origin)


def log_diagram(witness: LogWitness, around: Surroundings) -> str:
    """Draw the transactions as bars over time, with an arrow per step of a cycle; those around the proof are pale."""
    spans = [_span(f"{name(at)}, process {one.process}", one) for at, one in enumerate(witness.transactions)]
    spans += [_span(f"process {one.process}", one, pale=True) for one in (*witness.before, *witness.after)]
    arrows = [
        Arrow(one.source, one.target, _reason(one, witness, _clock(witness, around.origin))) for one in witness.steps
    ]
    return span_diagram(spans, around, "transactions of a log over time", arrows)


def name(place: int) -> str:
    """The name of a transaction of a witness: T1, T2, …"""
    return f"T{place + 1}"


# Transactions ---------------------------------------------------------------------------------------------------------


def _span(who: str, one: LogTransactionFacts, *, pale: bool = False) -> Span:
    colour = COLOURS[one.type] if one.sends else POLL_COLOUR
    return Span(who, _what(one), one.invoked, one.completed, colour, pale)


def _line(subject: str, one: LogTransactionFacts, when: Clock) -> WitnessLine:
    begun = f"begun at {when(one.invoked)}"
    return WitnessLine(subject, f"{_what(one)}; {begun}", when(one.completed))


def _around(subject: str, one: LogTransactionFacts, when: Clock) -> WitnessLine:
    line = _line(subject, one, when)
    return WitnessLine(subject, f"process {one.process}: {line.text}", line.time)


def _what(one: LogTransactionFacts) -> str:
    """What a transaction sent and polled, as far as it concerns the witness, and its outcome."""
    parts = [f"sent {_record(each)}" for each in one.sent[:MOST_SENT]]
    left = one.sends - len(parts)
    if left:
        parts.append(f"{several(left, 'more record')} sent" if parts else f"sent {several(left, 'record')}")
    parts += [_extent(each, one) for each in one.extents]
    what = ", ".join(parts) or "delivered nothing there"
    if one.sends:
        return f"{what}; {_OUTCOMES[one.type]}"
    kind = "final read" if one.final else "poll"
    promise = "committed records" if one.committed_only else "uncommitted records, too"
    return f"{kind} of {promise}: {what}"


def _extent(extent: PolledExtent, one: LogTransactionFacts) -> str:
    handed = [each for each in one.polled if each.partition == extent.partition][:MOST_SENT]
    with_them = f", with {', '.join(_placed(each) for each in handed)}" if handed else ""
    some = f"offsets {grouped(extent.first)} to {grouped(extent.last)}"
    which = some if extent.first < extent.last else f"offset {grouped(extent.first)}"
    return f"delivered {which} of topic-partition {extent.partition} ({several(extent.count, 'record')}{with_them})"


def _placed(record: LogRecord) -> str:
    where = "" if record.offset is None else f" at offset {grouped(record.offset)}"
    return f"value {short_value(record.value)}{where}"


def _record(record: LogRecord) -> str:
    offset = ", offset unknown" if record.offset is None else f", offset {grouped(record.offset)}"
    return f"value {short_value(record.value)} to topic-partition {record.partition}{offset}"


# Reasons --------------------------------------------------------------------------------------------------------------


def _reason(step: LogStep, witness: LogWitness, when: Clock) -> str:
    source, target = name(step.source), name(step.target)
    first, second = witness.transactions[step.source], witness.transactions[step.target]
    before = f"{source} comes before {target}"
    if step.record is not None:
        where = f"of topic-partition {step.record.partition}"
        return f"{before}: {target} was delivered {_placed(step.record)} {where}, which {source} had sent"
    if step.order == "process":
        return f"{before}: process {first.process} had ended the one when it began the other"
    ended, begun = when(first.completed), when(second.invoked)
    return f"{before}: {source} had ended at {ended}, before {target} began at {begun}"


def _value(witness: LogWitness) -> str:
    assert witness.record is not None
    return f"value {short_value(witness.record.value)}"


def _aborted(witness: LogWitness, when: Clock) -> list[str]:
    (writer,), (reader,) = witness.of("writer"), witness.of("reader")
    return [
        f"{name(writer)} sent {_value(witness)} and was aborted; {name(reader)}, which reads committed records only, "
        "was delivered it"
    ]


def _phantom(witness: LogWitness, when: Clock) -> list[str]:
    assert witness.record is not None
    (reader,) = witness.of("reader")
    here = f"topic-partition {witness.record.partition}"
    lines = [f"{name(reader)} was delivered {_value(witness)} from {here}, and no transaction sent it there"]
    lines += [f"{name(at)} sent it, to another topic-partition" for at in witness.of("elsewhere")]
    return lines


def _precommitted(witness: LogWitness, when: Clock) -> list[str]:
    (both,) = witness.of("both")
    return [
        f"{name(both)} sent {_value(witness)} and was delivered it before it was over; until then its records are not "
        "committed, and it reads committed records only"
    ]


def _lost(witness: LogWitness, when: Clock) -> list[str]:
    (writer,), (reader,) = witness.of("writer"), witness.of("missing")
    unknown = witness.transactions[writer].type == "info"
    shown = (witness.of("shown") or [reader]) if unknown else []
    return [
        *(_committed_all_the_same(witness, writer, at, when) for at in shown),
        _missed(witness, witness.transactions[reader], reader, writer, when),
    ]


def _committed_all_the_same(witness: LogWitness, writer: int, reader: int, when: Clock) -> str:
    return (
        f"the outcome of {name(writer)} is unknown, but {name(reader)} was delivered another record of it, so it was "
        f"committed by {when(witness.transactions[reader].completed)}"
    )


def _missed(witness: LogWitness, reader: LogTransactionFacts, at: int, writer: int, when: Clock) -> str:
    """How a lost record was missed.

    A single poll has both sides of it, a poll has another record in its place, or a late final read does not have it.
    """
    assert witness.record is not None
    whose = f"{name(writer)} was committed, and {_value(witness)} of it is missing"
    sides = [each for each in reader.extents if each.partition == witness.record.partition and each.above is not None]
    if sides and witness.other is None:
        below, above = grouped(sides[0].below or 0), grouped(sides[0].above or 0)
        return f"{whose}: a poll of {name(at)} goes from offset {below} to {above}"
    if witness.other is not None:
        return f"{whose}: {name(at)} was delivered value {short_value(witness.other.value)} at its offset"
    begun = when(reader.invoked)
    return f"{whose}: {name(at)}, which read to the end and began at {begun}, after the commit, was not delivered it"


def _told_unknown(witness: LogWitness, when: Clock) -> list[str]:
    """Which writers of unknown outcome were committed nevertheless, and which delivery shows it."""
    unknown = [at for at in witness.of("writer") if witness.transactions[at].type == "info"]
    shown = witness.of("shown") or witness.of("reader")
    return [
        f"the outcome of {name(writer)} is unknown, but {name(at)} was delivered a record of it: it was committed by "
        f"{when(witness.transactions[at].completed)}"
        for writer in unknown
        for at in shown[:1]
    ]


def _two_values(witness: LogWitness, when: Clock) -> list[str]:
    assert witness.record is not None and witness.other is not None and witness.record.offset is not None
    where = f"offset {grouped(witness.record.offset)} of topic-partition {witness.record.partition}"
    values = f"{_value(witness)} and value {short_value(witness.other.value)}"
    return [*_told_unknown(witness, when), f"{where} holds {values}, and a log has one record at an offset"]


def _two_offsets(witness: LogWitness, when: Clock) -> list[str]:
    assert witness.record is not None and witness.other is not None
    first, second = sorted(one.offset or 0 for one in (witness.record, witness.other))
    return [
        f"{_value(witness)}, which was sent once, lies at offset {grouped(first)} and at offset {grouped(second)} of "
        f"topic-partition {witness.record.partition}"
    ]


def _left_out(witness: LogWitness, when: Clock) -> list[str]:
    """A poll, or a session, passes over a record that was delivered to another reader."""
    assert witness.record is not None and witness.other is not None
    (reader, *_), shown = witness.of("reader"), witness.of("shown")
    offset, beyond = grouped(witness.record.offset or 0), grouped(witness.other.offset or 0)
    had = "".join(f", which {name(at)} was delivered" for at in shown[:1])
    what = "a poll" if witness.anomaly == "int_poll_skip" else "the session"
    return [f"{what} of {name(reader)} goes past offset {offset} to {beyond} without {_value(witness)}{had}"]


def _backwards(witness: LogWitness, when: Clock) -> list[str]:
    assert witness.record is not None and witness.other is not None
    (reader, *_) = witness.of("reader")
    offset, before = grouped(witness.record.offset or 0), grouped(witness.other.offset or 0)
    what = "one poll" if witness.anomaly == "int_nonmonotonic" else "the session"
    return [f"{what} of {name(reader)} delivers offset {offset} after offset {before}"]


def _order(witness: LogWitness, when: Clock) -> list[str]:
    """An earlier record lies above a later one."""
    assert witness.record is not None and witness.other is not None
    low, high = (f"offset {grouped(one.offset or 0)}" for one in (witness.record, witness.other))
    if witness.of("both"):
        (both,) = witness.of("both")
        return [f"{name(both)} sent value {short_value(witness.other.value)} first, and it lies at {high}, above {low}"]
    (earlier,), (later,) = witness.of("earlier"), witness.of("later")
    what = "was delivered" if witness.anomaly == "future_read" else "sent the record at"
    began = when(witness.transactions[later].invoked)
    return [
        f"{name(earlier)} {what} {high} before {name(later)} began at {began}, and the record that {name(later)} sent "
        f"lies below, at {low}"
    ]


_CONTRADICTIONS: Final[dict[str, Callable[[LogWitness, Clock], list[str]]]] = {
    "aborted_read": _aborted,
    "phantom": _phantom,
    "precommitted_read": _precommitted,
    "lost_write": _lost,
    "inconsistent_offset": _two_values,
    "duplicate": _two_offsets,
    "int_poll_skip": _left_out,
    "poll_skip": _left_out,
    "int_nonmonotonic": _backwards,
    "nonmonotonic_poll": _backwards,
    "nonmonotonic_send": _order,
    "rt_order": _order,
    "future_read": _order,
}
