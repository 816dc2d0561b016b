"""A page about the run that is under way: `squall run --live` keeps RUN/live.html, which refreshes itself.

It shows what the terminal shows: stages, the load with its rate over time, every fault with its evidence. Once the run
is judged it no longer refreshes, and leads to the report. It is written whole, at most once a second. Where it cannot
be written, as on a full disk, the run goes on without it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from markupsafe import Markup
from rich.console import Console

from squall.harness.load.load import LoadTotals
from squall.harness.terminal.display import Display, fault_line, load_line
from squall.results.history.segments import FaultWindow
from squall.results.history.whole_file import write_whole

LIVE_FILE: Final = "live.html"
LEAST_SECONDS: Final = 1.0
REFRESH_SECONDS: Final = 2
LINES_MAX: Final = 200
WIDTH, HEIGHT = 720, 90

_STYLE: Final = Markup(
    ":root{--ink:#1f2937;--soft:#4b5563;--line:#e5e7eb;--paper:#fff;--tone:#0072b2;color-scheme:light dark}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e5e7eb;--soft:#a8b0bd;--line:#2b3442;--paper:#151b24;--tone:#4aa8e0}}"
    "body{margin:0 auto;max-width:900px;padding:20px;color:var(--ink);background:var(--paper);"
    "font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}"
    "progress{width:100%;height:14px;accent-color:var(--tone)}svg{width:100%;border-bottom:1px solid var(--line)}"
    "path{fill:none;stroke:var(--tone);stroke-width:1.6}a{color:var(--tone)}.soft{color:var(--soft)}"
    "pre{white-space:pre-wrap;font:13px/1.5 ui-monospace,Menlo,monospace}"
)


class LiveDisplay(Display):
    """Shows a run on the terminal and in a page of its directory."""

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console)
        self._now = now
        self._path: Path | None = None
        self._title = ""
        self._lines: list[str] = []
        self._fault_lines: dict[str, str] = {}
        self._rates: list[tuple[float, float]] = []
        self._before: tuple[float, int] = (0.0, 0)
        self._share = 0.0
        self._load_text = ""
        self._written = -LEAST_SECONDS

    def follow(self, directory: Path, title: str) -> None:
        """Begin the page of a run."""
        self._path, self._title = directory / LIVE_FILE, title
        self._fault_lines, self._rates, self._before, self._share, self._load_text = {}, [], (0.0, 0), 0.0, ""
        self._write()
        self.say(f"{'live':<11}{self._path}")

    def judged(self, verdict: str) -> None:
        """End the page: it says how the run ended, and leads to the report in the same directory."""
        self._write(verdict)
        self._lines = []
        self._path = None

    def stage(self, label: str, text: str, detail: str = "") -> None:
        super().stage(label, text, detail)
        self._note(f"{label:<11}{text}   {detail}".rstrip())

    def say(self, text: str, style: str = "") -> None:
        super().say(text, style)
        self._note(text)

    def load_progress(self, elapsed: float, total: float, totals: LoadTotals, per_second: float) -> None:
        super().load_progress(elapsed, total, totals, per_second)
        sends = totals.of("send", "ok")
        then, sent = self._before
        if elapsed - then >= LEAST_SECONDS:
            self._rates.append((elapsed, (sends - sent) / (elapsed - then)))
            self._before = (elapsed, sends)
        self._share = min(1.0, elapsed / total) if total else 1.0
        self._load_text = load_line(elapsed, total, totals, per_second).plain.lstrip("load ━─")
        self._write_soon()

    def fault(self, window: FaultWindow, load_began: int) -> None:
        super().fault(window, load_began)
        self._fault_lines[window.id] = fault_line(window, load_began).plain
        self._write_soon()

    def _note(self, line: str) -> None:
        self._lines = [*self._lines, line][-LINES_MAX:]
        self._write_soon()

    def _write_soon(self) -> None:
        if self._now() - self._written >= LEAST_SECONDS:
            self._write()

    def _write(self, outcome: str = "") -> None:
        if self._path is None:
            return
        self._written = self._now()
        lines = "\n".join((*self._fault_lines.values(), "", *self._lines)).strip()
        with contextlib.suppress(OSError):
            page = live_page(self._title, self._load_text, self._share, self._rates, lines, outcome)
            write_whole(self._path, page, durably=False)


def live_page(
    title: str, load: str, share: float, rates: Sequence[tuple[float, float]], lines: str, outcome: str
) -> str:
    """Render the page. With an outcome it is final."""
    refresh = Markup("") if outcome else Markup(f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">')
    link = Markup('<p><a href="report.html">Open the report</a></p>') if outcome else Markup("")
    return Markup(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{refresh}'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>{state} · {title} · Squall</title>'
        "<style>{style}</style></head><body><h1>{title}</h1><p><b>{state}</b></p>{link}"
        '<progress max="1" value="{share:.4f}"></progress><p>{load}</p>{picture}<pre>{lines}</pre></body></html>\n'
    ).format(
        refresh=refresh,
        state=outcome or "under way",
        title=title,
        style=_STYLE,
        link=link,
        share=share,
        load=load,
        picture=_picture(rates),
        lines=lines,
    )


def _picture(rates: Sequence[tuple[float, float]]) -> Markup:
    """Acknowledged sends per second over the time of the load."""
    if len(rates) < 2:
        return Markup("")
    last, most = rates[-1][0], max(rate for _, rate in rates) or 1.0
    points = [(WIDTH * at / last, HEIGHT - (HEIGHT - 4) * rate / most) for at, rate in rates]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="acknowledged sends a second"><path d="M{}"/></svg>'
        '<p class="soft">acknowledged sends a second, up to {:.0f}</p>'
    ).format(WIDTH, HEIGHT, line, most)
