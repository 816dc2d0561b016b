"""What `SquallOnZooKeeper` makes of an inventory: brokers that know the ensemble, and servers that know each other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import HostPaths
from squall.harness.hosts.system import ClusterSettings, NodePlan, system_of
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.scenario.suite import load_suite
from squall.harness.systems.zookeeper.system import SquallOnZooKeeper
from squall.nodes.config import NodeConfig
from tests.docs.test_readme import ROOT

BROKERS = (HostSpec("b1", "10.0.0.1", ("brokers",), rack="r1"), HostSpec("b2", "10.0.0.2", ("brokers",)))
SERVERS = tuple(HostSpec(f"z{number}", f"10.0.0.1{number}", ("zookeeper",)) for number in (1, 2, 3))


def configure(*hosts: HostSpec, **config: str) -> dict[str, NodePlan]:
    places = {
        one.name: HostPaths("/usr/bin/python3", "/root", "/root/.squall/bundles/x", programs="/jars") for one in hosts
    }
    settings = ClusterSettings("run-1", config)
    return SquallOnZooKeeper().configure(Inventory("inventory.yaml", hosts), places, settings)


def file(plan: NodePlan, name: str) -> str:
    return next(text for path, text in plan.files.items() if path.endswith(name))


def test_brokers_are_configured_with_the_ensemble_and_without_a_quorum() -> None:
    plans = configure(*BROKERS, *SERVERS, **{"zookeeper.session.timeout.ms": "4000"})
    config = NodeConfig.parse(file(plans["b1"], "node.properties"))
    assert str(config.zookeeper_connect) == "10.0.0.11:2181,10.0.0.12:2181,10.0.0.13:2181"
    assert (config.node_id, config.process_roles, config.controller_quorum_voters) == (1, ("broker",), ())
    assert (config.broker_rack, config.zookeeper_session_timeout_ms) == ("r1", 4000)
    assert plans["b1"].preparation == ()


def test_servers_know_their_number_and_the_others() -> None:
    plans = configure(*BROKERS, *SERVERS)
    assert {name: (one.node_id, one.roles, one.port) for name, one in plans.items() if name.startswith("z")} == {
        "z1": (201, ("zookeeper",), 2181),
        "z2": (202, ("zookeeper",), 2181),
        "z3": (203, ("zookeeper",), 2181),
    }
    assert "server.3=10.0.0.13:2888:3888\n" in file(plans["z1"], "zoo.cfg")
    assert "clientPortAddress=10.0.0.12\n" in file(plans["z2"], "zoo.cfg")


def test_a_single_server_is_no_quorum() -> None:
    assert "server." not in file(configure(*BROKERS, SERVERS[0])["z1"], "zoo.cfg").replace("server.start", "")


def test_the_launcher_becomes_the_server_and_writes_its_number_again(tmp_path: Path) -> None:
    plan = configure(*BROKERS, *SERVERS)["z2"]
    script, jars, data = file(plan, "zookeeper.sh"), tmp_path / "jars", tmp_path / "data"
    for directory in (jars, data):
        directory.mkdir()
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\necho "$$ $*" > "$PWD/ran"\n')
    java.chmod(0o755)
    text = script.replace("/jars", str(jars)).replace(plan.process.data, str(data))
    ran = subprocess.Popen(["/bin/sh", "-c", text], env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert ran.wait(10) == 0
    process, *arguments = (jars / "ran").read_text().split()
    assert (int(process), arguments[-2]) == (ran.pid, "org.apache.zookeeper.server.quorum.QuorumPeerMain")
    assert (data / "myid").read_text() == "2\n"


@pytest.mark.parametrize("hosts", [BROKERS, SERVERS])
def test_an_inventory_without_brokers_or_servers_is_refused(hosts: tuple[HostSpec, ...]) -> None:
    with pytest.raises(UsageError, match=r"`metadata: zookeeper` needs .* groups zookeeper and brokers"):
        configure(*hosts)


def test_a_host_runs_a_broker_or_a_server() -> None:
    both = HostSpec("n1", "10.0.0.1", ("brokers", "zookeeper"))
    with pytest.raises(UsageError, match="n1 is in the groups zookeeper and brokers"):
        configure(both)


def test_settings_of_a_quorum_are_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match=r"controller.quorum.voters.*belongs to a cluster with a quorum"):
        configure(*BROKERS, *SERVERS, **{"controller.quorum.voters": "101@c1:9093"})


def test_a_suite_chooses_it_and_gets_a_lab_with_servers() -> None:
    one, three, *_ = load_suite(ROOT / "suites" / "zk-baseline-safety.yaml").scenarios
    assert isinstance(system_of(one.cluster.system, one.cluster.metadata), SquallOnZooKeeper)
    assert [name for name, _ in one.cluster.lab.names()] == ["b1", "b2", "b3", "z1"]
    assert three.cluster.lab.counts == (0, 3, 3, 0)
