"""The report: one file that opens offline and answers, in order, what a person asks."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.manifest import HostFacts
from squall.results.history.segments import ClusterObservation, FaultWindow
from squall.results.report.render import plain, verdict_lines
from squall.results.synthetic.forge import INJECTIONS, MILLISECOND, ORIGIN, forge_run, healthy

FAULTS = (
    FaultWindow(
        id="f1",
        fault="isolate",
        targets=("b2",),
        summary="b2 (leader of events/0)",
        injected=ORIGIN + 50 * MILLISECOND,
        healed=ORIGIN + 250 * MILLISECOND,
        took=True,
        undone=True,
        before="hears 5 of 5 peers",
        during="deaf to 5 of 5 <peers>",
        after="hears 5 of 5 peers",
    ),
)
CLUSTER = (
    ClusterObservation(time=ORIGIN, kind="controller", node="c1", epoch=1),
    ClusterObservation(time=ORIGIN, kind="leader", node="b2", topic="events", partition=0, epoch=5),
    ClusterObservation(time=ORIGIN + 90 * MILLISECOND, kind="leader", node="b3", topic="events", partition=0, epoch=6),
)


def report_of(tmp_path: Path, injection: str | None = None, **facts: object) -> str:
    operations = healthy(4, 400)
    if injection is not None:
        operations = INJECTIONS[injection][1](operations, random.Random(4))
    run = forge_run(
        tmp_path,
        operations + healthy(4, 400, 1),
        faults=FAULTS,
        cluster=CLUSTER,
        hosts=(HostFacts(name="b2", address="10.0.0.12", roles=("broker",)),),
        **facts,  # type: ignore[arg-type]
    )
    check_run(run, InProcess())
    return (run / "report.html").read_text()


class Outline(HTMLParser):
    """Headings in order, unclosed elements, and everything that would be loaded from elsewhere."""

    VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.open: list[str] = []
        self.loads: list[str] = []
        self.svg = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.svg += tag == "svg"
        for name, value in attributes:
            if name in ("src", "href", "xlink:href") and value and not value.startswith("#"):
                self.loads.append(value)
        if tag in ("script", "link", "img", "iframe"):
            self.loads.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data.strip())


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    assert parser.open == []
    return parser


def test_it_answers_in_the_order_in_which_a_person_asks(tmp_path: Path) -> None:
    found = outline(report_of(tmp_path, "lost"))
    sections = ["Timeline", "Witnesses", "Faults", "Topic-partitions", "Nodes", "Reproduce"]
    assert [one for one in found.headings if one in sections] == sections
    assert found.headings[0] == "1 anomaly: lost_write (1)"


def test_it_loads_nothing_from_anywhere(tmp_path: Path) -> None:
    page = report_of(tmp_path, "lost")
    assert outline(page).loads == []
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_a_healthy_run_says_so_and_has_no_witnesses(tmp_path: Path) -> None:
    page = report_of(tmp_path)
    assert "✔ VALID" in page
    assert 'id="witnesses"' not in page
    assert "✔ linearizable appends" in page


def test_every_witness_has_a_picture_its_operations_and_the_rows_around(tmp_path: Path) -> None:
    page = report_of(tmp_path, "lost")
    witnesses = page[page.index('id="witnesses"') : page.index('id="faults"')]
    assert witnesses.count('class="diagram"') == witnesses.count('<article class="witness">') == 1
    assert "goes from offset" in witnesses
    assert re.search(r'<tr class="here"><td class="number">▸ \d', witnesses)
    assert "squall show RUN events-0@" in witnesses


def test_the_timeline_has_every_panel_and_names_the_faults(tmp_path: Path) -> None:
    page = report_of(tmp_path)
    picture = page[page.index('class="timeline"') : page.index("</svg>")]
    for text in ("faults", "isolate b2", "throughput", "latency of acknowledged sends", "by kind", "leaders; hatched"):
        assert text in picture, text
    assert picture.count("events-0") == 1


def test_faults_stand_with_their_evidence_and_text_is_escaped(tmp_path: Path) -> None:
    page = report_of(tmp_path)
    faults = page[page.index('id="faults"') : page.index('id="partitions"')]
    assert "✔ took hold" in faults and "✔ undone" in faults
    assert "before: hears 5 of 5 peers" in faults
    assert "deaf to 5 of 5 &lt;peers&gt;" in faults


def test_it_says_how_to_do_it_again(tmp_path: Path) -> None:
    page = report_of(tmp_path, command="squall run suites/x.yaml --seed 4711", versions={"squall": "0.1.0"})
    assert "<pre>squall run suites/x.yaml --seed 4711</pre>" in page
    assert "10.0.0.12" in page


def test_reasons_of_an_unknown_run_stand_at_the_top(tmp_path: Path) -> None:
    page = report_of(tmp_path, trouble=("b3 went away",))
    assert "? UNKNOWN" in page
    assert "<li>b3 went away</li>" in page[: page.index('id="timeline"')]


def test_the_same_run_gives_the_same_report(tmp_path: Path) -> None:
    pages = [report_of(tmp_path / str(number), "lost") for number in range(2)]
    timeless = [re.sub(r"in [\d.]+ s", "", page) for page in pages]
    assert timeless[0] == timeless[1]


@pytest.mark.parametrize("name", INJECTIONS)
def test_every_anomaly_can_be_told_drawn_and_printed(tmp_path: Path, name: str) -> None:
    anomaly, inject = INJECTIONS[name]
    run = forge_run(tmp_path, inject(healthy(6), random.Random(6)), faults=FAULTS, cluster=CLUSTER)
    verdict = check_run(run, InProcess())
    page = (run / "report.html").read_text()
    assert f"<code>{anomaly}</code>" in page
    text = plain(verdict_lines(verdict))
    assert f"{anomaly} (" in text
    assert "None" not in text
    for witness in verdict.witnesses:
        assert witness.lines and witness.title.endswith(".")
        assert witness.facts.operations
