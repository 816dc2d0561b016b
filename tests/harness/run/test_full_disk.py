"""A full disk below `runs/`: nothing written is lost or written twice, faults are healed, and no verdict is stronger
than what was recorded.

The limit on the size of a process's files stands in for a full disk: the system takes a part of a write, then none.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.harness.errors import file_problem
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.manifest import Manifest
from squall.results.history.segments import (
    EventWriter,
    FaultWindow,
    HistoryWriter,
    InvocationRow,
    SegmentHeader,
    open_segment,
    read_faults,
)
from squall.results.history.whole_file import write_whole
from squall.results.synthetic.forge import forge_run, healthy
from squall.results.verdict.verdict import Verdict
from tests.labs import need_lab


@contextlib.contextmanager
def room_for(size: int) -> Iterator[None]:
    """Files of this process grow to `size` bytes at most."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def invocation(value: int) -> InvocationRow:
    return InvocationRow("send", value, 0, value, value, "events", 0, value, None, None)


class TestHistories:
    def test_rows_are_written_once_when_there_is_room_again(self, tmp_path: Path) -> None:
        path = tmp_path / "history" / "segment-000.jsonl"
        writer = HistoryWriter(path, SegmentHeader("run", 0))
        for value in range(50):
            writer.invoke(invocation(value))
        with room_for(path.stat().st_size + 500), pytest.raises(OSError, match="File too large"):
            writer.flush()
        assert path.stat().st_size > 500, "a part of the rows was taken"
        for value in range(50, 60):
            writer.invoke(invocation(value))
        writer.close()
        segment = open_segment(path)
        assert [row.process for _, row in segment.rows()] == list(range(60))
        assert not segment.cut_off

    def test_a_segment_that_stays_without_room_is_cut_off_and_never_sealed(self, tmp_path: Path) -> None:
        path = tmp_path / "history" / "segment-000.jsonl"
        writer = HistoryWriter(path, SegmentHeader("run", 0))
        for value in range(50):
            writer.invoke(invocation(value))
        with room_for(path.stat().st_size + 500), pytest.raises(OSError):
            writer.close()
        segment = open_segment(path)
        assert segment.cut_off and segment.torn == 1
        assert [row.process for _, row in segment.rows()] == list(range(len(segment.lines)))
        assert 0 < len(segment.lines) < 50

    def test_a_fault_that_could_not_be_written_leaves_no_half_line(self, tmp_path: Path) -> None:
        writer = EventWriter.faults(tmp_path)
        first = FaultWindow(id="1", fault="kill", targets=("b1",), summary="b1")
        writer.write(first)
        with room_for(writer.path.stat().st_size + 5), pytest.raises(OSError):
            writer.write(FaultWindow(id="2", fault="kill", targets=("b2",), summary="b2"))
        third = FaultWindow(id="3", fault="kill", targets=("b3",), summary="b3")
        writer.write(third)
        assert [one.id for one in read_faults(tmp_path)] == ["1", "3"]


class TestFilesThatAreReplaced:
    def test_the_old_content_stays_and_no_draft(self, tmp_path: Path) -> None:
        target = tmp_path / "run.json"
        write_whole(target, "before")
        with room_for(10), pytest.raises(OSError) as caught:
            write_whole(target, "after" * 100)
        assert target.read_text() == "before"
        assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
        assert (file_problem(caught.value) or "").startswith(f"{target}: ")

    def test_a_verdict_that_has_no_room_leaves_the_one_before(self, tmp_path: Path) -> None:
        run = forge_run(tmp_path / "run", healthy(1))
        verdict = check_run(run, InProcess(), report=False)
        with room_for(10), pytest.raises(OSError):
            verdict.save(run)
        assert Verdict.load(run) == verdict

    def test_a_manifest_that_has_no_room_leaves_the_one_before(self, tmp_path: Path) -> None:
        run = forge_run(tmp_path / "run", healthy(1))
        manifest = Manifest.load(run)
        with room_for(10), pytest.raises(OSError):
            manifest.with_changes(seed=99).save(run)
        assert Manifest.load(run) == manifest


def limited(squall: Any, blocks: int) -> Any:
    """The same command with files of at most so many KiB."""
    return squall.within(["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "limited"])


def test_a_check_without_room_says_so_and_a_later_one_finds_the_history_whole(squall: Any) -> None:
    run = forge_run(squall.directory / "runs/forged/1", healthy(1))
    files = {path.name for path in run.rglob("*")}
    said = limited(squall, 1)("check", "runs/forged/1", "--in-process")
    assert said.status == 254, said.all
    assert "File too large" in said.err and "squall check runs/forged/1" in said.err
    assert "Traceback" not in said.all and "VALID" not in said.all
    assert files <= {path.name for path in run.rglob("*")} and not (run / "verdict.json").exists()
    assert squall("check", "runs/forged/1", "--in-process").status == 0


@pytest.mark.parametrize(
    "arguments",
    [("simulate", "small.yaml", "--keep", "small.yaml/kept"), ("forge", "small.yaml/forged")],
    ids=lambda words: words[0],
)
def test_a_place_that_cannot_be_written_is_named(arguments: tuple[str, ...], squall: Any) -> None:
    (squall.directory / "small.yaml").write_text(
        "scenario: small\nnemesis: [{fault: kill, target: one broker, at: 1s, for: 1s}]\n"
        "time: {load: 3s, settle: 5s}\nworkload: {name: log, rate: 20/s}\n"
    )
    said = squall(*arguments)
    assert said.status == 254 and "Traceback" not in said.all, said.all
    assert "small.yaml/" in said.err and "Not a directory" in said.err


SUITE = """\
scenario: small
cluster:
  controllers: 1
  brokers: 2
  topics: {events: {partitions: 2, replication_factor: 1, min_insync_replicas: 1}}
  config: {broker.session.timeout.ms: 6000}
workload: {name: log, producers: 2, consumers: 1, rate: 1000/s, acks: all}
nemesis:
  - {fault: isolate, target: one broker, at: 1s, for: 20s}
time: {load: 25s, settle: 5s}
"""


@pytest.mark.lab
@pytest.mark.xdist_group("full-disk")
def test_a_run_whose_disk_becomes_full_heals_its_faults_and_is_unknown(squall: Any) -> None:
    need_lab()
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small file system")
    runs = squall.directory / "runs"
    runs.mkdir()
    (squall.directory / "suite.yaml").write_text(SUITE)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "squall-test", str(runs)], check=True)
    try:
        said = squall("run", "suite.yaml", "--seed", "1", "--in-process")
        assert said.status in (2, 254) and "Traceback" not in said.all, said.all
        assert "No space left on device" in said.all and "VALID" not in said.all
        (run,) = (runs / "small").iterdir()
        (fault,) = read_faults(run) or [None]
        assert "healed" in said.out and "25/25 s" not in said.out, "the load ends when it can no longer be recorded"
        assert fault is not None and fault.injected is not None
        recorded = {path.name: path.read_bytes() for path in (run / "history").glob("segment-*.jsonl")}
        subprocess.run(["mount", "-o", "remount,size=20m", str(runs)], check=True)
        later = squall("check", str(run), "--in-process")
        assert later.status == 2 and "cut off" in later.out, later.all
        assert json.loads((run / "verdict.json").read_text())["verdict"] == "unknown"
        assert recorded == {path.name: path.read_bytes() for path in (run / "history").glob("segment-*.jsonl")}
    finally:
        subprocess.run(["umount", "-l", str(runs)], check=True)
