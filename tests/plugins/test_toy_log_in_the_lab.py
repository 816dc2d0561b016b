"""A user's own log, which speaks no Kafka, runs under faults in the lab and is judged; a broken one is caught."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.labs import need_lab
from tests.plugins.packages import ROOT, squall

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("plugins-lab")]

SUITE = """
scenario: toy
cluster:
  controllers: 1
  brokers: 1
  system: toylog
  topics: {events: {partitions: 1, replication_factor: 1, min_insync_replicas: 1}}
workload: {name: toylog, rate: 200}
nemesis:
  - {fault: kill, target: leader of events/0, at: 2s, for: 1s}
  - {fault: pause, target: b1, at: 5s, for: 1s}
time: {load: 8s, settle: 20s}
min_acknowledged: 200
"""
POINTS = "[squall.systems]\ntoylog = toy_log:ToyLog\n\n[squall.workloads]\ntoylog = toy_log:WORKLOAD\n"
FORGETS = ('open(sys.argv[1], "a+b", buffering=0)', 'open("/dev/null", "a+b", buffering=0)')
"""Keeps nothing on disk: what was acknowledged before a kill is gone."""


def installed(directory: Path, *, broken: bool) -> Path:
    """The package as pip would leave it."""
    described = directory / "toy_log-0.1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-log\nVersion: 0.1\n")
    (described / "entry_points.txt").write_text(POINTS)
    text = (ROOT / "tests" / "plugins" / "toy_log.py").read_text(encoding="utf-8")
    assert FORGETS[0] in text
    (directory / "toy_log.py").write_text(text.replace(*FORGETS) if broken else text)
    return directory


@pytest.mark.parametrize(
    ("broken", "expected"), [(False, "valid"), pytest.param(True, "invalid", marks=pytest.mark.full)]
)
def test_a_log_of_ones_own_is_judged(tmp_path: Path, broken: bool, expected: str) -> None:
    need_lab()
    (tmp_path / "suite.yaml").write_text(SUITE)
    site = installed(tmp_path / "site", broken=broken)
    ran = squall("run", "suite.yaml", "--seed", "7", "--in-process", plugins=site, cwd=tmp_path, timeout=200)
    (run,) = (tmp_path / "runs" / "toy").iterdir()
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["verdict"] == expected, ran.out
    assert (verdict["coverage"]["faults_proven"], ran.status) == (2, 0 if expected == "valid" else 1), ran.out
    assert verdict["plugins"] == {"workload toylog": "toy-log 0.1", "system toylog": "toy-log 0.1"}
