"""The packages that the guides show: installed beside Squall, they are known by name everywhere, without an edit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.packages import run_python, squall

SIMULATED = """
scenario: plugged
cluster:
  controllers: 1
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
workload: {name: bursts, rate: 100/s, size: 10}
nemesis:
  - {fault: kill, target: leader of events/0, at: 1s, for: 2s}
time: {load: 6s, settle: 10s}
checks: [log, availability, prompt-acks]
min_acknowledged: 50
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(SIMULATED)
    return path


def test_a_fault_is_described(examples: Path) -> None:
    shown = squall("faults", "blackhole", "--json", plugins=examples)
    assert shown.status == 0
    described = json.loads(shown.out)
    assert described["what"] == "Packets from the target's host to `network` are dropped."
    assert (described["verbs"], described["simulation"]) == (["host.command"], False)


def test_the_schema_of_suites_has_their_options(examples: Path) -> None:
    schema = squall("suite", "schema", plugins=examples).out
    without = squall("suite", "schema").out
    for name in ('"const": "blackhole"', '"Blackhole"', '"const": "bursts"', '"BurstOptions"'):
        assert name in schema and name not in without, name


def test_the_simulation_runs_what_it_can(examples: Path, suite: Path, tmp_path: Path) -> None:
    ran = squall("simulate", str(suite), "--seed", "1", "--keep", str(tmp_path / "kept"), plugins=examples)
    assert (ran.status, "1: 1 valid" in ran.out) == (0, True), ran.out
    verdict = json.loads((tmp_path / "kept" / "seed-1" / "verdict.json").read_text())
    packages = {"workload bursts": "squall-bursts 0.1", "check prompt-acks": "squall-prompt-acks 0.1"}
    assert (verdict["verdict"], verdict["plugins"]) == ("valid", packages)
    again = squall("check", "--in-process", str(tmp_path / "kept" / "seed-1"))
    assert again.status == 2, "the package of the check is not installed here"
    assert "check prompt-acks: unknown check" in again.out


@pytest.mark.parametrize(
    ("ours", "of_a_package", "refusal"),
    [
        ("fault: kill", "fault: blackhole", "blackhole needs host.command, which simulated hosts do not offer"),
        ("controllers: 1", "system: niced", "cluster.system: niced cannot be simulated"),
    ],
)
def test_the_simulation_refuses_the_rest_by_name(
    ours: str, of_a_package: str, refusal: str, examples: Path, suite: Path
) -> None:
    suite.write_text(SIMULATED.replace(ours, of_a_package))
    refused = squall("simulate", str(suite), "--seed", "1", plugins=examples)
    assert (refused.status, refusal in refused.out) == (254, True), refused.out


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("size: 10", "sise: 10", "workload.sise: unknown key; did you mean `size`?"),
        ("name: bursts", "name: bursst", 'workload.name: "bursst" is not known; did you mean `bursts`?'),
        ("fault: kill", "fault: blackole", 'nemesis[0].fault: "blackole" is not known; did you mean `blackhole`?'),
        ("prompt-acks", "promt-acks", 'checks[2]: "promt-acks" is not a check; did you mean `prompt-acks`?'),
        ("controllers: 1", "system: nicd", 'cluster.system: "nicd" is not a system; did you mean `niced`?'),
    ],
)
def test_a_slip_is_told_as_with_ours(right: str, wrong: str, told: str, examples: Path, suite: Path) -> None:
    suite.write_text(SIMULATED.replace(right, wrong))
    refused = squall("plan", str(suite), plugins=examples)
    assert (refused.status, told in refused.out) == (254, True), refused.out


def test_a_dry_run_prints_what_a_fault_would_do(examples: Path, suite: Path) -> None:
    suite.write_text(SIMULATED.replace("fault: kill, target: leader of events/0", "fault: blackhole, target: b1"))
    printed = squall("plan", str(suite), "--dry-run", "--seed", "1", plugins=examples)
    assert (printed.status, "ip route replace blackhole 203.0.113.0/24" in printed.out) == (0, True), printed.out


BUNDLE = """
import io, sys, tarfile
from pathlib import Path
from squall.harness.hosts.client_bundle import client_bundle, packages_of
from squall.harness.hosts.deploy import HostKind, default_cache
bundle = client_bundle(HostKind.here(), default_cache(), packages_of("bursts"))
tarfile.open(fileobj=io.BytesIO(bundle.archive)).extractall(sys.argv[1], filter="data")
"""
WORKER = """
import sys
sys.path.insert(0, sys.argv[1])
import squall.harness.load.worker
from squall.workloads.workload import options_from, workload_of
print(workload_of(options_from({"name": "bursts"}), {"events": 1}), squall.harness.load.worker.__file__)
"""


def test_client_hosts_get_the_package_of_a_workload(examples: Path, tmp_path: Path) -> None:
    made = run_python(BUNDLE.replace("sys.argv[1]", repr(str(tmp_path))), examples)
    assert made.status == 0, made.out
    alone = [sys.executable, "-I", "-S", "-c", WORKER, str(tmp_path / "lib")]
    done = subprocess.run(alone, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("BurstWorkload("), done.stderr
    assert done.stdout.strip().endswith(str(tmp_path / "lib" / "squall" / "harness" / "load" / "worker.py"))
