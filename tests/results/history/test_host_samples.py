"""Samples of hosts in a file, and what is kept of them for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.results.history.host_samples import (
    HOST_SAMPLES_FILE,
    METRICS,
    HostSample,
    read_host_samples,
    samples_writer,
    thinned,
)
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.lake.of_run import entry_of_run
from squall.results.synthetic.forge import ORIGIN, forge_run, healthy

SECOND = 1_000_000_000


def sample(second: float, **values: float) -> HostSample:
    return HostSample(time=ORIGIN + int(second * SECOND), host="b1", values=values)


def write(run: Path, *samples: HostSample) -> None:
    writer = samples_writer(run)
    for one in samples:
        writer.write(one)
    writer.close()


def test_samples_are_read_in_order_of_time_without_a_torn_last_line(tmp_path: Path) -> None:
    write(tmp_path, sample(2, process_cpu=2.0), sample(1, process_cpu=1.0))
    with (tmp_path / HOST_SAMPLES_FILE).open("ab") as file:
        file.write(b'{"time":')
    assert [one.values for one in read_host_samples(tmp_path)] == [{"process_cpu": 1.0}, {"process_cpu": 2.0}]


def test_a_line_that_is_no_sample_is_named(tmp_path: Path) -> None:
    (tmp_path / HOST_SAMPLES_FILE).write_text('{"time": "noon"}\n')
    with pytest.raises(IllFormedHistory, match=r"host-samples\.jsonl.*1.*is not a sample of a host"):
        read_host_samples(tmp_path)
    assert read_host_samples(tmp_path / "older") == []


def test_longer_stretches_have_means_but_of_quantiles_the_worst() -> None:
    quantile = next(name for name, metric in METRICS.items() if metric.worst)
    samples = [sample(at, process_cpu=float(at), **{quantile: float(at)}) for at in (1, 3, 11)]
    assert thinned(samples, ORIGIN, 10 * SECOND) == [
        ("b1", 0.0, "process_cpu", 2.0),
        ("b1", 0.0, quantile, 3.0),
        ("b1", 10.0, "process_cpu", 11.0),
        ("b1", 10.0, quantile, 11.0),
    ]


def test_the_lake_keeps_ten_seconds_of_samples_as_one(tmp_path: Path) -> None:
    run = forge_run(tmp_path, healthy(1))
    write(run, *(sample(at, process_cpu=0.5) for at in range(25)))
    columns = entry_of_run(run).tables["host_samples"]
    assert (columns["host"], columns["second"], columns["value"]) == (["b1"] * 3, [0.0, 10.0, 20.0], [0.5] * 3)
