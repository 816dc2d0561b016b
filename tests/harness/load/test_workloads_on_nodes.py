"""Workloads beside `log`, by load workers against a node of our own over TCP: recorded, finished and judged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from squall.harness.load.load import start_local_workers
from squall.results.check import verdict_of
from squall.results.history.manifest import Manifest, TopicFacts
from squall.results.history.rows import CompletionRow, RegisterCompletion
from squall.results.history.segments import read_segment, segment_path
from squall.results.verdict.verdict import Verdict
from squall.workloads.core.latency import SendLatencies
from tests.clusters import Cluster
from tests.waiting import soon

Bootstrap = list[tuple[str, int]]
PARTITIONS = 2
WORKERS = 2


@pytest.fixture(scope="module")
def brokers() -> Iterator[Bootstrap]:
    with Cluster.combined() as cluster:
        cluster.wait_until_ready()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        names = ("cut", "aiokafka", "single", "benched")
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
            created.result(10)
        host, _, port = cluster.bootstrap.partition(":")
        yield [(host, int(port))]


async def loaded(
    directory: Path, brokers: Bootstrap, topic: str, workload: dict[str, Any], operations: int = 240
) -> tuple[list[dict[str, Any]], SendLatencies]:
    """The states of the final reads, and the latencies, of a load by two workers."""
    workers = await start_local_workers(
        WORKERS,
        prefix=[],
        directory=directory,
        run_id="test",
        workload=workload,
        topics={topic: PARTITIONS},
        bootstrap=brokers,
    )
    try:
        await workers.open()
        await workers.load()
        await soon(lambda: completed(directory) >= operations, f"{operations} operations are completed", 30)
        await workers.stop()
        reads = await workers.final(20)
        await workers.close()
        return reads, workers.latencies
    finally:
        await workers.end()


def completed(directory: Path) -> int:
    """Completions in the segments of all workers."""
    segments = [segment_path(directory, number) for number in range(WORKERS)]
    rows = [row for one in segments if one.exists() for _, row in read_segment(one)[1]]
    return sum(isinstance(row, CompletionRow | RegisterCompletion) for row in rows)


def judged(directory: Path, topic: str, check: str = "log") -> Verdict:
    Manifest(
        run_id="test",
        scenario="test",
        seed=1,
        topics={topic: TopicFacts(partitions=PARTITIONS, replication_factor=1, min_insync_replicas=1)},
        completed=True,
        fault_free=True,
        final_read="complete",
        min_acknowledged=20,
        checks=(check,),
    ).save(directory)
    return verdict_of(directory)


@pytest.mark.parametrize(
    ("topic", "workload"),
    [
        ("cut", {"name": "idempotence", "rate": "150/s", "cut_every": 3}),
        ("aiokafka", {"name": "log", "client": "aiokafka", "producers": 2, "consumers": 2, "rate": "150/s"}),
        ("single", {"name": "log", "client": "native", "idempotent": False, "producers": 2, "rate": "150/s"}),
    ],
)
def test_a_load_and_its_final_reads_become_a_history_that_is_valid(
    tmp_path: Path, brokers: Bootstrap, topic: str, workload: dict[str, Any]
) -> None:
    reads, latencies = asyncio.run(loaded(tmp_path, brokers, topic, workload))
    assert [read["complete"] for read in reads] == [True] * PARTITIONS
    assert latencies.intended.count > 50
    verdict = judged(tmp_path, topic)
    assert (verdict.verdict, verdict.reasons) == ("valid", ())


def test_a_bench_tells_both_latencies_of_all_its_workers(tmp_path: Path, brokers: Bootstrap) -> None:
    workload = {"name": "produce-bench", "producers": 2, "rate": "200/s"}
    _, latencies = asyncio.run(loaded(tmp_path, brokers, "benched", workload))
    assert latencies.begun >= latencies.intended.count == latencies.service.count > 100
    for share in (0.5, 0.99, 1.0):
        intended, service = latencies.intended.quantile(share), latencies.service.quantile(share)
        assert intended is not None and service is not None and intended >= service
    assert judged(tmp_path, "benched").verdict == "valid"


def test_topics_and_their_configuration_are_one_history(tmp_path: Path, brokers: Bootstrap) -> None:
    workload = {"name": "metadata", "lanes": 2, "rate": "60/s"}
    reads, _ = asyncio.run(loaded(tmp_path, brokers, "cut", workload, operations=120))
    assert [read["complete"] for read in reads] == [True, True]
    verdict = judged(tmp_path, "cut", "registers")
    assert (verdict.verdict, verdict.reasons) == ("valid", ())
    (registers,) = verdict.further
    assert registers.checked > 50
