"""Runs on an Apache Kafka that demands TLS and SCRAM, with both clients that connect so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.systems.kafka.secured import PASSWORD, Secured, secured_kafka

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.xdist_group("apache-kafka")]

SUITE = """
scenario: secured
cluster: {{topics: {{there: {{partitions: 2, replication_factor: 1, min_insync_replicas: 1}}}}}}
workload: {{name: log, client: {client}, producers: 1, consumers: 1, rate: 100/s}}
fault_free: true
time: {{load: 5s, settle: 10s}}
min_acknowledged: 50
"""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as found:
        yield found


def run(kafka: Secured, directory: Path, client: str, properties: Path | None) -> tuple[int, str]:
    (directory / "suite.yaml").write_text(SUITE.format(client=client))
    command = [sys.executable, "-m", "squall.harness.cli.main", "run", "suite.yaml", "--seed", "1", "--in-process"]
    command += ["--no-lake", "--system", f"cluster:{kafka.address}"]
    command += [] if properties is None else ["--client-properties", str(properties)]
    environment = os.environ | {"COLUMNS": "200"}
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=150, env=environment)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("client", ["native", "confluent"])
def test_a_run_with_credentials_is_judged(kafka: Secured, tmp_path: Path, client: str) -> None:
    properties = kafka.properties(tmp_path)
    status, said = run(kafka, tmp_path, client, properties)
    assert (status, "VALID" in said) == (0, True), said
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != properties]
    assert not [path for path in written if PASSWORD.encode() in path.read_bytes()] and PASSWORD not in said


def test_wrong_credentials_are_refused(kafka: Secured, tmp_path: Path) -> None:
    status, said = run(kafka, tmp_path, "native", kafka.properties(tmp_path, password="another"))
    assert (status, "the cluster refused the credentials" in said) == (254, True), said


def test_plain_connections_are_refused(kafka: Secured, tmp_path: Path) -> None:
    status, said = run(kafka, tmp_path, "native", None)
    assert (status, "no bootstrap address answers as a Kafka broker" in said) == (254, True), said
