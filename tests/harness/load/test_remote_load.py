"""Load from client hosts: judged as local load is, ended as it is, and half a history never stands for a whole one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.harness.hosts.clocks import ClockReading
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.ssh_access import ConnectionLost
from squall.harness.lab.lab import Lab, lab_down, lab_up
from squall.harness.load.remote_load import RemoteLoadWorkers, workers_on
from squall.harness.load.worker import WorkerSpec
from squall.harness.scenario.inventory import HostSpec
from squall.results.history.host_samples import read_host_samples
from squall.results.history.segments import HistoryWriter, SegmentHeader, read_segment, segment_path
from tests.labs import need_lab
from tests.waiting import wait_until

NAME = f"remote-load-{os.getpid()}"
PATIENCE_SECONDS = 30.0

SCENARIO = """
scenario: far
cluster:
  controllers: 1
  brokers: 1
  clients: 1
  topics: {{events: {{partitions: 2, replication_factor: 1, min_insync_replicas: 1}}}}
workload: {{name: log, producers: 2, consumers: 1, rate: 200/s, acks: all}}
fault_free: true
time: {{load: {seconds}s, settle: 10s}}
min_acknowledged: 100
"""


# Without hosts ------------------------------------------------------------------------------------------------


def test_there_is_a_worker_for_every_host_but_none_without_work() -> None:
    assert workers_on(hosts=1, at_least=2, most=4) == 2
    assert workers_on(hosts=3, at_least=2, most=4) == 3
    assert workers_on(hosts=9, at_least=2, most=4) == 4


def test_a_worker_that_hears_nothing_ends_by_itself() -> None:
    argv = [sys.executable, "-m", "squall.harness.load.worker", "--silence", "0.5"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.wait(20) == 0  # while its stdin is open: a link that was cut looks like this


class FarWorker:
    """A worker that has ended and left a segment, on a host that may not be reached any more."""

    directory = "~/.squall/load/test"

    def __init__(self, reachable: bool) -> None:
        self.reachable = reachable

    async def write(self, line: bytes) -> None: ...

    async def read(self) -> bytes:
        return b""

    async def end(self) -> None: ...

    def fetch(self, worker: int, into: Path) -> None:
        if not self.reachable:
            raise ConnectionLost(HostSpec("load2", "192.0.2.1", ("clients",)), "the connection was lost")
        HistoryWriter(segment_path(into / "fetched", worker), SegmentHeader("test", worker, clock_id=1)).close()


def brought_home(directory: Path, *reachable: bool) -> list[str]:
    """Have that many workers end; the trouble there was."""

    async def scenario() -> list[str]:
        specs = [WorkerSpec("test", number, len(reachable), {}, {}, [], "far", clock_id=1) for number in range(2)]
        workers = RemoteLoadWorkers([FarWorker(one) for one in reachable], specs, directory)  # type: ignore[misc]
        workers.first[1] = ClockReading(offset=1234, error=5, taken=time.monotonic_ns())
        await workers.end()
        return workers.trouble

    return asyncio.run(scenario())


def test_the_history_comes_home_with_the_last_word_on_its_clock(tmp_path: Path) -> None:
    assert brought_home(tmp_path, True, True) == []
    for segment in range(2):
        header, _, torn = read_segment(segment_path(tmp_path, segment))
        assert (header.segment, header.clock_offset, torn) == (segment, 1234, 0)
        assert header.clock_error >= 5
    assert [path.name for path in tmp_path.iterdir()] == ["history"]


def test_half_a_history_is_not_put_in_the_place_of_one(tmp_path: Path) -> None:
    (trouble,) = brought_home(tmp_path, True, False)
    assert "the history of load worker 1 is still on its host, in ~/.squall/load/test" in trouble
    assert "connection was lost" in trouble
    assert not (tmp_path / "history").exists()


# On hosts -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A controller, a broker and a client host, which outlive the runs on them."""
    need_lab()
    try:
        yield lab_up(1, 1, 1, name=NAME, owner=os.getpid())
    finally:
        lab_down(NAME)


@pytest.fixture
def load1(lab: Lab) -> Iterator[Remote]:
    with Remote(lab.inventory().host("load1"), lab.network) as remote:
        yield remote


