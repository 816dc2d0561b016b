"""What `KafkaOnZooKeeper` makes of an inventory: brokers that know the ensemble, servers from Kafka's own jars."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import HostPaths
from squall.harness.hosts.system import ClusterSettings, NodePlan, system_of
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.scenario.system_choice import SystemChoice
from squall.harness.systems.kafka.versions import ON_ZOOKEEPER, VERSIONS
from squall.harness.systems.zookeeper.kafka_on_zookeeper import KafkaOnZooKeeper
from tests.facts import naming

HOSTS = (
    HostSpec("b1", "10.0.0.1", ("brokers",), rack="r1"),
    HostSpec("b2", "10.0.0.2", ("brokers",)),
    *(HostSpec(f"z{number}", f"10.0.0.1{number}", ("zookeeper",)) for number in (1, 2, 3)),
)
SETTINGS = ClusterSettings("run-1", {"zookeeper.session.timeout.ms": 4000})


def configure(
    settings: ClusterSettings = SETTINGS, hosts: tuple[HostSpec, ...] = HOSTS, home: str = "/root"
) -> dict[str, NodePlan]:
    places = {one.name: HostPaths("/usr/bin/python3", home, f"{home}/bundle", programs=home) for one in hosts}
    return KafkaOnZooKeeper("3.9.2").configure(Inventory("inventory.yaml", hosts), places, settings)


def file(plan: NodePlan, ending: str) -> str:
    return next(text for path, text in plan.files.items() if path.endswith(ending))


def test_brokers_have_the_ensemble_and_no_quorum() -> None:
    plans = configure()
    found = dict(line.split("=", 1) for line in file(plans["b1"], "node.properties").splitlines())
    assert found["zookeeper.connect"] == "10.0.0.11:2181,10.0.0.12:2181,10.0.0.13:2181"
    assert (found["broker.id"], found["broker.rack"], found["zookeeper.session.timeout.ms"]) == ("1", "r1", "4000")
    assert found["listeners"] == "PLAINTEXT://10.0.0.1:9092" and found["log.retention.ms"] == "-1"
    assert not {key for key in found if key.startswith(("process.roles", "node.id", "controller."))}
    assert (plans["b1"].preparation, plans["b1"].process.ports) == ((), (9092,))


def test_a_listener_for_the_controller_is_placed_as_for_our_brokers() -> None:
    text = file(configure(ClusterSettings("run-1", {"control.plane.listener.name": "CONTROLLER"}))["b1"], ".properties")
    assert "listeners=PLAINTEXT://10.0.0.1:9092,CONTROLLER://10.0.0.1:9093\n" in text


def test_servers_run_the_zookeeper_of_kafkas_jars() -> None:
    plans = configure()
    assert [(one.node_id, one.roles) for name, one in plans.items() if name.startswith("z")] == [
        (201, ("zookeeper",)),
        (202, ("zookeeper",)),
        (203, ("zookeeper",)),
    ]
    assert "zookeeper-3.8.4.jar" in file(plans["z1"], "zookeeper.sh")
    assert "server.3=10.0.0.13:2888:3888\n" in file(plans["z1"], "zoo.cfg")


FAKE_JAVA = """#!/bin/sh
for last; do :; done
case "$*" in
*ZooKeeperMain*) cat > "$NOTED.asked"; cat "$NOTED.answer" ;;
*) echo "$$ $last" > "$NOTED.ran" ;;
esac
"""
"""Notes what the ensemble is asked, and answers what is given; else notes the node's configuration."""


@pytest.mark.parametrize("known", [True, False])
def test_the_launcher_writes_the_clusters_id_once_and_becomes_the_broker(tmp_path: Path, known: bool) -> None:
    java = tmp_path / "java"
    java.write_text(FAKE_JAVA)
    java.chmod(0o755)
    plan = configure(home=str(tmp_path))["b1"]
    Path(plan.process.data).mkdir(parents=True)
    for path, text in plan.files.items():
        Path(path).write_text(text)
    content = f'{{"version":"1","id":"{SETTINGS.cluster_id}"}}'
    noted = tmp_path / "noted"
    (tmp_path / "noted.answer").write_text(f"Created\n{content}\n" if known else "KeeperErrorCode = ConnectionLoss\n")
    environment = os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin", "NOTED": str(noted)}

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(plan.process.argv, env=environment, stderr=subprocess.PIPE, text=True)

    first = started()
    said = first.communicate(timeout=20)[1]
    asked = (tmp_path / "noted.asked").read_text().splitlines()
    assert asked[:2] == ["create /cluster", f"create /cluster/id {content}"]
    if not known:
        assert first.returncode == 1 and "ConnectionLoss" in said and not Path(f"{noted}.ran").exists()
        return
    assert Path(f"{noted}.ran").read_text().split() == [str(first.pid), plan.process.config]
    Path(plan.process.data, "meta.properties").touch()
    (tmp_path / "noted.asked").unlink()
    assert started().wait(20) == 0 and not (tmp_path / "noted.asked").exists(), "the id is written at the first start"


@pytest.mark.parametrize("version", [one for one in VERSIONS if one not in ON_ZOOKEEPER])
def test_a_version_without_zookeeper_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match=naming(version, "3.9.2")):
        KafkaOnZooKeeper(version).configure(Inventory("inventory.yaml", HOSTS), {}, SETTINGS)


@pytest.mark.parametrize("group", ["brokers", "zookeeper"])
def test_an_inventory_without_brokers_or_servers_is_refused(group: str) -> None:
    with pytest.raises(UsageError, match=naming("zookeeper", "brokers")):
        configure(hosts=tuple(one for one in HOSTS if group not in one.groups))


def test_a_suite_that_chooses_both_gets_it() -> None:
    chosen = SystemChoice(name="kafka", version="3.9.2")
    assert isinstance(system_of(chosen, "zookeeper"), KafkaOnZooKeeper)
    assert chosen.why_not_on_zookeeper is None
