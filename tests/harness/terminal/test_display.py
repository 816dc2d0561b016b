"""What a person reads while a run goes on, on a terminal and in a file."""

from __future__ import annotations

import io
from collections import Counter

from rich.console import Console

from squall.harness.load.load import LoadTotals
from squall.harness.terminal.display import Display, fault_line, grouped, load_line, stage_line
from squall.results.history.segments import FaultWindow
from squall.workloads.core.latency import Latencies

BEGAN = 1_000_000_000

ISOLATED = FaultWindow(
    id="1-isolate",
    fault="isolate",
    targets=("b2",),
    summary="b2 (leader of events/3)",
    injected=BEGAN + 5_000_000_000,
    healed=BEGAN + 15_000_000_000,
    took=True,
    undone=True,
    during="deaf to 5 of 5",
)


def totals() -> LoadTotals:
    counts = Counter({"send.ok": 61_204, "send.info": 37, "poll.ok": 58_911})
    return LoadTotals(counts=counts, latencies_us=[41_000] * 100)


def test_numbers_are_grouped_by_thousands() -> None:
    assert grouped(61204) == "61 204"


def test_a_stage_is_one_line_with_its_detail_beside_it() -> None:
    assert stage_line("lab", "6 hosts up in 0.6 s", "controllers c1").plain == (
        "lab        6 hosts up in 0.6 s                      controllers c1"
    )


def test_the_load_line_says_how_long_yet_and_what_was_done() -> None:
    line = load_line(30, 60, totals(), 2034.2).plain
    assert "30/60 s" in line
    assert "sends 61 204 ok · 37 info · 0 fail   polls 58 911   2 034 op/s   last 10 s: p99 41 ms" in line


def test_the_last_load_line_tells_quantiles_of_the_whole_run_not_of_its_end() -> None:
    whole = Latencies()
    for milliseconds in [3] * 950 + [3_400] * 49 + [9_000]:
        whole.note(milliseconds * 1_000_000)
    last = LoadTotals(counts=Counter({"send.ok": 1000}), latencies_us=[17_000] * 100, whole=whole)
    line = load_line(60, 60, last, 17.0).plain
    assert line.endswith("17 op/s   whole run: p50 3.01 ms · p99 3.42 s · p99.9 3.42 s")
    assert "17 ms" not in line


def test_a_fault_line_says_whom_whether_it_took_and_when_it_was_healed() -> None:
    line = fault_line(ISOLATED, BEGAN).plain
    assert " ".join(line.split()) == "fault 05 s isolate b2 (leader of events/3) ✔ deaf to 5 of 5 healed 15 s ✔"


def test_a_fault_without_evidence_says_so_in_words() -> None:
    window = FaultWindow(id="1", fault="isolate", targets=("b2",), summary="b2", injected=BEGAN, took=False)
    assert "✘ no evidence: nothing was seen of it" in fault_line(window, BEGAN).plain


def test_the_load_line_of_registers_counts_changes_and_reads() -> None:
    counted = LoadTotals(
        counts=Counter({"cas.ok": 3, "cas.info": 2, "write.ok": 5, "write.fail": 1, "read.ok": 40, "read.fail": 6})
    )
    line = load_line(30, 60, counted, 0.0).plain
    assert "changes 8 ok · 2 info · 1 fail   reads 40 ok · 0 info · 6 fail" in line
    assert "sends" not in line


def test_a_file_gets_every_fault_once_and_the_final_load_line() -> None:
    out = io.StringIO()
    display = Display(Console(file=out, width=200, no_color=True))
    display.begin_load()
    display.load_progress(1, 60, totals(), 100)
    display.fault(FaultWindow(id="1-isolate", fault="isolate", targets=("b2",), summary="b2", injected=BEGAN), BEGAN)
    display.fault(ISOLATED, BEGAN)
    display.fault(ISOLATED, BEGAN)
    display.load_progress(60, 60, totals(), 2034)
    display.end_load()
    printed = out.getvalue()
    assert printed.count("isolate") == 1
    assert printed.strip().splitlines()[-1].startswith("load") and "60/60 s" in printed
    assert "\x1b" not in printed
