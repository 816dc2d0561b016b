"""Show a run on the terminal: one line per stage, a moving line under load, one line per fault.

    lab        6 hosts up in 0.6 s                      controllers c1 c2 c3 · brokers b1 b2 b3
    load   ━━━━━━━━━━━━━━━━━━━━ 60/60 s   sends 61 204 ok · 37 info · 0 fail   polls 58 911   2 034 op/s   …
    fault   05 s  isolate   b2 (leader of events/3)    ✔ deaf to 5 of 5   healed 15 s ✔

Every line says what happens, to which host, whether it took effect, and how long it still lasts. On a terminal the load
line moves and faults change in place; elsewhere (a file, CI) each line is printed once, when it is final, and the load
line every ten seconds. Colours and marks never carry meaning alone: ✔ and ✘ stand beside words.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from squall.harness.load.load import RECENT_SECONDS, LoadTotals
from squall.results.checkers.common.text import SHARES, quantile_words
from squall.results.history.segments import FaultWindow
from squall.workloads.core.operation import CAS, FAIL, INFO, OK, POLL, READ, SEND, WRITE

LABEL_WIDTH = 11
DETAIL_COLUMN = 52
BAR_WIDTH = 26
QUIET_SECONDS = 10.0
THIN_SPACE = "\u2009"
CHECK, CROSS = "✔", "✘"


def grouped(number: int) -> str:
    """Format 61204 as `61 204`."""
    return f"{number:,}".replace(",", " ")


def stage_line(label: str, text: str, detail: str = "") -> Text:
    """Return a stage's line: label, what happened, and beside it the detail."""
    line = Text(f"{label:<{LABEL_WIDTH}}", style="bold")
    line.append(f"{text:<{DETAIL_COLUMN - LABEL_WIDTH}}" if detail else text, style="not bold")
    if detail:
        line.append(detail, style="dim not bold")
    return line


def load_line(elapsed: float, total: float, totals: LoadTotals, per_second: float) -> Text:
    """Return the progress of the load, with what it has done so far."""
    share = min(1.0, elapsed / total) if total else 1.0
    filled = round(share * BAR_WIDTH)
    line = Text(f"{'load':<7}", style="bold")
    line.append("━" * filled, style="green not bold")
    line.append("─" * (BAR_WIDTH - filled), style="bright_black not bold")  # thin: distinct without colour, too
    line.append(f" {min(elapsed, total):.0f}/{total:.0f} s   ", style="not bold")
    changes = sum(totals.of(f, kind) for f in (WRITE, CAS) for kind in (OK, INFO, FAIL))
    if changes:
        done = f"{_outcomes('changes', totals, WRITE, CAS)}   {_outcomes('reads', totals, READ)}"
    else:
        polls = grouped(totals.of(POLL, OK))
        done = f"{_outcomes('sends', totals, SEND)}   polls {polls}   {grouped(round(per_second))} op/s"
    line.append(done, style="not bold")
    line.append(_latency(totals), style="not bold")
    return line


def _latency(totals: LoadTotals) -> str:
    """Return the whole run's quantiles, from when sends were due, once known; until then the recent p99."""
    if totals.whole is not None and totals.whole.count:
        told = [value for share in SHARES.values() if (value := totals.whole.quantile(share)) is not None]
        return f"   whole run: {quantile_words(*told)}"
    p99 = totals.latency_ms(0.99)
    return "" if p99 is None else f"   last {RECENT_SECONDS:.0f} s: p99 {p99:.0f} ms"


def _outcomes(name: str, totals: LoadTotals, *functions: str) -> str:
    """Return `sends 8 ok · 1 info · 0 fail`."""
    counts = {kind: sum(totals.of(f, kind) for f in functions) for kind in (OK, INFO, FAIL)}
    return f"{name} " + " · ".join(f"{grouped(count)} {kind}" for kind, count in counts.items())


