"""The report: one file that opens offline and answers, in order, what a person asks."""

from __future__ import annotations

import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.host_samples import HOST_SAMPLES_FILE, SAMPLES, HostSample, samples_writer
from squall.results.history.manifest import HostFacts
from squall.results.history.segments import ClusterObservation, FaultWindow
from squall.results.report.render import plain, verdict_lines
from squall.results.report.report import OPEN_WITNESSES
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
            if tag != "a" and name in ("src", "href", "xlink:href") and value and not value.startswith("#"):
                self.loads.append(value)
        if tag in ("link", "img", "iframe"):
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
    assert not re.search(r"url\((?!#)|fetch\(|XMLHttpRequest", page)


def test_a_healthy_run_says_so_and_has_no_witnesses(tmp_path: Path) -> None:
    page = report_of(tmp_path)
    assert "✔ VALID" in page
    assert 'id="witnesses"' not in page
    assert "✔ linearizable appends" in page


def test_every_witness_has_a_picture_its_operations_and_the_rows_around(tmp_path: Path) -> None:
    page = report_of(tmp_path, "lost")
    witnesses = page[page.index('id="witnesses"') : page.index('id="faults"')]
    assert witnesses.count('class="diagram"') == witnesses.count('<article class="witness" ') == 1
    assert "goes from offset" in witnesses
    assert re.search(r'<tr class="here"><td class="number">▸ \d', witnesses)
    assert "squall show RUN events-0@" in witnesses


def test_the_timeline_has_every_panel_and_names_the_faults(tmp_path: Path) -> None:
    page = report_of(tmp_path)
    timeline = page[page.index('id="timeline"') : page.index('id="faults"')]
    pictures = re.sub(r"<script.*?</script>", "", timeline, flags=re.DOTALL)
    titles = ("Faults", "Throughput", "Latency of acknowledged sends", "Heat map", "Leaders; hatched")
    assert [one for one in titles if f"<figcaption>{one}" in pictures] == list(titles)
    assert pictures.count('class="chart-still"') == pictures.count("<figure") >= len(titles)
    assert "isolate b2" in pictures and ">events-0</text>" in pictures


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


def data_of(page: str, chart: str) -> dict[str, Any]:
    found = re.search(rf'id="chart-{chart}".*?<script type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None, chart
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_charts_have_the_faults_as_bands_and_witnesses_as_marks(tmp_path: Path) -> None:
    page = report_of(tmp_path, "lost")
    for chart in ("throughput", "latency", "heat-map", "leaders"):
        data = data_of(page, chart)
        assert data["bands"] == [[0.05, 0.25, "isolate b2", "fault"]]
        ((_, label, href, kind),) = data["marks"]
        assert (href, kind) == ("#witness-1", "anomaly") and label.startswith("lost_write: events-0")
    assert 'id="witness-1"' in page
    assert data_of(page, "leaders")["rows"] == ["controller", "events-0", "events-1"]


def test_further_witnesses_are_folded_and_stay_in_the_page(tmp_path: Path) -> None:
    operations = healthy(4, 400)
    for number in range(6):
        operations += INJECTIONS["lost"][1](healthy(4, 100, number + 1), random.Random(number))
    run = forge_run(tmp_path, operations)
    verdict = check_run(run, InProcess())
    page = (run / "report.html").read_text()
    assert len(verdict.witnesses) > OPEN_WITNESSES
    assert page.count('<article class="witness" ') == len(verdict.witnesses)
    assert page.count('<details class="folded">') == len(verdict.witnesses) - OPEN_WITNESSES


def test_the_effect_of_a_fault_is_unknown_rather_than_none_if_nothing_is_calm(tmp_path: Path) -> None:
    always = replace(FAULTS[0], injected=ORIGIN, healed=ORIGIN + 3600 * 1000 * MILLISECOND)
    run = forge_run(tmp_path, healthy(4, 400), faults=(always,))
    check_run(run, InProcess())
    assert "? unknown: there is too little time without faults" in (run / "report.html").read_text()


def test_logs_and_tables_that_exist_are_linked_with_their_names_quoted(tmp_path: Path) -> None:
    (tmp_path / "nodes" / "b 1").mkdir(parents=True)
    (tmp_path / "nodes" / "b 1" / "node.log").write_text("")
    page = report_of(tmp_path, "lost")
    assert '<a href="nodes/b%201/node.log">nodes/b 1/node.log</a>' in page
    assert '<a href="tables/latency.parquet">' in page
    assert "timeline.txt" not in page


def test_the_commit_and_the_time_of_day_are_stated(tmp_path: Path) -> None:
    page = report_of(
        tmp_path,
        load_began="2026-11-24T14:03:11.000+00:00",
        versions={"commit": "8bf7102f01a34", "dirty": "yes"},
    )
    assert "commit 8bf7102f01, with changes that were not committed" in page
    assert "2026-11-24 14:03:11 to 14:03:1" in page
    assert data_of(page, "throughput")["x"]["origin"] == 1795528991.0


def samples(run: Path, *, hosts: int = 2, seconds: int = 1, shared: bool = True) -> None:
    writer = samples_writer(run)
    for second in range(seconds):
        for host in range(hosts):
            values = {
                "process_cpu": 0.5 + 0.001 * second,
                "network_sent": 1e6 + second,
                "kafka_server_leader_count": 3.0,
            }
            writer.write(HostSample(time=ORIGIN + second * 10**9, host=f"b{host + 1}", values=values, shared=shared))
    writer.close()


def test_hosts_are_drawn_from_their_samples_and_it_says_what_they_share(tmp_path: Path) -> None:
    samples(tmp_path)
    page = report_of(tmp_path, options={SAMPLES: "4 samples of 2 hosts; without an answer: b3 (2), last <b>"})
    assert [one["name"] for one in data_of(page, "process_cpu")["series"]] == ["b1", "b2"]
    assert "share the processors" in page
    assert "without an answer: b3 (2), last &lt;b&gt;" in page


def test_a_run_without_samples_or_with_damaged_ones_has_a_report(tmp_path: Path) -> None:
    assert "no samples of hosts were recorded" in report_of(tmp_path / "old").lower()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / HOST_SAMPLES_FILE).write_text('{"time": 1}\n')
    page = report_of(tmp_path / "damaged")
    assert "✔ VALID" in page and "samples of hosts cannot be read" in page


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
