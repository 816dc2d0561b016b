"""What a chart shows: axes, series, fault bands, marks, rows of spans, a heat map. Values only; nothing is drawn here.

Positions on an axis of kind `time` are seconds since the load began, on one of kind `date` seconds since 1970 (UTC), on
one of kind `category` names, in the order in which they first appear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

AxisKind = Literal["number", "time", "date", "category"]
SeriesKind = Literal["line", "points", "step", "bars", "area", "whisker"]
Position = float | str

LINKED_SCHEMES: Final = ("", "http", "https")
"""Charts link within the page, to files beside it and to web pages; never to `javascript:` and the like."""


@dataclass(frozen=True)
class Axis:
    """A scale, its label, and how its values are written.

    The units `s` (durations), `B` and `B/s` (bytes) and `%` are written with fitting prefixes; any other unit follows
    its number. With `origin`, the seconds since 1970 at position 0, an axis of kind `time` shows the time of day as
    well. `start` and `end` fix its extent, so that charts one below the other agree.
    """

    label: str
    kind: AxisKind = "number"
    unit: str = ""
    log: bool = False
    zero: bool = True
    """Whether a linear axis begins at zero."""
    origin: float | None = None
    start: float | None = None
    end: float | None = None


@dataclass(frozen=True)
class Series:
    """Values by position. `low` and `high` are the ends of whiskers, or the edges of an area around its line."""

    name: str
    x: Sequence[Position]
    y: Sequence[float | None]
    kind: SeriesKind = "line"
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    labels: Sequence[str] = ()
    """What a point is, for its reader: a run, a commit."""
    hrefs: Sequence[str] = ()
    """Where a click on a point leads; empty: nowhere."""

    def __post_init__(self) -> None:
        for name in ("y", "low", "high", "labels", "hrefs"):
            values = getattr(self, name)
            if len(values) != len(self.x) and (values or name == "y"):
                raise ValueError(f"series {self.name!r}: {len(self.x)} positions, but {len(values)} of {name!r}")
        for href in self.hrefs:
            _check_link(href)


@dataclass(frozen=True)
class Band:
    """A stretch of the x axis that is shaded and named: a fault (`fault`), one without evidence (`doubtful`)."""

    start: float
    end: float
    label: str
    kind: str = "fault"


@dataclass(frozen=True)
class Mark:
    """An instant on the x axis with a link: an anomaly (`anomaly`), a change point (`change`), an event (`event`)."""

    x: Position
    label: str
    href: str = ""
    kind: str = "event"

    def __post_init__(self) -> None:
        _check_link(self.href)


@dataclass(frozen=True)
class Span:
    """A stretch of a row: who led a topic-partition (coloured by `label`), or what it lacked (`outage`, hatched)."""

    row: str
    start: float
    end: float
    label: str
    kind: str = ""


@dataclass(frozen=True)
class Heat:
    """Counts by position and value: column `c` begins at `start + c * step`, row `r` lies between two `edges`."""

    start: float
    step: float
    edges: Sequence[float]
    columns: Sequence[int]
    rows: Sequence[int]
    counts: Sequence[int]
    counted: str = "operations"


@dataclass(frozen=True)
class Chart:
    """One picture. `rows` and `spans`, or `heat`, take the place of series."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...] = ()
    bands: tuple[Band, ...] = ()
    marks: tuple[Mark, ...] = ()
    rows: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    heat: Heat | None = None
    stacked: bool = False
    """Whether bars at one position stand on each other, rather than beside each other."""
    step: float | None = None
    """How wide the place of a bar is; the least distance of two positions unless given."""
    height: int = 200
    """The plot's height in pixels; rows set their own."""

    def __post_init__(self) -> None:
        for span in self.spans:
            if span.row not in self.rows:
                raise ValueError(f"chart {self.title!r}: a span of the row {span.row!r}, which is not one of its rows")

    @property
    def categories(self) -> tuple[str, ...]:
        """The names on an x axis of kind `category`."""
        return tuple(dict.fromkeys(str(x) for one in self.series for x in one.x)) if self.x.kind == "category" else ()


def _check_link(href: str) -> None:
    try:
        scheme = urlsplit(href).scheme
    except ValueError:
        scheme = "unreadable"
    if scheme not in LINKED_SCHEMES:
        raise ValueError(f"a link of a chart leads to {href!r}; expected an anchor, a relative path, or http(s)")
