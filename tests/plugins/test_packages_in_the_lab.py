"""A fault, a workload, a check and a system of four packages, each as its guide shows it, in one run in the lab."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.labs import need_lab
from tests.plugins.packages import squall

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("plugins-lab")]

SUITE = """
scenario: plugged
cluster:
  controllers: 1
  system: niced
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
workload: {name: bursts, rate: 100/s, size: 10}
nemesis:
  - {fault: blackhole, target: leader of events/0, at: 1s, for: 2s}
time: {load: 6s, settle: 20s}
checks: [log, availability, prompt-acks]
min_acknowledged: 50
"""


def test_four_packages_serve_one_run(examples: Path, tmp_path: Path) -> None:
    need_lab()
    (tmp_path / "suite.yaml").write_text(SUITE)
    ran = squall("run", "suite.yaml", "--seed", "7", "--in-process", plugins=examples, cwd=tmp_path, timeout=240)
    assert ran.status == 0, ran.out
    (run,) = (tmp_path / "runs" / "plugged").iterdir()
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["verdict"] == "valid"
    assert verdict["plugins"] == {
        "fault blackhole": "squall-blackhole 0.1",
        "workload bursts": "squall-bursts 0.1",
        "system niced": "squall-niced 0.1",
        "check prompt-acks": "squall-prompt-acks 0.1",
    }
    assert (verdict["coverage"]["faults"], verdict["coverage"]["faults_proven"]) == (1, 1)
    logs = [log.read_text() for log in run.glob("nodes/*/node.log")]
    assert [text.partition(" ")[0] for text in logs] == ["niced"] * 4
