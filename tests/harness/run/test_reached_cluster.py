"""Runs on a cluster that is up already: our own nodes on loopback, which the run finds by an address."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts.network import MachineNetwork
from squall.harness.loopback.loopback import Cluster, free_ports
from squall.harness.run.reached import ReachedTestbed
from squall.workloads.clients.common.client import Topic

SUITE = """
scenario: reached
cluster: {topics: {there: {partitions: 2, replication_factor: 1, min_insync_replicas: 1}}}
workload: {name: log, client: native, producers: 1, consumers: 1, rate: 200/s}
fault_free: true
time: {load: 2s, settle: 10s}
min_acknowledged: 50
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.combined() as found:
        found.wait_until_ready()
        yield found


def squall(directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    (directory / "suite.yaml").write_text(SUITE)
    command = [sys.executable, "-m", "squall.harness.cli.main", "run", str(directory / "suite.yaml"), "--seed", "1"]
    command += ["--in-process", "--no-lake", "--runs-dir", str(directory / "runs"), *more]
    environment = os.environ | {"COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=directory)


def topics_of(cluster: Cluster) -> set[str]:
    async def asked() -> set[str]:
        testbed = reached(cluster)
        return {one.name or "" for one in (await testbed._metadata()).topics}

    return asyncio.run(asked())


def reached(cluster: Cluster) -> ReachedTestbed:
    host, _, port = cluster.bootstrap.partition(",")[0].rpartition(":")
    return ReachedTestbed(MachineNetwork(), {"there": 1}, [(host, int(port))], {})


def test_a_run_is_judged_and_leaves_nothing_there(cluster: Cluster, tmp_path: Path) -> None:
    ran = squall(tmp_path, "--system", f"cluster:{cluster.bootstrap}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "a cluster that runs already" in ran.stdout and "VALID" in ran.stdout
    manifest = json.loads(next((tmp_path / "runs").glob("reached/*/run.json")).read_text())
    assert manifest["hosts"] == [] and manifest["final_read"] == "complete"
    assert topics_of(cluster) == set()


def test_a_topic_that_is_there_already_is_not_touched(cluster: Cluster) -> None:
    async def both() -> None:
        first, second = reached(cluster), reached(cluster)
        await first.deploy(None, None)  # type: ignore[arg-type]
        await first.admin.create_topics([Topic("there", 1, 1, ())])
        with pytest.raises(UsageError, match="there is a topic there already; a run judges only topics that it has"):
            await second.deploy(None, None)  # type: ignore[arg-type]
        await second.close()
        assert {one.name for one in (await first._metadata()).topics} == {"there"}
        await first.close()

    asyncio.run(both())
    assert topics_of(cluster) == set()


def test_an_address_without_a_broker_is_refused() -> None:
    (port,) = free_ports(1)
    testbed = ReachedTestbed(MachineNetwork(), {}, [("127.0.0.1", port)], {})
    with pytest.raises(UsageError, match="no bootstrap address answers as a Kafka broker"):
        asyncio.run(testbed.deploy(None, None))  # type: ignore[arg-type]


def test_a_broker_that_calls_itself_otherwise_is_refused(cluster: Cluster) -> None:
    """As behind a tunnel: it answers at one address, and nothing listens at the one that it advertises."""
    (port,) = free_ports(1)
    testbed = reached(cluster)
    with pytest.raises(UsageError, match=f"broker 1 calls itself 127.0.0.1:{port}, which does not answer from here"):
        asyncio.run(testbed._refuse_unreachable({1: ("127.0.0.1", port)}))


def test_credentials_that_do_not_fit_are_refused_and_kept_nowhere(cluster: Cluster, tmp_path: Path) -> None:
    """Our nodes know no SASL; they end the connection."""
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=hunter2\n"
    )
    ran = squall(tmp_path, "--system", f"cluster:{cluster.bootstrap}", "--client-properties", str(properties))
    said = ran.stdout + ran.stderr
    assert (ran.returncode, "closed the connection while we authenticated" in said) == (254, True), said
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != properties]
    assert not [path for path in written if b"hunter2" in path.read_bytes()]
