"""Draw the timeline of a run: one picture, time from left to right, every panel at the same scale.

From the top: the faults by name; throughput; latency quantiles from the intended start; errors by kind; and a band per
topic-partition, coloured by the broker that led it, hatched where no send was acknowledged. Fault windows are shaded
through all panels. Colours are Okabe and Ito's, which people who cannot distinguish red from green can distinguish; no
fact is shown by colour alone.

The picture is SVG with text as text: it is small, searchable, sharp in print, and the same for the same run.
"""

from __future__ import annotations

import io
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from squall.results.checkers.kernels.series import Frame
from squall.results.history.segments import ClusterObservation, FaultWindow
from squall.results.report.tables import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, YELLOW, GREY = "#CC79A7", "#56B4E9", "#F0E442", "#6B7280"
NODE_COLOURS: Final = ("#A6CEE8", "#F6D58E", "#9AD9C2", "#E7BCD3", "#C9CDD4", "#F5B895", "#D9D2F0", "#CFE8A9")
SHADE: Final = "#D55E00"
MOST_ERRORS: Final = 5
MOST_BANDS: Final = 40
MOST_BARS: Final = 240
BAND_INCHES: Final = 0.17

STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "squall",
    "font.family": "sans-serif",
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9CA3AF",
    "axes.labelcolor": "#374151",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": "#374151",
    "ytick.color": "#374151",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "hatch.linewidth": 0.8,
}

Where = tuple[str, int]


def timeline(
    series: Series,
    topic_partitions: Sequence[Where],
    faults: Sequence[FaultWindow],
    cluster: Sequence[ClusterObservation],
    frame: Frame,
) -> str:
    """Draw the picture as an `<svg>` element."""
    import matplotlib

    matplotlib.use("Agg", force=False)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    shown = list(topic_partitions)[:MOST_BANDS]
    end = last_second(series, faults, frame)
    windows = [_Window.of(one, frame, end) for one in faults if one.injected is not None]
    lanes = _lanes(windows, end)
    with rc_context(STYLE):
        errors = 1.0 if series["errors"].num_rows else 0.25
        heights = [0.22 * max(1, lanes) + 0.12, 1.35, 1.55, errors, BAND_INCHES * (len(shown) + 1) + 0.1]
        figure = Figure(figsize=(11.4, sum(heights) + 0.36 * len(heights) + 0.5))
        axes = figure.subplots(5, 1, sharex=True, gridspec_kw={"height_ratios": heights})
        _draw_faults(axes[0], windows, lanes, end)
        _draw_throughput(axes[1], series, frame)
        _draw_latency(axes[2], series)
        _draw_errors(axes[3], series, frame)
        _draw_bands(axes[4], series, shown, cluster, frame, end)
        for panel in axes:
            panel.set_xlim(0, end)
            panel.tick_params(length=3)
            for window in windows:
                panel.axvspan(window.start, window.end, color=SHADE, alpha=0.09, linewidth=0, zorder=0)
                for edge in (window.start, window.end):
                    panel.axvline(edge, color=SHADE, alpha=0.35, linewidth=0.6, linestyle=(0, (3, 3)), zorder=0)
        axes[-1].set_xlabel("seconds since the load began")
        figure.subplots_adjust(
            left=0.085,
            right=0.985,
            top=1 - 0.22 / figure.get_figheight(),
            bottom=0.45 / figure.get_figheight(),
            hspace=0.38,
        )
        return _svg(figure)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    label = 'role="img" aria-label="timeline of the run" class="timeline"'
    return re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" xmlns="http://www.w3.org/2000/svg" '
                  rf'xmlns:xlink="http://www.w3.org/1999/xlink" {label}>', text, count=1)  # fmt: skip


def last_second(series: Series, faults: Sequence[FaultWindow], frame: Frame) -> float:
    buckets = series["throughput"]["second"].to_pylist()
    ends = [second + frame.width / 1e9 for second in buckets]
    ends += [(one.healed - frame.start) / 1e9 for one in faults if one.healed is not None]
    return max([*ends, frame.width / 1e9])


class _Window:
    """A fault window in seconds; one that was never healed lasts to the end."""

    def __init__(self, name: str, start: float, end: float, proven: bool) -> None:
        self.name, self.start, self.end, self.proven = name, start, end, proven
        self.lane = 0

    @classmethod
    def of(cls, fault: FaultWindow, frame: Frame, end: float) -> _Window:
        assert fault.injected is not None
        healed = end if fault.healed is None else (fault.healed - frame.start) / 1e9
        return cls(fault.name, (fault.injected - frame.start) / 1e9, healed, bool(fault.took))


