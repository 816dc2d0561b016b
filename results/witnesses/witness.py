"""Describe witnesses in words: which operations, at which offsets, when, under which fault.

The facts come from a task (`checkers/log/result.py`). They are combined with what else the run knows, the faults and
the leaders, into lines that a person can read without knowing how the checker works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from squall.results.checkers.anomalies import ANOMALIES
from squall.results.checkers.common.text import clock, grouped, value_name
from squall.results.checkers.log.result import OperationFacts, WitnessFacts
from squall.results.history.segments import ClusterObservation, FaultWindow

ROWS_AROUND: Final = 5


class WitnessLine(msgspec.Struct, frozen=True):
    """`process 4 │ send of 4·1093 acknowledged at offset 20 417 │ 12.481 s`."""

    subject: str
    text: str
    time: str = ""


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """One instance of an anomaly, described. `rows` is what `squall show RUN …` shows of it."""

    anomaly: str
    title: str
    lines: tuple[WitnessLine, ...]
    hint: str
    rows: str
    facts: WitnessFacts


class Surroundings(msgspec.Struct, frozen=True):
    """What else is known about the run: second 0, the faults, the observations of the cluster."""

    origin: int
    faults: tuple[FaultWindow, ...] = ()
    cluster: tuple[ClusterObservation, ...] = ()
    watched: tuple[tuple[int, int], ...] = ()


def tell(facts: WitnessFacts, count: int, around: Surroundings, *, another: bool = False) -> Witness:
    """Describe a witness in words.

    `count` is how often its anomaly occurred in its topic-partition; `another` means that an earlier witness of it was
    described already.
    """
    where = f"{facts.topic}-{facts.partition}"
    lines = [_operation_line(one, facts, around) for one in facts.operations]
    lines += _left_out(facts) + _leader_lines(facts, around) + _fault_lines(facts, around)
    return Witness(
        anomaly=facts.anomaly,
        title=f"{where}: {_headline(facts, count, another)}",
        lines=tuple(lines),
        hint=ANOMALIES[facts.anomaly].hint,
        rows=f"{where}@{max(0, facts.offset - ROWS_AROUND)}..{max(0, facts.offset) + ROWS_AROUND}",
        facts=facts,
    )


def _headline(facts: WitnessFacts, count: int, another: bool) -> str:
    place = "" if facts.offset < 0 else f" at offset {grouped(facts.offset)}"
    if another:
        return f"another,{place}." if place else "another."
    first = " first" if count > 1 and place else ""
    return f"{ANOMALIES[facts.anomaly].headline(count)}{',' if place else ''}{first}{place}."


# Operations ---------------------------------------------------------------------------------------------------------


def _operation_line(one: OperationFacts, facts: WitnessFacts, around: Surroundings) -> WitnessLine:
    tells: dict[str, Callable[[OperationFacts, WitnessFacts, Surroundings], str]] = {
        "send": _send_text,
        "marker": _send_text,
        "list_offsets": _log_end_text,
    }
    text = tells.get(one.f, _poll_text)(one, facts, around)
    subject = "final read" if one.f == "final_poll" else f"process {one.process}"
    moment = one.completed if one.completed is not None else one.invoked
    return WitnessLine(subject, text, clock(moment, around.origin))


def _send_text(one: OperationFacts, facts: WitnessFacts, around: Surroundings) -> str:
    what = f"{one.f} of value {value_name(one.value if one.value is not None else -1)}"
    began = f", begun at {clock(one.invoked, around.origin)}"
    if one.type == "fail":
        return f"{what} failed ({one.error or 'no error given'})"
    if one.type == "info":
        return f"{what}, outcome unknown ({one.error or 'no answer'}){began}"
    epoch = "" if one.leader_epoch is None else f", leader epoch {one.leader_epoch}"
    offset = "without an offset" if one.offset is None else f"at offset {grouped(one.offset)}"
    return f"{what} acknowledged {offset}{epoch}{began}"


def _log_end_text(one: OperationFacts, facts: WitnessFacts, around: Surroundings) -> str:
    end = "unknown" if one.high_watermark is None else grouped(one.high_watermark)
    return f"list_offsets answered: the log ends at {end}; begun at {clock(one.invoked, around.origin)}"


def _poll_text(one: OperationFacts, facts: WitnessFacts, around: Surroundings) -> str:
    run = one.delivered
    if run is None:
        return "a poll that delivered nothing"
    place = facts.other_offset if one.role == "other_reader" else facts.offset
    here = [value for offset, value in run.near if offset == place]
    extent = f"offsets {grouped(run.first)} to {grouped(run.last)}"
    if here:
        begun = f"; begun at {clock(one.invoked, around.origin)}" if one.role == "earlier" else ""
        return f"offset {grouped(place)} holds value {value_name(here[0])} (poll of {extent}{begun})"
    beyond = [(offset, value) for offset, value in run.near if offset == facts.other_offset]
    if beyond:
        return f"offset {grouped(beyond[0][0])} holds value {value_name(beyond[0][1])} (poll of {extent})"
    before = [offset for offset, _ in run.near if offset < facts.offset]
    after = [offset for offset, _ in run.near if offset > facts.offset]
    if before and after:
        return f"goes from offset {grouped(max(before))} to {grouped(min(after))} (poll of {extent})"
    if run.last < facts.offset and one.f == "final_poll":
        return f"ends at offset {grouped(run.last)}"
    if run.last < facts.offset:
        return f"a poll of {extent}, which ends before offset {grouped(facts.offset)}"
    if run.first > facts.offset:
        return f"a poll of {extent}, which begins after offset {grouped(facts.offset)}"
    return f"a poll of {extent}, without offset {grouped(facts.offset)}"


def _left_out(facts: WitnessFacts) -> list[WitnessLine]:
    """Where records were left out around the record: from which offset to which."""
    if facts.anomaly not in ("poll_skip", "int_poll_skip"):
        return []
    before, after = _sides(facts)
    if before is None or after is None or after - before <= 2:
        return []
    count = f"{grouped(after - before - 1)} in all"
    return [WitnessLine("left out", f"offsets {grouped(before + 1)} to {grouped(after - 1)}, {count}")]


def _sides(facts: WitnessFacts) -> tuple[int | None, int | None]:
    """The last offset delivered before a record that was not delivered, and the first after it, as far as known."""
    runs = {one.role: one.delivered for one in facts.operations}
    earlier, run = runs.get("previous_reader"), runs.get("reader")
    if run is None:
        return None, None
    if earlier is not None:
        return (earlier.last, run.first) if earlier.last < facts.offset < run.first else (None, None)
    known = [offset for offset, _ in run.near]
    before = max((one for one in known if one < facts.offset), default=None)
    return before, min((one for one in known if one > facts.offset), default=None)


# Circumstances -------------------------------------------------------------------------------------------------------


def interval(facts: WitnessFacts) -> tuple[int, int]:
    """From the start to the end of the operations concerned; final reads come long after and do not count."""
    during = [one for one in facts.operations if one.f != "final_poll"] or list(facts.operations)
    begun = min((one.invoked for one in during), default=0)
    ended = max((one.completed or one.invoked for one in during), default=0)
    return begun, ended


def _fault_lines(facts: WitnessFacts, around: Surroundings) -> list[WitnessLine]:
    begun, ended = interval(facts)
    active = faults_between(around.faults, begun, ended)
    if active:
        return [WitnessLine("under fault", _fault_text(one, around.origin)) for one in active[:3]]
    before = [one for one in around.faults if one.healed is not None and one.healed <= begun]
    after = [one for one in around.faults if one.injected is not None and one.injected >= ended]
    lines = []
    if before:
        lines.append(WitnessLine("after fault", _fault_text(before[-1], around.origin)))
    if after and facts.anomaly == "lost_write":
        lines.append(WitnessLine("before fault", _fault_text(after[0], around.origin)))
    return lines


def faults_between(faults: Sequence[FaultWindow], begun: int, ended: int) -> list[FaultWindow]:
    """Return the faults that held at some moment between two times."""
    return [
        one
        for one in faults
        if one.injected is not None and one.injected <= ended and (one.healed is None or one.healed >= begun)
    ]


def _fault_text(one: FaultWindow, origin: int) -> str:
    begun = clock(one.injected, origin, 1).removesuffix(" s")
    return f"{one.name} ({begun}–{clock(one.healed, origin, 1)})"


def _leader_lines(facts: WitnessFacts, around: Surroundings) -> list[WitnessLine]:
    """Which node led at the time, and which took over next, as far as observed."""
    begun, ended = interval(facts)
    seen = [
        one
        for one in around.cluster
        if one.kind == "leader" and (one.topic, one.partition) == (facts.topic, facts.partition)
    ]
    before = [one for one in seen if one.time <= begun]
    later = [one for one in seen if one.time > begun]
    shown = before[-1:] + [one for one in later if one.time <= ended][:2]
    shown += [one for one in later if one.time > ended][:1]
    return [
        WitnessLine(
            "leader",
            f"{one.node or 'none'}{'' if one.epoch is None else f', leader epoch {one.epoch}'}, seen from",
            clock(one.time, around.origin),
        )
        for one in shown
    ]
