"""One short run on NATS JetStream in the lab: the stream's leader is killed, and the history is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.systems.families import NEEDS_GO, run

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("families"), NEEDS_GO]

SUITE = """
scenario: short
cluster:
  system: nats
  brokers: 3
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
workload: {name: log, producers: 2, consumers: 1, rate: 100/s, reopen: 0.002}
nemesis:
  - {fault: kill, target: leader of events/0, at: 2s, for: 12s}
time: {load: 16s, settle: 40s}
min_acknowledged: 200
"""


@pytest.mark.timeout(900)  # the first time, server and client are built
def test_a_leader_is_killed_and_nothing_is_lost(tmp_path: Path) -> None:
    verdict, directory = run(SUITE, tmp_path)
    assert (verdict["verdict"], verdict["coverage"]["faults_proven"]) == ("valid", 1)
    manifest = json.loads((directory / "run.json").read_text())
    assert manifest["options"]["system"] == "nats 2.12.1" and manifest["workload"]["client"] == "program"
    assert manifest["options"]["leader_changes"] >= 1, "followers wait 9 s at most; the fault outlasts that"
    assert "Starting JetStream" in (directory / "nodes" / "b1" / "node.log").read_text()