def _lanes(windows: list[_Window], end: float) -> int:
    """Put the windows into lanes so that neither bars nor names overlap; return the number of lanes."""
    free: list[float] = []
    for window in sorted(windows, key=lambda one: one.start):
        needed = max(window.end, window.start + 0.0066 * end * (len(window.name) + 2)) + 0.004 * end
        for lane, since in enumerate(free):
            if since <= window.start:
                window.lane, free[lane] = lane, needed
                break
        else:
            window.lane = len(free)
            free.append(needed)
    return len(free)


def _draw_faults(panel: Axes, windows: Sequence[_Window], lanes: int, end: float) -> None:
    panel.set_title("faults", pad=3)
    panel.set_yticks([])
    panel.set_ylim(max(1, lanes) - 0.4, -0.6)
    panel.spines["left"].set_visible(False)
    panel.spines["bottom"].set_visible(False)
    panel.tick_params(bottom=False)
    if not windows:
        panel.text(0.005, 0.5, "none", transform=panel.transAxes, color=GREY, va="center")
    for one in windows:
        length = max(one.end - one.start, 0.001)
        face = SHADE if one.proven else "white"
        panel.barh(one.lane, length, left=one.start, height=0.72, color=face, alpha=0.3, edgecolor="none")
        panel.barh(one.lane, length, left=one.start, height=0.72, color="none", edgecolor=SHADE, linewidth=0.9)
        said = one.name if one.proven else f"{one.name} (no evidence)"
        place = one.start + 0.004 * end
        panel.text(place, one.lane + 0.03, said, va="center", ha="left", fontsize=8, color="#7C2D12")


def _draw_throughput(panel: Axes, series: Series, frame: Frame) -> None:
    width = frame.width / 1e9
    rows = series["throughput"].to_pylist()
    for f, kind, name, colour, style in (
        ("send", "ok", "sends acknowledged", BLUE, "-"),
        ("poll", "ok", "polls", GREEN, "--"),
    ):
        per_second: defaultdict[float, float] = defaultdict(float)
        for row in rows:
            if row["f"] == f and row["type"] == kind:
                per_second[row["second"]] += row["operations"] / width
        times, values = _filled(per_second, width)
        panel.step(times, values, where="post", color=colour, linestyle=style, linewidth=1.4, label=name)
        if f == "send":
            panel.fill_between(times, values, step="post", color=colour, alpha=0.12, linewidth=0)
    panel.set_ylim(bottom=0)
    panel.set_title("throughput, operations per second", pad=3)
    _legend(panel, 2)


def _filled(per_bucket: dict[float, float], width: float) -> tuple[list[float], list[float]]:
    """Add buckets without a row as zeros, so that the plot shows them."""
    if not per_bucket:
        return [0.0], [0.0]
    first, last = min(per_bucket), max(per_bucket)
    count = round((last - first) / width) + 1
    by_number = {round((second - first) / width): value for second, value in per_bucket.items()}
    times = [first + number * width for number in range(count + 1)]
    return times, [by_number.get(number, 0.0) for number in range(count)] + [by_number.get(count - 1, 0.0)]


def _draw_latency(panel: Axes, series: Series) -> None:
    table = series["latency"].to_pydict()
    panel.set_title("latency of acknowledged sends, by when they were meant to start", pad=3)
    panel.set_yscale("log")
    for name, label, colour, style in (
        ("p50", "median", SKY, "-"),
        ("p99", "p99", BLUE, "--"),
        ("p999", "p99.9", ORANGE, "-."),
        ("max", "max", RED, ":"),
    ):
        panel.plot(table["second"], table[name], color=colour, linestyle=style, linewidth=1.4, label=label)
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panel.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=10))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _seconds(value)))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.grid(axis="y", color="#E5E7EB", linewidth=0.6)
    panel.set_axisbelow(True)
    if table["second"]:
        panel.set_ylim(10 ** math.floor(math.log10(min(table["p50"]))), 1.5 * max(table["max"]))
        _legend(panel, 4)


def _seconds(value: float) -> str:
    if value >= 1:
        return f"{value:g} s"
    return f"{value * 1e3:g} ms" if value >= 1e-3 else f"{value * 1e6:g} µs"


