"""The broker benchmark measures what it says, on a cluster of its own and with few records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squall.benchmarks.broker import AS_SHIPPED, metadata_figures
from squall.benchmarks.parts.fetching import consumed, fetched, filled_topic
from squall.benchmarks.parts.load import ALONE, Bench, Layout, median_of, quantile
from squall.benchmarks.parts.producing import latencies, small_requests, throughput
from squall.harness.loopback.loopback import FAST, Cluster


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Cluster(brokers=3, controllers=3) as cluster:
        cluster.wait_until_ready()
        yield Bench(cluster)


def test_every_setting_that_the_loopback_cluster_hastens_is_set_back() -> None:
    assert AS_SHIPPED.keys() == FAST.keys()


@pytest.mark.parametrize(
    ("of", "expected"), [(0.5, 50.0), (0.99, 99.0), (0.995, 100.0), (1.0, 100.0), (0.001, 1.0), (0.0, 1.0)]
)
def test_a_quantile_is_the_smallest_value_that_the_share_reaches(of: float, expected: float) -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert quantile(values, of) == expected


def test_a_figure_is_the_median_and_keeps_its_samples() -> None:
    figure = median_of("speed", "MB/s", [3.0, 90.0, 5.0], must=4, stretch=6)
    assert (figure.measured, figure.samples) == (5.0, (3.0, 90.0, 5.0))
    assert figure.passed and not figure.stretched


@pytest.mark.xdist_group("broker-benchmark")
def test_runs_after_the_warm_up_are_counted_and_every_record_is_found_again(bench: Bench) -> None:
    samples = throughput(bench, Layout(partitions=2), records=500, runs=3)
    assert len(samples) == 3
    assert all(one.megabytes_per_second > 0 and one.processor_seconds_per_gigabyte >= 0 for one in samples)


@pytest.mark.xdist_group("broker-benchmark")
def test_small_requests_are_counted_by_record_and_cost_processor_time(bench: Bench) -> None:
    samples = small_requests(bench, ALONE, requests=200, runs=2)
    assert [one.records_per_second * 1000 / 1e6 for one in samples] == [
        pytest.approx(one.megabytes_per_second) for one in samples
    ]
    assert sum(one.processor_microseconds_per_record for one in samples) > 0


@pytest.mark.xdist_group("broker-benchmark")
def test_latencies_are_one_per_record_and_run(bench: Bench) -> None:
    runs = latencies(bench, Layout(), records=20, runs=2)
    assert [len(run) for run in runs] == [20, 20] and min(map(min, runs)) > 0


@pytest.mark.xdist_group("broker-benchmark")
def test_what_was_filled_is_consumed_and_fetched_in_full_answers(bench: Bench) -> None:
    filled_topic(bench, "filled", records=3000)
    assert len(consumed(bench, "filled", records=3000, runs=1)) == 1
    assert fetched(bench, "filled", responses=4, runs=1)[0] > 0


def test_encoding_metadata_is_timed_in_milliseconds() -> None:
    (figure,) = metadata_figures(runs=2)
    assert len(figure.samples) == 2 and figure.unit == "ms" and figure.measured > 0
