"""One short run on Apache Kafka in the lab: its leader is killed, and the history and the replicas are judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.xdist_group("apache-kafka")]

SUITE = """
scenario: short
cluster:
  system: kafka
  controllers: 1
  brokers: 2
  topics: {events: {partitions: 2, replication_factor: 2, min_insync_replicas: 1}}
  config: {broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500, replica.lag.time.max.ms: 2000}
workload: {name: log, producers: 2, consumers: 1, rate: 100/s, acks: all}
nemesis:
  - {fault: kill, target: leader of events/0, at: 2s, for: 2s}
time: {load: 12s, settle: 30s}
min_acknowledged: 50
"""


def test_a_leader_is_killed_and_nothing_is_lost(tmp_path: Path) -> None:
    need_lab()
    (tmp_path / "short.yaml").write_text(SUITE)
    command = [sys.executable, "-m", "squall.harness.cli.main", "run", "short.yaml", "--seed", "1", "--in-process"]
    ran = subprocess.run(
        [*command, "--no-lake"], cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"}
    )
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    (run,) = (tmp_path / "runs" / "short").iterdir()
    verdict = json.loads((run / "verdict.json").read_text())
    assert (verdict["verdict"], verdict["coverage"]["faults_proven"]) == ("valid", 1)
    manifest = json.loads((run / "run.json").read_text())
    assert {"replicas", "control-plane"} <= set(manifest["checks"])
    assert manifest["options"]["leader_changes"] >= 1 and manifest["options"]["system"] == "kafka 4.4.0"
    assert "2 hosts" not in said and "logs described on 3 hosts" in said
    text = (run / "nodes" / "b1" / "node.log").read_text()
    assert "Kafka Server started" in text and text.startswith("20")
