"""The broker benchmark measures what it says, on a cluster of its own and with few records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squall.benchmarks.broker import AS_SHIPPED, Bench, latencies, median_of, quantile, throughput
from squall.harness.loopback import FAST, Cluster


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
    samples = throughput(bench, partitions=2, records=500, runs=3)
    assert len(samples) == 3
    assert all(one.megabytes_per_second > 0 and one.processor_seconds_per_gigabyte >= 0 for one in samples)


@pytest.mark.xdist_group("broker-benchmark")
def test_latencies_are_one_per_record_and_run(bench: Bench) -> None:
    runs = latencies(bench, records=20, runs=2)
    assert [len(run) for run in runs] == [20, 20] and min(map(min, runs)) > 0
