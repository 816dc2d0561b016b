"""The report of half an hour under faults: small enough, quick to open, smooth to scroll, whole on paper."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from selenium.webdriver import Chrome

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.checkers.kernels.series import Frame
from squall.results.history.host_samples import METRICS, HostSample, samples_writer
from squall.results.history.manifest import HostFacts, Manifest, TopicFacts
from squall.results.history.segments import ClusterObservation, FaultWindow
from squall.results.report.report import write_report
from squall.results.report.tables import Series, bucket_width
from squall.results.synthetic.forge import INJECTIONS, MILLISECOND, ORIGIN, forge_run, healthy
from squall.results.witnesses.witness import Surroundings
from tests.browser import browser, complaints, needs_browser, open_page, prefer, resize

SECOND = 1000 * MILLISECOND
LOAD = 1800
PARTITIONS = 24
HOSTS = [*(f"b{n}" for n in range(1, 6)), *(f"c{n}" for n in range(1, 4)), "control node"]
MOST_BYTES = 5 << 20
KINDS = ("isolate", "kill -9", "pause", "clock", "slow-link", "disk-slow", "net-reset")
FAULTS = tuple(
    FaultWindow(
        id=f"f{number}",
        fault=KINDS[number % len(KINDS)],
        targets=(HOSTS[number % 8],),
        summary=f"{HOSTS[number % 8]} (leader of events/{number % PARTITIONS})",
        injected=ORIGIN + (20 + 20 * number) * SECOND,
        healed=ORIGIN + (32 + 20 * number) * SECOND,
        took=number % 9 != 0,
        undone=True,
        before="hears 7 of 7 peers",
        during="deaf to 7 of 7 peers",
        after="hears 7 of 7 peers",
    )
    for number in range(88)
)


def series() -> Series:
    rng = np.random.default_rng(1)
    seconds = np.arange(LOAD, dtype=float)
    troubled = (seconds % 20 < 5) & (seconds > 20)
    rate = np.where(troubled, 200, 1500) + rng.integers(-40, 40, LOAD)
    tables = {
        "throughput": pa.table(
            {
                "second": np.tile(seconds, 3),
                "f": ["send"] * LOAD + ["poll"] * LOAD + ["send"] * LOAD,
                "type": ["ok"] * 2 * LOAD + ["info"] * LOAD,
                "operations": np.concatenate([rate, rng.integers(100, 150, LOAD), rng.integers(0, 9, LOAD)]),
            }
        )
    }
    base = np.where(troubled, 1.5, 0.02) * rng.uniform(0.8, 1.6, LOAD)
    latency = {"second": seconds, "sends": rate}
    latency |= {name: base * more for name, more in (("p50", 0.3), ("p99", 1.0), ("p999", 1.7), ("max", 2.5))}
    tables["latency"] = pa.table(latency)
    classes = np.clip(rng.normal(np.where(troubled, 1100, 900)[:, None], 90, (LOAD, 150)), 1, 1700).astype(np.int32)
    tables["latency_by_time"] = pa.table(
        {"second": np.repeat(seconds, 150), "latency_class": classes.ravel(), "sends": np.ones(LOAD * 150, np.int64)}
    )
    errors = [f"NOT_LEADER_OR_FOLLOWER_{kind}" for kind in range(8)]
    at = seconds[troubled]
    tables["errors"] = pa.table(
        {
            "second": np.repeat(at, 8),
            "f": ["send"] * 8 * len(at),
            "error": errors * len(at),
            "operations": rng.integers(1, 90, 8 * len(at)),
        }
    )
    starts = np.repeat(20.0 * np.arange(1, 89), 3)
    tables["outages"] = pa.table(
        {
            "topic": ["events"] * len(starts),
            "partition": pa.array(np.arange(len(starts)) % PARTITIONS, pa.int32()),
            "start": starts,
            "end": starts + 4.2,
        }
    )
    return Series(tables)


def cluster() -> tuple[ClusterObservation, ...]:
    return tuple(
        ClusterObservation(
            time=ORIGIN + second * SECOND, kind=kind, topic="events", partition=number % PARTITIONS,
            node=f"b{1 + (number + second) % 5}", epoch=second, nodes=("b1", "b2"),
        )
        for second in range(0, LOAD, 10)
        for number in range(second // 10, second // 10 + 4)
        for kind in ("leader", "in_sync")
    )  # fmt: skip


def sample_hosts(run: Path) -> None:
    rng = np.random.default_rng(2)
    writer = samples_writer(run)
    for second in range(LOAD):
        for host in HOSTS:
            own = [name for name, metric in METRICS.items() if metric.of_machine == (host == "control node")]
            values = dict(zip(own, (1e6 * rng.random(len(own))).tolist(), strict=True))
            writer.write(HostSample(time=ORIGIN + second * SECOND, host=host, values=values, shared=host in HOSTS[:-1]))
    writer.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half an hour of series, faults, samples; and the witnesses of a forged run that holds many anomalies."""
    run = Path(tmp_path_factory.mktemp("long"))
    operations = []
    for number in range(PARTITIONS):
        operations += INJECTIONS["lost"][1](healthy(4, 60, number), random.Random(number))
    verdict = check_run(forge_run(run, operations), InProcess(), report=False)
    sample_hosts(run)
    hosts = tuple(HostFacts(name=name, address="10.77.0.1", roles=("broker",)) for name in HOSTS)
    manifest = Manifest.load(run).with_changes(
        topics={"events": TopicFacts(partitions=PARTITIONS)}, hosts=hosts, load_began="2026-11-24T14:03:11+00:00",
        load_ended=ORIGIN + LOAD * SECOND,
    )  # fmt: skip
    frame = Frame(ORIGIN, bucket_width(LOAD * SECOND), ORIGIN + LOAD * SECOND)
    tables = Series({**Series.load(run).tables, **series().tables})
    return write_report(run, manifest, verdict, tables, Surroundings(ORIGIN, FAULTS, cluster()), frame)


