"""Disks that stall and lie, damaged and lost files, and a log directory that goes back, on hosts of the lab: one run.

All of it happens to one of three replicas at a time, so what was acknowledged must be there at the end.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from squall.results.history.history import History
from squall.results.history.segments import FaultWindow, read_faults
from tests.harness.conftest import CommandLine
from tests.harness.run.faults.test_power_loss import acknowledged_and_gone
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.xdist_group("power-loss")]

SUITE = """
scenario: damage
cluster:
  controllers: 1
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
  config:
    broker.session.timeout.ms: 1500
    broker.heartbeat.interval.ms: 300
    replica.lag.time.max.ms: 1500
    log.flush.interval.messages: 1
workload: {name: log, client: confluent, producers: 2, consumers: 2, rate: 100/s, acks: all}
nemesis:
  - {fault: bit-flip, target: b2, file: "events-0/*.log", become: noise, bytes: 64, where: start, at: 500ms, for: 1s}
  - {fault: copy-chunk, target: b3, file: "events-0/*.log", at: 500ms, for: 1s}
  - {fault: lose-file, target: b2, file: "events-0/*.log", how: rename, at: 2s, for: 1s}
  - {fault: disk-stall, target: b3, at: 2s, for: 1s}
  - {fault: truncate-file, target: b2, file: "events-0/*.log", node: down, at: 4s, for: 1s}
  - {fault: file-copy-restore, target: b2, age: 1s, at: 8s, for: 1s}
  - {fault: lying-fsync, target: b3, at: 12s, for: 4s}
  - {fault: power-loss, target: b3, at: 14s, for: 500ms}
time: {load: 19s, settle: 10s}
min_acknowledged: 50
"""

PROOFS = {
    "bit-flip": r"64 bytes of noise at byte 0 of events-0/\d+\.log, the node running",
    "copy-chunk": r"64 bytes copied over byte \d+ of events-0/\d+\.log",
    "lose-file": r"events-0/\d+\.log renamed",
    "disk-stall": r"[1-9]\d* calls do not return",
    "truncate-file": r"events-0/\d+\.log cut at byte \d+, the node down",
    "file-copy-restore": r"1 s back: [1-9]\d* bytes written since the copy are gone",
    "lying-fsync": r"[1-9]\d* fsyncs returned success without effect, [1-9]\d* bytes not on the disk",
    "power-loss": r"process gone, and [1-9]\d* bytes that were not fsynced",
}


@pytest.fixture(scope="module", autouse=True)
def _machine() -> None:
    need_lab()


def test_each_is_seen_to_happen_and_to_end_and_nothing_acknowledged_is_lost(squall: CommandLine) -> None:
    (squall.directory / "damage.yaml").write_text(SUITE)
    said = squall("run", "damage.yaml", "--seed", "7", "--in-process")
    assert said.status == 0, said.all
    directory = Path(squall.directory / "runs" / "latest")
    windows: dict[str, FaultWindow] = {window.fault: window for window in read_faults(directory)}
    assert set(windows) == set(PROOFS)
    for name, window in windows.items():
        assert window.took and window.undone, window
        assert re.match(PROOFS[name], window.during), window.during
    assert acknowledged_and_gone(History.load(directory).of("events", 0)) == set()
