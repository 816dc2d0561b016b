"""Describe witnesses of consumer groups in words: the operations, and which two contradict each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.common.text import Clock, clock_of, grouped, listed, several
from squall.results.checkers.groups.facts import GroupOperationFacts, GroupWitness
from squall.results.checkers.groups.rules import NOBODY, NOWHERE
from squall.results.witnesses.span_diagram import Span, span_diagram
from squall.results.witnesses.witness import Surroundings, WitnessLine

COLOURS: Final = {"join": "#CC79A7", "commit": "#0072B2", "position": "#009E73", "poll": "#E69F00"}


def group_title(witness: GroupWitness) -> str:
    """`group 1, topic-partition 40: a commit of an older generation was accepted.`"""
    place = f"group {witness.group}" + (f", topic-partition {witness.partition}" if witness.partition >= 0 else "")
    return f"{place}: {ANOMALIES[witness.anomaly].headline(1)}."


def tell_group(witness: GroupWitness, origin: int) -> tuple[WitnessLine, ...]:
    """Describe a witness in words: the proof, why it is one, the operations around it. Times count from `origin`."""
    when = _clock(witness, origin)
    lines = [_line(one, witness, when) for one in witness.operations]
    lines += [WitnessLine("so", text) for text in _CONTRADICTIONS[witness.anomaly](witness, when)]
    lines += [_around("before that", one, witness, when) for one in witness.before]
    lines += [_around("after that", one, witness, when) for one in witness.after]
    return tuple(lines)


def _clock(witness: GroupWitness, origin: int) -> Clock:
    return clock_of((time for one in witness.operations for time in (one.invoked, one.completed)), origin)


def group_diagram(witness: GroupWitness, around: Surroundings) -> str:
    """Draw the operations as bars over time; those around the proof are pale."""
    shown = [(one, False) for one in witness.operations]
    shown += [(one, True) for one in (*witness.before, *witness.after)]
    spans = [
        Span(_short_who(one), _what(one, witness), one.invoked, one.completed, COLOURS[one.f], pale=pale)
        for one, pale in shown
    ]
    return span_diagram(spans, around, "operations of a consumer group over time")


# Operations -----------------------------------------------------------------------------------------------------------


def _who(one: GroupOperationFacts) -> str:
    member = "in no group" if one.group == NOBODY else f"member {one.member}"
    return f"process {one.process}, {member}"


def _short_who(one: GroupOperationFacts) -> str:
    return f"process {one.process}" if one.group == NOBODY else f"member {one.member}"


def _line(one: GroupOperationFacts, witness: GroupWitness, when: Clock) -> WitnessLine:
    begun = f"begun at {when(one.invoked)}"
    return WitnessLine(_who(one), f"{_what(one, witness)}; {begun}", when(one.completed))


def _around(subject: str, one: GroupOperationFacts, witness: GroupWitness, when: Clock) -> WitnessLine:
    line = _line(one, witness, when)
    return WitnessLine(subject, f"{line.subject}: {line.text}", line.time)


def _what(one: GroupOperationFacts, witness: GroupWitness) -> str:
    """An operation with its outcome."""
    outcome = {"fail": "refused" if one.f == "commit" else "failed", "info": "outcome unknown"}
    return f"{_act(one, witness)}, {outcome.get(one.type) or _answer(one)}"


def _act(one: GroupOperationFacts, witness: GroupWitness) -> str:
    if one.f == "commit":
        generation = "" if one.generation is None else f" in generation {one.generation}"
        return f"commit of {_position(one.position)}{generation}"
    return {"join": "join", "position": "question for the position", "poll": f"poll{_delivered(one, witness)}"}[one.f]


def _answer(one: GroupOperationFacts) -> str:
    if one.f == "join":
        given = f"topic-partitions {listed([str(each) for each in one.assigned])}" if one.assigned else "nothing"
        return f"given generation {one.generation} and {given}"
    if one.f == "position":
        return f"told {_position(one.position)}"
    return "acknowledged"


def _delivered(one: GroupOperationFacts, witness: GroupWitness) -> str:
    run = one.delivered
    if run is None:
        return " of no records"
    here = ""
    if witness.anomaly == "commit_ahead" and run.first <= witness.offset <= run.last:
        here = f", {'with' if run.holds else 'without'} offset {grouped(witness.offset)}"
    return f" of offsets {grouped(run.first)} to {grouped(run.last)} ({several(run.count, 'record')}{here})"


def _position(position: int | None) -> str:
    return "no position" if position in (None, NOWHERE) else f"position {grouped(position or 0)}"


# Contradictions -------------------------------------------------------------------------------------------------------


def _two_owners(witness: GroupWitness, when: Clock) -> list[str]:
    first, second = witness.of("owner")
    return [
        f"topic-partition {witness.partition} was given to member {first.member} and to member {second.member} in "
        f"generation {first.generation}; in one generation it belongs to one member only"
    ]


def _complete(newer: GroupOperationFacts, what: str, older: GroupOperationFacts, when: Clock) -> str:
    return (
        f"generation {newer.generation} was complete for member {newer.member} at {when(newer.completed)}, before "
        f"member {older.member}'s {what} began at {when(older.invoked)}"
    )


def _older_join(witness: GroupWitness, when: Clock) -> list[str]:
    (newer,), (older,) = witness.of("newer"), witness.of("older")
    return [f"{_complete(newer, 'join', older, when)}; generation {older.generation}, which it was given, is older"]


def _zombie(witness: GroupWitness, when: Clock) -> list[str]:
    (newer,), (older,) = witness.of("newer"), witness.of("older")
    lines = [
        f"{_complete(newer, f'commit of {_position(older.position)}', older, when)}; that commit is of the older "
        f"generation {older.generation} and should have been refused"
    ]
    if witness.of("older seen"):
        lines.append(f"it was not: {_done(older, witness, when)} and no other commit can have put it there")
    return lines


def _phantom(witness: GroupWitness, when: Clock) -> list[str]:
    (told,) = witness.of("told")
    what = _position(told.position)
    lines = [f"no commit of {what} that was not refused had begun when member {told.member} received {what}"]
    lines += [
        f"member {one.member}'s commit of {what} was refused: it must have no effect" for one in witness.of("refused")
    ]
    lines += [
        f"member {one.member}'s commit of {what} began only afterwards, at {when(one.invoked)}"
        for one in witness.of("later")
    ]
    return lines


def _stale(witness: GroupWitness, when: Clock) -> list[str]:
    return _told_stale(witness, when) if witness.of("told") else _both_at_once(witness, when)


def _told_stale(witness: GroupWitness, when: Clock) -> list[str]:
    (told,), (latest,) = witness.of("told"), witness.of("latest")
    lines = [
        f"{_done(one, witness, when)} before the commit of {_position(latest.position)} began"
        for one in witness.of("replaced")
    ]
    asked = f"before member {told.member} sent its request at {when(told.invoked)}"
    lines.append(f"{_done(latest, witness, when)} {asked}")
    lines.append(
        f"member {told.member} received {_position(told.position)} anyway: {_position(latest.position)} or "
        "a later one was the group's position by then"
    )
    return lines


def _done(one: GroupOperationFacts, witness: GroupWitness, when: Clock) -> str:
    """Since when a commit was certainly done, and which response shows it if not its own completion."""
    seen = [each for each in witness.of(f"{one.role} seen") if each.position == one.position]
    if seen:
        return (
            f"the commit of {_position(one.position)} by member {one.member} was done by "
            f"{when(seen[0].completed)}, when member {seen[0].member} received that position,"
        )
    ended = when(one.completed)
    return f"the commit of {_position(one.position)} by member {one.member} was done by {ended},"


def _both_at_once(witness: GroupWitness, when: Clock) -> list[str]:
    lasting, other = witness.of("lasting"), witness.of("other")
    since, until = _interval(other)
    one, two = _position(lasting[0].position), _position(other[0].position)
    first = f"{one} was the group's all the time {_from_to(*_interval(lasting), when)}"
    if since is None or since < until:
        second = f"{two} was it all the time {_from_to(since, until, when)}"
    else:
        second = f"{two} was it at some moment {_from_to(until, since, when)}"
    return [first, f"{second}; a group has one position at a time"]


def _interval(some: list[GroupOperationFacts]) -> tuple[int | None, int]:
    """From the first completion to the last invocation; "no position" holds from the start."""
    until = max(one.invoked for one in some)
    if some[0].position == NOWHERE:
        return None, until
    return min((one.completed for one in some if one.completed is not None and one.type == "ok"), default=until), until


def _from_to(begin: int | None, end: int, when: Clock) -> str:
    since = "from the start" if begin is None else f"from {when(begin)}"
    return f"{since} to {when(end)}"


def _ahead(witness: GroupWitness, when: Clock) -> list[str]:
    (ahead,) = witness.of("ahead")
    record = f"offset {grouped(witness.offset)}"
    done = f"the commit of {_position(ahead.position)} by member {ahead.member} was done at {when(ahead.completed)}"
    if witness.of("ahead seen"):
        done = f"{_done(ahead, witness, when)} as no other commit can have put it there,"
    lines = [f"{done} and passes {record}, which no poll of the group begun by then delivered"]
    lines += [f"{record} is there: process {one.process} was given it" for one in witness.of("given")]
    lines += [
        f"member {one.member} was given it only by a poll begun at {when(one.invoked)}" for one in witness.of("late")
    ]
    lines += [
        f"the group reads from offset {grouped(one.delivered.first)} on: what follows is its matter"
        for one in witness.of("begin")
        if one.delivered is not None
    ]
    return lines


_CONTRADICTIONS: Final[dict[str, Callable[[GroupWitness, Clock], list[str]]]] = {
    "double_assignment": _two_owners,
    "generation_regress": _older_join,
    "zombie_commit": _zombie,
    "phantom_commit": _phantom,
    "stale_commit": _stale,
    "commit_ahead": _ahead,
}