def test_it_is_small(report: Path) -> None:
    assert report.stat().st_size <= MOST_BYTES
    page = report.read_text()
    assert page.count("recovered") >= len(FAULTS)
    assert page.count('<article class="witness" ') == 24


@pytest.fixture(scope="module")
def page(report: Path) -> Iterator[Chrome]:
    with browser() as one:
        open_page(one, report)
        yield one


def draw_all(page: Chrome) -> None:
    page.execute_script("document.querySelectorAll('figure.chart').forEach((one) => squallCharts.mount(one))")


@needs_browser
@pytest.mark.xdist_group("browser")
class TestInABrowser:
    def test_it_opens_quickly_and_without_complaint(self, page: Chrome) -> None:
        timing = page.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd")
        assert timing < 3000
        assert complaints(page) == []

    @pytest.mark.full
    def test_it_scrolls_smoothly(self, page: Chrome) -> None:
        """Charts are drawn when they come near, each quickly; frames while the whole page passes by in steps."""
        page.set_script_timeout(60)
        frames = page.execute_async_script(
            """
            const done = arguments[0], frames = [];
            let last = performance.now();
            const step = () => {
              const now = performance.now();
              frames.push(now - last);
              last = now;
              window.scrollBy(0, 250);
              const end = document.documentElement.scrollHeight - window.innerHeight - 2;
              if (window.scrollY < end) requestAnimationFrame(step);
              else done(frames);
            };
            requestAnimationFrame(step);
            """
        )
        assert len(frames) > 20
        assert sorted(frames)[len(frames) // 2] < 50
        slowest = page.execute_script(
            """
            return Math.max(...[...document.querySelectorAll('figure.chart')].map((one) => {
              const chart = squallCharts.mount(one);
              return Math.min(...[1, 2, 3].map(() => {
                const began = performance.now();
                chart.draw();
                return performance.now() - began;
              }));
            }));
            """
        )
        assert slowest < 250

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_a_phone_needs_no_sideways_scrolling(self, page: Chrome, scheme: str) -> None:
        resize(page, 390)
        prefer(page, scheme)
        draw_all(page)
        assert page.execute_script("return document.documentElement.scrollWidth") <= 390
        resize(page, 1280)
        prefer(page, "light")

    def test_a_mark_opens_the_folded_witness_that_it_leads_to(self, page: Chrome, report: Path) -> None:
        open_page(page, report, "#witness-20")
        shown = "return document.getElementById('witness-20').checkVisibility()"
        assert page.execute_script(shown)
        assert not page.execute_script(shown.replace("20", "21"))

    @pytest.mark.full
    def test_it_prints_on_many_pages(self, page: Chrome) -> None:
        printed = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
        pages = len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"])))
        assert pages >= 15

    def test_paper_has_every_witness_and_every_picture(self, page: Chrome) -> None:
        """Printed, nothing is folded, and static pictures take the place of live ones."""
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        page.execute_script("dispatchEvent(new Event('beforeprint'))")
        try:
            count = "return [...document.querySelectorAll(arguments[0])].filter((one) => one.checkVisibility()).length"
            assert page.execute_script(count, "article.witness") == 24
            charts = page.execute_script("return document.querySelectorAll('figure.chart').length")
            assert page.execute_script(count, ".chart-still") == charts > 10
            assert page.execute_script(count, ".chart-live, nav, button") == 0
        finally:
            page.execute_script("dispatchEvent(new Event('afterprint'))")
            page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