def _draw_errors(panel: Axes, series: Series, frame: Frame) -> None:
    totals: defaultdict[str, int] = defaultdict(int)
    rows = series["errors"].to_pylist()
    narrow = frame.width / 1e9
    width = narrow * max(1, math.ceil(max((row["second"] for row in rows), default=0) / narrow / MOST_BARS))
    for row in rows:
        totals[row["error"]] += row["operations"]
    ranked = sorted(totals, key=lambda error: (-totals[error], error))
    named = ranked[: MOST_ERRORS - 1] if len(ranked) > MOST_ERRORS else ranked
    palette = (ORANGE, BLUE, PURPLE, GREEN, GREY)
    hatches = ("", "////", "....", "\\\\\\\\", "xxxx")
    below: defaultdict[float, int] = defaultdict(int)
    for number, error in enumerate([*named, *(["others"] if len(named) < len(ranked) else [])]):
        counts: defaultdict[float, int] = defaultdict(int)
        for row in rows:
            if row["error"] == error or (error == "others" and row["error"] not in named):
                counts[math.floor(row["second"] / width + 1e-9) * width] += row["operations"]
        seconds = sorted(counts)
        panel.bar(
            seconds,
            [counts[second] for second in seconds],
            width,
            [below[second] for second in seconds],
            align="edge",
            color=palette[number % len(palette)],
            hatch=hatches[number % len(hatches)],
            edgecolor="white",
            linewidth=0.3,
            label=error.replace("_", " ")[:40],
        )
        for second in seconds:
            below[second] += counts[second]
    panel.set_title("operations that ended with an error, by kind", pad=3)
    if rows:
        _legend(panel, MOST_ERRORS)
    else:
        panel.set_yticks([])
        panel.text(0.005, 0.5, "none", transform=panel.transAxes, color=GREY, va="center")


def _draw_bands(
    panel: Axes,
    series: Series,
    shown: Sequence[Where],
    cluster: Sequence[ClusterObservation],
    frame: Frame,
    end: float,
) -> None:
    """Draw a band per topic-partition and one for the active controller."""
    panel.set_title("leaders; hatched: no send was acknowledged; ▾ ISR changed", pad=3)
    nodes = sorted({one.node for one in cluster if one.node and one.kind in ("leader", "controller")})
    colours = {node: NODE_COLOURS[place % len(NODE_COLOURS)] for place, node in enumerate(nodes)}
    rows: list[tuple[str, list[tuple[float, float, str | None]]]] = [
        ("controller", _reigns([one for one in cluster if one.kind == "controller"], frame, end))
    ]
    for where in shown:
        seen = [one for one in cluster if one.kind == "leader" and (one.topic, one.partition) == where]
        rows.append((f"{where[0]}-{where[1]}", _reigns(seen, frame, end)))
    for row, (_, reigns) in enumerate(rows):
        _draw_reigns(panel, row, reigns, colours, end)
    places = {where: row for row, where in enumerate(shown, 1)}
    for outage in series["outages"].to_pylist():
        row = places.get((outage["topic"], outage["partition"]), -1)
        if row > 0:
            box = {"left": outage["start"], "height": 0.78, "color": "none", "edgecolor": "#111827"}
            panel.barh(row, outage["end"] - outage["start"], hatch="//////", linewidth=0.7, **box)
    for one in cluster:
        row = places.get((one.topic or "", one.partition if one.partition is not None else -1), -1)
        second = (one.time - frame.start) / 1e9
        if one.kind == "in_sync" and row > 0 and second > 0.5:
            panel.plot([second], [row - 0.36], marker=7, markersize=3.2, color="#111827", linewidth=0)
    panel.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=7.5)
    panel.set_ylim(len(rows) - 0.4, -0.6)
    panel.spines["left"].set_visible(False)


def _reigns(seen: Sequence[ClusterObservation], frame: Frame, end: float) -> list[tuple[float, float, str | None]]:
    """Return (from, to, node) of each leader, from when it was first observed."""
    found: list[tuple[float, float, str | None]] = []
    for number, one in enumerate(seen):
        start = max(0.0, (one.time - frame.start) / 1e9)
        until = (seen[number + 1].time - frame.start) / 1e9 if number + 1 < len(seen) else end
        if until > start:
            found.append((start, until, one.node))
    return found or [(0.0, end, None)]


def _draw_reigns(
    panel: Axes, row: int, reigns: Sequence[tuple[float, float, str | None]], colours: dict[str, str], end: float
) -> None:
    for number, (start, until, node) in enumerate(reigns):
        colour = colours.get(node, "#F3F4F6") if node else "#F3F4F6"
        panel.barh(row, until - start, left=start, height=0.78, color=colour, edgecolor="none")
        if number:
            panel.plot([start, start], [row - 0.46, row + 0.46], color="#111827", linewidth=1.3)
        if node and until - start > 0.018 * end:
            box = {"facecolor": colour, "edgecolor": "none", "pad": 0.6}
            place = start + 0.004 * end
            panel.text(place, row + 0.04, node, va="center", fontsize=6.8, color="#374151", bbox=box, zorder=5)


def _legend(panel: Axes, columns: int) -> None:
    panel.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=columns, borderaxespad=0, handlelength=2.2)