def worker_ids(load1: Remote) -> list[int]:
    """Process ids of the load workers on the client host."""
    listed = load1.run("for one in /proc/[0-9]*; do echo $(basename $one) $(tr '\\0' ' ' <$one/cmdline); done").stdout
    return [
        int(line.split()[0]) for line in listed.splitlines() if "squall.harness.load.worker" in line and "-m" in line
    ]


def await_that(condition: Callable[[], object], what: str, timeout: float = PATIENCE_SECONDS) -> None:
    wait_until(condition, what, timeout, every=0.05)


def begun(squall: Any, lab: Lab, load1: Remote) -> tuple[subprocess.Popen[str], str]:
    """A long run whose load has begun; its process, and where a worker's segment lies on the client host."""
    (squall.directory / "far.yaml").write_text(SCENARIO.format(seconds=100))
    process = squall.start("run", "far.yaml", "--lab", lab.name, "--in-process")
    recorded = "wc -l /root/.squall/load/*-0/history/segment-000.jsonl"

    def has_rows() -> bool:
        assert process.poll() is None, (squall.directory / "said.txt").read_text()
        counted = load1.run(recorded)
        return counted.ok and int(counted.stdout.split()[0]) > 100

    await_that(has_rows, "a load worker on the client host has recorded something", timeout=90)
    return process, load1.run(recorded).stdout.split()[1]


@pytest.mark.lab
@pytest.mark.xdist_group("remote-load")
class TestOnAClientHost:
    def test_a_run_is_valid_and_names_where_its_load_came_from(self, lab: Lab, load1: Remote, squall: Any) -> None:
        (squall.directory / "far.yaml").write_text(SCENARIO.format(seconds=3))
        ran = squall("run", "far.yaml", "--lab", lab.name, "--in-process")
        assert ran.status == 0, ran.all
        assert "VALID" in ran.out
        assert re.search(r"load +from load1 .*2 workers", ran.out), ran.out
        latest = squall.directory / "runs/latest"
        for segment in range(2):
            header, rows, torn = read_segment(segment_path(latest, segment))
            assert header.clock_id == 1 and torn == 0 and len(list(rows)) > 100
            assert abs(header.clock_offset) <= header.clock_error, "hosts of a lab share one monotonic clock"
            assert header.clock_error < 100_000_000
        (client,) = [
            host for host in json.loads((latest / "run.json").read_text())["hosts"] if host["roles"] == ["load"]
        ]
        assert client["name"] == "load1" and "±" in client["facts"]["clock"]
        samples = [one for one in read_host_samples(latest) if one.host == "load1"]
        assert any(one.values.get("process_memory", 0) > 0 and "network_sent" in one.values for one in samples)
        assert load1.run("ls ~/.squall/load", check=True).stdout == "", "hosts are left as they were found"

    def test_workers_keep_their_recordings_and_end_without_the_control_process(
        self, lab: Lab, load1: Remote, squall: Any
    ) -> None:
        process, segment = begun(squall, lab, load1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        await_that(lambda: not worker_ids(load1), "the load workers have ended")
        load1.get(segment, squall.directory / "segment.jsonl")
        header, rows, torn = read_segment(squall.directory / "segment.jsonl")
        assert header.clock_id == 1 and torn == 0 and len(list(rows)) > 100

    @pytest.mark.full
    def test_the_death_of_a_worker_ends_the_run_and_its_rows_are_fetched(
        self, lab: Lab, load1: Remote, squall: Any
    ) -> None:
        load1.run("rm -rf ~/.squall/load", check=True)
        process, _ = begun(squall, lab, load1)
        load1.run(["kill", "-9", str(worker_ids(load1)[0])], check=True)
        assert process.wait(60) == 2, (squall.directory / "said.txt").read_text()
        said = (squall.directory / "said.txt").read_text()
        assert re.search(r"load worker \d ended unexpectedly", said) and "UNKNOWN" in said, said
        for number in range(2):
            _, rows, _ = read_segment(segment_path(squall.directory / "runs/latest", number))
            assert len(list(rows)) > 20
        assert not worker_ids(load1)
