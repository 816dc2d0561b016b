"""Render verdicts as plain text: what was checked, what was wrong, where, and what to do next.

Lines are (style, text); the command line colours them by style (`good`, `bad`, `doubt`, `strong`, `dim`, `plain`).
Colour never carries meaning alone.
"""

from __future__ import annotations

import textwrap
from typing import Final

from squall.results.checkers.common.text import duration, grouped, several
from squall.results.history.operation_kinds import OF_NODES
from squall.results.verdict.further import ToldFurther
from squall.results.verdict.verdict import Verdict
from squall.results.witnesses.witness import Witness

Line = tuple[str, str]

MARKS: Final = {True: "✔", False: "✘", None: "?"}
STYLES: Final = {"valid": "good", "invalid": "bad", "unknown": "doubt"}
MOST_REASONS: Final = 8
PROMISES: Final = 3
"""The number of statements of every verdict on logs; the statements after them are requirements of the scenario."""
WIDTH: Final = 108


def verdict_lines(verdict: Verdict, run: str = "runs/latest", report: str = "") -> list[Line]:
    """Return everything the terminal shows of a verdict. `run` is how commands name the run."""
    return [*check_lines(verdict), ("plain", ""), *outcome_lines(verdict, run, report)]


def check_lines(verdict: Verdict) -> list[Line]:
    """Return what was checked, by which engine, and which statements hold."""
    coverage = verdict.coverage
    if not coverage.engine:
        return []
    of_operations = [one for one in verdict.further if one.check not in OF_NODES]
    counted = [_counted(verdict)] if verdict.is_about_logs or not of_operations else []
    counted += [one.counted for one in of_operations]
    lines: list[Line] = [("plain", f"{'check':<7}{counted[0]:<64} {coverage.engine}, {coverage.seconds:.1f} s")]
    lines += [("plain", f"{'':<7}{one}") for one in counted[1:]]
    promises = PROMISES if verdict.is_about_logs else 0
    if promises:
        held = "   ".join(f"{one.text} {MARKS[one.holds]}" for one in verdict.statements[:promises])
        lines.append(("plain", f"{'':<7}{held}"))
    for further in verdict.further:
        looked_at = f" ({further.counted})" if further.check in OF_NODES else ""
        of_plugin = f" (check {further.check} of {further.plugin})" if further.plugin else ""
        lines.append(("plain", f"{'':<7}{further.statement} {MARKS[further.holds]}{looked_at}{of_plugin}"))
        lines += [("dim", f"{'':<7}noted: {grouped(count)} {name}") for name, count in further.noted.items()]
    lines += [("plain", f"{'':<7}required: {one.text} {MARKS[one.holds]}") for one in verdict.statements[promises:]]
    others = [f"{name} of {package}" for name, package in verdict.plugins.items() if not name.startswith("check ")]
    if others:
        lines.append(("plain", f"{'':<7}plugins: {', '.join(others)}"))
    if verdict.not_known:
        lines.append(("plain", f"{'':<7}not known, as the history is imported: {', '.join(verdict.not_known)}"))
    if availability := availability_text(verdict):
        lines.append(("plain", f"{'':<7}{availability}"))
    if verdict.send_latency is not None:
        lines.append(("plain", f"{'':<7}{verdict.send_latency.told}"))
    noted = [
        (
            coverage.unseen,
            "acknowledged record not covered by a final read",
            "acknowledged records not covered by a final read",
        ),
        (coverage.lost_unprotected, "record lost under acks 0 or 1", "records lost under acks 0 or 1"),
        (coverage.duplicate_not_idempotent, "duplicate without idempotence", "duplicates without idempotence"),
        (
            coverage.duplicate_after_removal,
            "duplicate of a record that had been removed from the log",
            "duplicates of records that had been removed from the log",
        ),
        (coverage.stale_log_ends, "stale log end", "stale log ends"),
        (coverage.deleted_read, "deleted record delivered", "deleted records delivered"),
        (coverage.torn_lines, "torn last line", "torn last lines"),
    ]
    said = [several(count, one, many) for count, one, many in noted if count]
    if said:
        lines.append(("dim", f"{'':<7}noted: {', '.join(said)}"))
    return lines


