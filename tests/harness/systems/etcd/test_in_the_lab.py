"""Short runs on etcd in the lab: the leader is killed, and registers and watches are judged."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.harness.systems.families import NEEDS_GO, run
from tests.plugins.packages import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("families"), NEEDS_GO]

JAVA = re.compile(r"^```java\n// (\w+\.java)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SUITE = """
scenario: short
cluster:
  system: etcd
  brokers: 3
  topics: {{keys: {{partitions: 1, replication_factor: 3, min_insync_replicas: 2}}}}
workload: {workload}
nemesis:
  - {{fault: kill, target: leader of keys/0, at: 2s, for: 2s}}
time: {{load: {load}, settle: 30s}}
checks: [{check}]
min_acknowledged: 200
"""


@pytest.mark.timeout(900)  # the first time, server and client are built
@pytest.mark.parametrize(
    ("workload", "check"),
    [
        ("{name: register, clients: 3, registers: 3, rate: 100/s}", "registers"),
        ("{name: log, producers: 2, consumers: 2, rate: 100/s}", "log"),
    ],
)
def test_a_leader_is_killed_and_the_rest_agrees(tmp_path: Path, workload: str, check: str) -> None:
    verdict, _ = run(SUITE.format(workload=workload, check=check, load="8s"), tmp_path)
    assert (verdict["verdict"], verdict["coverage"]["faults_proven"]) == ("valid", 1)


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed, which runs the page's program")
@pytest.mark.timeout(900)
def test_a_program_in_java_joins_the_history(tmp_path: Path) -> None:
    ((name, program),) = JAVA.findall((ROOT / "docs" / "client-programs.md").read_text(encoding="utf-8"))
    (tmp_path / name).write_text(program)
    workload = f"{{name: register, clients: 2, rate: 50/s, client: program, program: {{command: [java, {name}]}}}}"
    # Beside other tests, a virtual machine that has just been started takes long for its first requests.
    verdict, directory = run(SUITE.format(workload=workload, check="registers", load="30s"), tmp_path)
    assert (verdict["verdict"], verdict["coverage"]["faults_proven"]) == ("valid", 1)
    segments = "".join(one.read_text() for one in directory.glob("history/segment-*"))
    assert '"cas"' in segments and '"ok"' in segments