def fault_line(window: FaultWindow, load_began: int) -> Text:
    """Return the line of one fault: when, what, to which host; whether it was seen to take effect, and to end."""
    line = Text(f"{'fault':<7}", style="bold")
    at = "  --  " if window.injected is None else f"{seconds_since(load_began, window.injected):02.0f} s  "
    line.append(f" {at}{window.fault:<9} ", style="not bold")
    line.append(f"{window.summary:<32} ", style="not bold")
    line.append_text(_took(window))
    line.append_text(_ended(window, load_began))
    if window.trouble:
        line.append(f"   {window.trouble}", style="yellow not bold")
    return line


def _took(window: FaultWindow) -> Text:
    if window.took is None:
        return Text("…", style="dim not bold") if not window.trouble else Text("")
    if window.took:
        return Text(f"{CHECK} {window.during}", style="green not bold")
    return Text(f"{CROSS} no evidence: {window.during or 'nothing was seen of it'}", style="yellow not bold")


def _ended(window: FaultWindow, load_began: int) -> Text:
    if window.healed is None:
        return Text("")
    mark = CHECK if window.undone else (CROSS if window.undone is False else "…")
    text = f"   healed {seconds_since(load_began, window.healed):.0f} s {mark}"
    if window.after:
        text += f"  {window.after}"
    return Text(text, style="not bold" if window.undone is not False else "yellow not bold")


def seconds_since(origin: int, moment: int) -> float:
    return max(0.0, (moment - origin) / 1e9)


class Display:
    """Prints a run while it proceeds."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live: Live | None = None
        self.load: Text | None = None
        self.faults: dict[str, tuple[FaultWindow, int]] = {}
        self.printed: set[str] = set()
        self.last_quiet = -QUIET_SECONDS

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_load()

    def follow(self, directory: Path, title: str) -> None:
        """Learn which run is shown from here on. The terminal needs no more than its lines."""

    def judged(self, verdict: str) -> None:
        """Learn how the run ended."""

    def stage(self, label: str, text: str, detail: str = "") -> None:
        """Print that a stage is over."""
        self.console.print(stage_line(label, text, detail), soft_wrap=True, highlight=False)

    def blank(self) -> None:
        self.console.print()

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style), soft_wrap=True, highlight=False)

    def begin_load(self) -> None:
        """Let the load line and the faults move from here on, until `end_load`."""
        self.blank()
        if self.console.is_terminal:
            self.live = Live(console=self.console, refresh_per_second=4, transient=False)
            self.live.start()

    def load_progress(self, elapsed: float, total: float, totals: LoadTotals, per_second: float) -> None:
        self.load = load_line(elapsed, total, totals, per_second)
        if self.live is not None:
            self._refresh()
        elif elapsed - self.last_quiet >= QUIET_SECONDS and elapsed < total:
            self.last_quiet = elapsed
            self.console.print(self.load, soft_wrap=True, highlight=False)

    def fault(self, window: FaultWindow, load_began: int) -> None:
        """Show a change of a fault."""
        self.faults[window.id] = (window, load_began)
        if self.live is not None:
            self._refresh()
        elif window.id not in self.printed and (window.undone is not None or window.trouble):
            self.printed.add(window.id)
            self.console.print(fault_line(window, load_began), soft_wrap=True, highlight=False)

    def end_load(self) -> None:
        """End the load display; its last lines stay."""
        if self.live is not None:
            self._refresh()
            self.live.stop()
            self.live = None
        elif self.load is not None:
            for window, began in self.faults.values():
                if window.id not in self.printed:
                    self.console.print(fault_line(window, began), soft_wrap=True, highlight=False)
            self.console.print(self.load, soft_wrap=True, highlight=False)
        self.load, self.faults, self.printed = None, {}, set()
        self.last_quiet = -QUIET_SECONDS

    def _refresh(self) -> None:
        assert self.live is not None
        lines: list[RenderableType] = [] if self.load is None else [self.load]
        lines += [fault_line(window, began) for window, began in self.faults.values()]
        self.live.update(Group(*lines))


def table_of(names: Sequence[str]) -> str:
    """Return names side by side, for a detail column."""
    return " ".join(names)
