"""Load workers as processes: commanded over their pipes, and gone when nobody commands them any more."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from squall.harness.load.load import LoadWorkers, LocalWorker, WorkerFailed, start_local_workers
from squall.results.history.history import History
from squall.results.history.segments import read_segment, segment_path

Bootstrap = list[tuple[str, int]]

WORKLOAD = {"producers": 2, "consumers": 1, "rate": 200.0, "in_flight": 2}


@pytest.fixture(scope="module")
def brokers() -> Iterator[Bootstrap]:
    """librdkafka's mock brokers; four topic-partitions per topic."""
    owner = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    metadata = owner.list_topics(timeout=10)
    yield [(broker.host, broker.port) for broker in metadata.brokers.values()]
    owner.flush(1)


async def started(directory: Path, brokers: Bootstrap, topic: str, count: int = 2) -> LoadWorkers:
    workers = await start_local_workers(
        count,
        prefix=[],
        directory=directory,
        run_id="test",
        workload=WORKLOAD,
        topics={topic: 2},
        bootstrap=brokers,
    )
    await workers.open()
    return workers


async def until_recorded(directory: Path, rows: int, segments: int = 1) -> None:
    """Until every worker's segment has more than that many rows, as whoever died now would leave it."""
    async with asyncio.timeout(30):
        while min(_rows(directory, segment) for segment in range(segments)) <= rows:
            await asyncio.sleep(0.02)


def _rows(directory: Path, segment: int) -> int:
    path = segment_path(directory, segment)
    return len(list(read_segment(path)[1])) if path.exists() else 0


def test_a_load_and_its_final_reads_become_a_history(tmp_path: Path, brokers: Bootstrap) -> None:
    async def scenario() -> tuple[list[dict[str, object]], int, int]:
        workers = await started(tmp_path, brokers, "whole")
        await workers.load()
        await until_recorded(tmp_path, 400, segments=2)
        await workers.stop()
        reads = await workers.final(20)
        rows = await workers.close()
        return reads, rows, workers.totals().of("send", "ok")

    reads, rows, sent = asyncio.run(scenario())
    assert [read["complete"] for read in reads] == [True, True]
    assert sent > 150
    history = History.load(tmp_path)
    assert history.table.num_rows == rows
    assert history.topic_partitions == [("whole", 0), ("whole", 1)]


def test_workers_end_with_their_recordings_when_control_is_gone(tmp_path: Path, brokers: Bootstrap) -> None:
    async def scenario() -> list[int | None]:
        workers = await started(tmp_path, brokers, "orphaned")
        await workers.load()
        await until_recorded(tmp_path, 50, segments=2)
        processes = [pipe.process for pipe in workers.pipes if isinstance(pipe, LocalWorker)]
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()  # what the death of the control process does to the pipe
        return [await asyncio.wait_for(process.wait(), 10) for process in processes]

    assert asyncio.run(scenario()) == [0, 0]
    for segment in range(2):
        _, rows, torn = read_segment(segment_path(tmp_path, segment))
        assert len(list(rows)) > 50 and torn == 0


def test_the_death_of_a_worker_is_noticed_and_its_rows_stay(tmp_path: Path, brokers: Bootstrap) -> None:
    async def scenario() -> None:
        workers = await started(tmp_path, brokers, "killed", count=1)
        await workers.load()
        await until_recorded(tmp_path, 50)
        pipe = workers.pipes[0]
        assert isinstance(pipe, LocalWorker)
        os.kill(pipe.process.pid, signal.SIGKILL)
        try:
            await workers.stop()
        finally:
            await workers.end()

    with pytest.raises(WorkerFailed, match="worker 0"):
        asyncio.run(scenario())
    _, rows, _ = read_segment(segment_path(tmp_path, 0))
    assert len(list(rows)) > 50
