"""Make the page: one HTML file with its data, its style and its script, which loads nothing.

The data is one JSON text in columns: texts are numbered and written once. Whatever comes from the run is either in that
JSON, whose characters that could end the script element are escaped, or set by the template engine, which escapes it.
The script sets texts only as texts.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from squall.results.watch.model import Watched, last_part_of

TEMPLATES: Final = Path(__file__).with_name("templates")
MOST_ENTRIES: Final = 30_000
"""Steps, operations and messages of one page; it stays below `MOST_BYTES` with them."""
MOST_BYTES: Final = 5_000_000


def page_of(watched: Watched) -> str:
    """Return the page. If the run is too large for one, the page has its last part and says so."""
    entries = MOST_ENTRIES
    while True:
        page = _page(last_part_of(watched, entries))
        if len(page.encode()) <= MOST_BYTES or entries < 100:
            return page
        entries //= 2


def _page(watched: Watched) -> str:
    return _template().render(
        watched=watched,
        style=Markup((TEMPLATES / "watch.css").read_text(encoding="utf-8")),
        script=Markup((TEMPLATES / "watch.js").read_text(encoding="utf-8")),
        data=Markup(_for_script(columns_of(watched))),
        span=f"{watched.begins / 1e6:.3f} s to {watched.ends / 1e6:.3f} s",
    )


def _for_script(data: dict[str, Any]) -> str:
    """Return JSON that cannot end the script element which holds it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


class _Texts:
    """Texts by number; each is kept once."""

    def __init__(self) -> None:
        self.kept: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.kept.setdefault(text, len(self.kept))


def columns_of(watched: Watched) -> dict[str, Any]:
    """Return the data of a page, as `watch.js` reads it."""
    texts = _Texts()
    lane = {name: number for number, name in enumerate(watched.lanes)}
    messages = None
    if watched.messages is not None:
        messages = [
            [
                one.at, one.arrived, lane[one.source], lane[one.target], texts.number(one.api), texts.number(one.text),
                int(one.is_answer), int(one.lost),
            ]
            for one in watched.messages
            if one.source in lane and one.target in lane
        ]  # fmt: skip
    return {
        "lanes": watched.lanes,
        "log": watched.log,
        "begins": watched.begins,
        "ends": watched.ends,
        "broken": watched.broken,
        "complete": watched.complete,
        "breachLane": lane.get(watched.breach_lane, -1),
        "steps": [
            [one.at, lane[one.lane], texts.number(one.kind), texts.number(one.text), *one.numbers]
            for one in watched.steps
            if one.lane in lane
        ],
        "operations": [
            [one.begin, one.end, one.process, texts.number(one.text), texts.number(one.outcome), one.offset,
             texts.number(one.value)]
            for one in watched.operations
        ],
        "acknowledged": [[one.end, one.offset, texts.number(one.value)] for one in watched.acknowledged],
        "messages": messages,
        "faults": [
            [one.begin, one.end, texts.number(one.kind), [lane[host] for host in one.hosts if host in lane],
             texts.number(one.text)]
            for one in watched.faults
        ],
        "states": {
            str(lane[name]): [int(state.up), state.role, state.epoch, state.high_watermark, state.runs]
            for name, state in watched.states.items()
            if name in lane
        },
        "texts": list(texts.kept),
    }  # fmt: skip


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("watch.html")
