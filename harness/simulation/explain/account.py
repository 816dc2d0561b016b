"""Render the trace of a run as text: messages, losses, log changes and where the run broke.

    events-0 under kill: ELECT
      0.000 s  clients   send 0·0, process 0
      0.000 s  clients → b2   Produce 1 record, acks all
      0.001 s  b2        appends offset 0, epoch 0
      …

One line is one event, in order of time, for the topic-partition that broke. The text lists events; it does not
interpret them.
"""

from __future__ import annotations

from collections.abc import Iterator

from squall.harness.simulation.explain.traced import RunTrace, Sent

MOST_LINES = 400
LATE_US = 20_000


def render_trace(trace: RunTrace) -> str:
    """Render the events of a run, one a line."""
    lines = [text for _, text in sorted(_lines(trace), key=lambda pair: pair[0])]
    left_out = len(lines) - MOST_LINES
    if left_out > 0:
        lines = [f"  (the first {left_out} lines are left out)", *lines[-MOST_LINES:]]
    kinds = ", ".join(dict.fromkeys(window.kind for window in trace.faults)) or "no fault"
    broken = " and ".join(trace.broken) or "nothing broke"
    head = f"{trace.log_name} under {kinds}, seed {trace.seed}: {broken}"
    end = [f"{_time(trace.ended)}  ✘ {line}" for line in trace.problem.splitlines()[:1]]
    return "\n".join([head, "", *lines, *end])


def _lines(trace: RunTrace) -> Iterator[tuple[tuple[int, int], str]]:
    for message in trace.messages:
        yield (message.at, 2), _line(message.at, f"{message.source} → {message.target}", _message(message, trace.ended))
    for one in trace.happenings:
        yield (one.at, 1), _line(one.at, one.lane, one.text)
    for window in trace.faults:
        yield (window.begin, 0), _line(window.begin, ", ".join(window.hosts), f"⚡ {window.kind}")
        if window.end is not None and window.end <= trace.ended:
            yield (window.end, 3), _line(window.end, ", ".join(window.hosts), f"⚡ {window.kind} over")


def is_lost(message: Sent, ended: int) -> bool:
    """Return whether the message never arrived; a message sent just before the end may still have been in flight."""
    return message.arrived is None and ended - message.at > LATE_US


def _message(message: Sent, ended: int) -> str:
    said = f"{message.said.api} {'answer: ' if message.said.is_answer else ''}{message.said.text}"
    if message.arrived is None:
        return f"{said}  ✘ never arrives" if is_lost(message, ended) else f"{said}  (under way at the end)"
    late = message.arrived - message.at
    return f"{said}  (arrives {late / 1e6:.3f} s later)" if late > LATE_US else said


def _time(microseconds: int) -> str:
    return f"{microseconds / 1e6:9.4f} s"


def _line(at: int, who: str, what: str) -> str:
    return f"{_time(at)}  {who:<14}  {what}"