def _counted(verdict: Verdict) -> str:
    coverage = verdict.coverage
    return (
        f"{grouped(coverage.sends_ok + coverage.sends_info + coverage.sends_fail)} sends, "
        f"{grouped(coverage.records)} records read, {several(coverage.topic_partitions, 'topic-partition')}"
    )


def availability_text(verdict: Verdict) -> str:
    """`availability: longest gap 2.31 s (events-3, under isolate b2)`."""
    outage = verdict.longest_outage
    if outage is None:
        return ""
    under = f", under {', '.join(outage.faults)}" if outage.faults else ""
    return f"availability: longest gap {duration(outage.nanoseconds)} ({outage.where}{under})"


def outcome_lines(verdict: Verdict, run: str, report: str = "") -> list[Line]:
    """Return the verdict itself, witnesses, reasons, and where to look next."""
    lines = [
        (STYLES[verdict.verdict], f"{verdict.verdict.upper():<10}{summary(verdict):<60}  exit {verdict.exit_code}")
    ]
    shown = set()
    for one in verdict.witnesses:
        if one.anomaly not in shown:
            shown.add(one.anomaly)
            lines += [("plain", ""), *witness_lines(one, run)]
    for told in verdict.further_witnesses:
        if told.anomaly not in shown:
            shown.add(told.anomaly)
            lines += [("plain", ""), *_told_lines(told)]
    if verdict.reasons:
        lines.append(("plain", ""))
        lines += [("doubt", f"  {one}") for one in verdict.reasons[:MOST_REASONS]]
        if len(verdict.reasons) > MOST_REASONS:
            lines.append(("dim", f"  and {len(verdict.reasons) - MOST_REASONS} more reasons, in verdict.json"))
    if verdict.anomalies and verdict.command:
        lines += [("plain", ""), ("dim", f"  Repeat with: {verdict.command}")]
    if report:
        lines += [("plain", ""), ("dim", f"  {report}")]
    return lines


def summary(verdict: Verdict) -> str:
    """The short text of the verdict line."""
    if verdict.verdict == "invalid":
        if not verdict.anomalies:
            return "nothing is wrong with the log, but what the scenario requires does not hold"
        names = ", ".join(f"{one.name} ({grouped(one.count)})" for one in verdict.anomalies)
        return f"{several(len(verdict.anomalies), 'anomaly', 'anomalies')}: {names}"
    if verdict.verdict == "unknown":
        return "nothing can be concluded from this run"
    said = [f"{grouped(verdict.coverage.acknowledged)} acknowledged records, all there, all in order"]
    said = (said if verdict.is_about_logs else []) + [
        f"{several(one.acknowledged, 'acknowledged operation')}: {one.statement}"
        for one in verdict.further
        if one.acknowledged
    ]
    return "; ".join(said)


def witness_lines(witness: Witness, run: str = "runs/latest") -> list[Line]:
    """Return a witness as a block: headline, operations, circumstances, where to look."""
    return [*_told_lines(witness), ("dim", f"  Rows: squall show {run} {witness.rows}")]


def _told_lines(witness: Witness | ToldFurther) -> list[Line]:
    lines: list[Line] = [("strong", f"  {witness.title}"), ("plain", "")]
    subjects = max((len(one.subject) for one in witness.lines), default=0)
    texts = max((len(one.text) for one in witness.lines if one.time), default=0)
    for one in witness.lines:
        lines.append(("plain", f"    {one.subject:<{subjects}}  {one.text:<{texts}}  {one.time:>10}".rstrip()))
    lines.append(("plain", ""))
    hint = textwrap.wrap(f"Look at: {witness.hint}.", WIDTH, initial_indent="  ", subsequent_indent=" " * 11)
    return lines + [("plain", one) for one in hint]


def plain(lines: list[Line]) -> str:
    """Return the text without any colour."""
    return "\n".join(text for _, text in lines)
