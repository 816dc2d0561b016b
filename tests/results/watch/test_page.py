"""The page to watch: well-formed, offline, escaped, bounded; and it works in a browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from squall.results.watch.model import Fault, Message, Operation, Step, Watched
from squall.results.watch.page import MOST_BYTES, columns_of, page_of
from tests.browser import browser, needs_browser, open_page
from tests.waiting import wait_until

HOSTILE = "</script><img src=x onerror=alert(1)>&amp;\u2028'\""
WATCHED = Watched(
    title=f"title {HOSTILE}",
    log=f"{HOSTILE}-0",
    lanes=("clients", "b1", HOSTILE),
    begins=0,
    ends=2_000_000,
    steps=(
        Step(100, "b1", "leader", f"leads {HOSTILE}", (0, 0, 0)),
        Step(200, "b1", "append", "appends offset 0", (0, 0, 0)),
        Step(201, HOSTILE, "append", "appends offset 0", (0, 0, 0)),
        Step(300, "b1", "high_watermark", "high watermark 1 of 1", (1, 1, 0)),
        Step(900_000, "b1", "death", "dies"),
        Step(1_900_000, HOSTILE, "truncate", "truncates", (0, 1, 0)),
        Step(1_900_000, HOSTILE, "leader", "leads", (1, 0, 0)),
    ),
    operations=(Operation(150, 310, 0, f"process 0: send {HOSTILE}", "ok", 0, "0·0"),),
    messages=(
        Message(190, 200, "clients", "b1", f"Produce{HOSTILE}", HOSTILE),
        Message(195, None, "b1", HOSTILE, "Fetch", "from 0", lost=True),
    ),
    faults=(Fault(890_000, None, HOSTILE, ("b1",), HOSTILE),),
    broken=f"ELECT: {HOSTILE}",
    facts=(("run", HOSTILE),),
    notes=(HOSTILE,),
)  # fmt: skip


class Elements(HTMLParser):
    """The elements of a page, with attributes, and which are open at its end."""

    VOID = {"meta", "input", "br", "img", "link"}

    def __init__(self, page: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert isinstance(data, dict)
    return data


def test_hostile_names_are_data_and_never_markup() -> None:
    page = page_of(WATCHED)
    elements = Elements(page)
    assert elements.open == []
    assert not [tag for tag, _ in elements.all if tag == "img"]
    assert page.count("</script>") == 2 and "onerror=alert(1)>" not in page
    assert data_of(page)["lanes"] == ["clients", "b1", HOSTILE]


def test_the_page_loads_nothing() -> None:
    page = page_of(WATCHED)
    for tag, attributes in Elements(page).all:
        assert "src" not in attributes and "href" not in attributes, tag
    assert "default-src 'none'" in page
    assert "url(http" not in page and "fetch(" not in page and "import(" not in page


def test_data_is_in_columns_with_each_text_once() -> None:
    data = columns_of(WATCHED)
    assert len(data["texts"]) == len(set(data["texts"]))
    assert data["steps"][0][:2] == [100, 1] and data["steps"][0][4:] == [0, 0, 0]
    assert data["messages"][1][1] is None and data["messages"][1][-1] == 1
    assert columns_of(replace(WATCHED, messages=None))["messages"] is None


def test_a_page_of_a_long_run_stays_below_its_bound() -> None:
    many = tuple(Step(at, "b1", "append", f"appends offset {at} {'x' * 200}", (at, at, 0)) for at in range(40_000))
    page = page_of(replace(WATCHED, steps=many, ends=40_000))
    assert len(page.encode()) <= MOST_BYTES
    assert "because a page of the whole run would be too large" in page
    assert data_of(page)["states"], "what the log held before is kept"


def shown_by_a_browser(page: str, directory: Path, position: str = "") -> str:
    """The page's elements after its script has run, without the texts of its scripts."""
    (directory / "page.html").write_text(page)
    with browser() as one:
        open_page(one, directory / "page.html", position)
        wait_until(lambda: 'data-ready="yes"' in one.page_source, "the page's script has run")
        return re.sub(r"<script.*?</script>", "", one.page_source, flags=re.DOTALL)


@needs_browser
@pytest.mark.xdist_group("browser")
def test_a_browser_says_which_record_is_lost_and_runs_no_markup(tmp_path: Path) -> None:
    shown = shown_by_a_browser(page_of(WATCHED), tmp_path)
    assert 'data-ready="yes"' in shown
    assert "Lost: offset 0 (0·0) was acknowledged at 0.0003 s and is not at the leader" in shown
    assert "<img" not in shown
    assert "first acknowledged record missing" in shown


@needs_browser
@pytest.mark.xdist_group("browser")
def test_an_address_opens_the_page_at_its_instant_with_messages(tmp_path: Path) -> None:
    shown = shown_by_a_browser(page_of(WATCHED), tmp_path, "#t=0.0003&messages")
    assert "b1 leads epoch 0" in shown and "✕ Lost" not in shown
    assert shown.count('class="message') == 2
    without = shown_by_a_browser(page_of(replace(WATCHED, messages=None)), tmp_path, "#t=0.0003&messages")
    assert 'class="message' not in without and 'id="messages"' not in without
