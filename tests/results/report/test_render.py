"""What the terminal says: the golden words of the three verdicts."""

from __future__ import annotations

from pathlib import Path

from squall.results.check import check_run
from squall.results.checkers.common.text import clock, duration, grouped, listed, several, value_name
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.segments import ClusterObservation, FaultWindow
from squall.results.report.render import outcome_lines, plain
from squall.results.synthetic.forge import MILLISECOND, ORIGIN, Forged, forge_run

S = 1000 * MILLISECOND
FAULT = FaultWindow(
    id="f1",
    fault="isolate",
    targets=("b2",),
    summary="b2",
    injected=ORIGIN + 5 * S,
    healed=ORIGIN + 15 * S,
    took=True,
    undone=True,
)
LEADERS = (
    ClusterObservation(time=ORIGIN, kind="leader", node="b2", topic="events", partition=0, epoch=5),
    ClusterObservation(
        time=ORIGIN + 12_502 * MILLISECOND, kind="leader", node="b3", topic="events", partition=0, epoch=6
    ),
)


def lost_under_isolation() -> list[Forged]:
    """A record acknowledged by an isolated leader; another one lies at its offset in the end."""
    first, old, new = 4 << 40 | 1092, 4 << 40 | 1093, 7 << 40 | 981
    marker = 9 << 40 | 1
    run = ((0, first), (1, new), (2, marker))
    return [
        Forged("send", 4, 0, 12_000 * MILLISECOND, 12_010 * MILLISECOND, value=first, offset=0),
        Forged("send", 4, 0, 12_470 * MILLISECOND, 12_481 * MILLISECOND, value=old, offset=1),
        Forged("send", 7, 1, 12_600 * MILLISECOND, 12_700 * MILLISECOND, value=new, offset=1),
        Forged("marker", 9, 2, 62 * S, 62_100 * MILLISECOND, value=marker, offset=2),
        Forged("final_poll", 10, 3, 63 * S, 63_190 * MILLISECOND, run=run, session=0),
    ]


def test_a_lost_write_reads_like_this(tmp_path: Path) -> None:
    run = forge_run(tmp_path, lost_under_isolation(), faults=(FAULT,), cluster=LEADERS, command="squall run x --seed 1")
    verdict = check_run(run, InProcess(), report=False)
    assert plain(outcome_lines(verdict, "runs/latest")) == GOLDEN


GOLDEN = """\
INVALID   1 anomaly: lost_write (1)                                     exit 1

  events-0: an acknowledged record is missing from the log, at offset 1.

    process 4    send of value 4·1093 acknowledged at offset 1, begun at 12.470 s    12.481 s
    final read   offset 1 holds value 7·981 (poll of offsets 0 to 2)                 63.190 s
    process 7    send of value 7·981 acknowledged at offset 1, begun at 12.600 s     12.700 s
    leader       b2, leader epoch 5, seen from                                        0.000 s
    leader       b3, leader epoch 6, seen from                                       12.502 s
    under fault  isolate b2 (5.0–15.0 s)

  Look at: acknowledging before all in-sync replicas have it, a leader that was not fenced, or truncation of
           committed records.
  Rows: squall show runs/latest events-0@0..6

  Repeat with: squall run x --seed 1"""


def test_an_unknown_run_says_why(tmp_path: Path) -> None:
    operations = [one for one in lost_under_isolation() if one.value != 4 << 40 | 1093]
    fault = FaultWindow(
        id="f", fault="isolate", targets=("b2",), summary="b2", injected=5, took=False, during="b2 answered 3 of 5"
    )
    verdict = check_run(forge_run(tmp_path, operations, faults=(fault,)), InProcess(), report=False)
    assert plain(outcome_lines(verdict, "runs/latest", "runs/x/report.html")).splitlines() == [
        "UNKNOWN   nothing can be concluded from this run                        exit 2",
        "",
        "  fault isolate b2 left no evidence: b2 answered 3 of 5",
        "",
        "  runs/x/report.html",
    ]


def test_numbers_read_well() -> None:
    assert grouped(61204) == "61 204"
    assert value_name(4 << 40 | 1093) == "4·1093"
    assert value_name(-1) == "unreadable"
    assert clock(ORIGIN + 12_481 * MILLISECOND, ORIGIN) == "12.481 s"
    assert clock(ORIGIN - 1, ORIGIN) == "0.000 s"
    assert [duration(one) for one in (2.31e9, 41.2e6, 850e3, 17, 61e9)] == [
        "2.31 s", "41.2 ms", "850 µs", "17 ns", "61.0 s"
    ]  # fmt: skip
    assert several(1, "anomaly", "anomalies") == "1 anomaly"
    assert several(2, "send") == "2 sends"
    assert listed([str(number) for number in range(9)], 3) == "0, 1, 2 and 6 more"
