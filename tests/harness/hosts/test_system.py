"""What `SquallNodes` makes of an inventory and a suite: ids, listeners, processes, and refusals before the start."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import HostKind, HostPaths
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.system import (
    ClusterSettings,
    NodePlan,
    SquallNodes,
    collect_logs,
    deploy_all,
    number_nodes,
    remove_run,
    write_files,
)
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.nodes.config import NodeConfig
from squall.nodes.node.formatting import initial_controllers


def host(name: str, number: int, *groups: str, rack: str | None = None, data: tuple[str, ...] = ()) -> HostSpec:
    return HostSpec(name, f"10.0.0.{number}", groups, rack=rack, data_dirs=data)


SEPARATE = Inventory(
    "inventory.yaml",
    (
        host("c1", 1, "controllers"),
        host("b1", 2, "brokers", rack="r1"),
        host("b2", 3, "brokers", data=("/data/1",)),
        host("load1", 9, "clients"),
    ),
)
COMBINED = Inventory(
    "inventory.yaml",
    (host("n1", 1, "controllers", "brokers"), host("n2", 2, "controllers"), host("n3", 3, "brokers")),
)


def configure(inventory: Inventory, **settings: object) -> dict[str, NodePlan]:
    places = {one.name: HostPaths("/usr/bin/python3", "/root", "/root/.squall/bundles/x") for one in inventory.hosts}
    return SquallNodes().configure(inventory, places, ClusterSettings("run-1", **settings))  # type: ignore[arg-type]


def parsed(plan: NodePlan) -> NodeConfig:
    ((path, text),) = plan.files.items()
    return NodeConfig.parse(text, path)


def test_every_broker_and_controller_gets_a_node_and_clients_get_none() -> None:
    assert list(configure(SEPARATE)) == ["c1", "b1", "b2"]


def test_brokers_are_numbered_from_1_and_mere_controllers_from_101() -> None:
    assert number_nodes(SEPARATE) == {"b1": 1, "b2": 2, "c1": 101}
    assert number_nodes(COMBINED) == {"n1": 1, "n3": 2, "n2": 101}


def test_the_node_accepts_the_configuration_it_is_given() -> None:
    config = parsed(configure(SEPARATE)["b1"])
    assert config.process_roles == ("broker",) and config.node_id == 1 and config.broker_rack == "r1"
    assert [str(one) for one in config.listeners] == ["PLAINTEXT://10.0.0.2:9092"]
    assert [str(one) for one in config.controller_quorum_voters] == ["101@10.0.0.1:9093"]
    assert str(config.metrics_listener) == "10.0.0.2:9404"


def test_dynamic_voters_are_formatted_and_nodes_find_the_quorum() -> None:
    """KIP-853: every controller begins with the same list, in which it finds its own directory."""
    plans = configure(COMBINED, dynamic_voters=True)
    config = parsed(plans["n3"])
    assert config.has_dynamic_voters
    assert [str(one) for one in config.controller_quorum_bootstrap_servers] == ["10.0.0.1:9093", "10.0.0.2:9093"]
    assert plans["n3"].preparation == ()
    assert "squall.nodes.server.format" in plans["n1"].preparation
    lists = [initial_controllers(plans[name].preparation[-1]) for name in ("n1", "n2")]
    assert lists[0] == lists[1]
    assert [(one.id, one.host, one.port) for one in lists[0].listed] == [(1, "10.0.0.1", 9093), (101, "10.0.0.2", 9093)]
    assert configure(COMBINED)["n1"].preparation == ()


def test_a_host_in_both_groups_runs_one_combined_node() -> None:
    plan = configure(COMBINED)["n1"]
    assert plan.roles == ("broker", "controller") and plan.is_broker
    assert {one.port for one in parsed(plan).listeners} == {9092, 9093}


def test_the_suites_configuration_has_the_last_word() -> None:
    config = parsed(
        configure(SEPARATE, config={"replica.lag.time.max.ms": 2000, "auto.create.topics.enable": True})["b1"]
    )
    assert config.replica_lag_time_max_ms == 2000 and config.auto_create_topics_enable


def test_a_misspelt_key_of_the_suite_is_refused_before_anything_starts() -> None:
    with pytest.raises(
        UsageError, match=r"cluster\.config: replica\.lag\.tme\.max\.ms=.*did you mean replica\.lag\.time"
    ):
        configure(SEPARATE, config={"replica.lag.tme.max.ms": 2000})


def test_mutants_go_onto_the_command_line() -> None:
    argv = configure(SEPARATE, mutants=("ack-before-replication",))["b1"].process.argv
    assert argv[-2:] == ("--mutant", "ack-before-replication")


def test_data_lies_where_the_inventory_says_in_a_directory_of_the_runs_own() -> None:
    plans = configure(SEPARATE)
    assert parsed(plans["b2"]).log_dirs == "/data/1/squall-run-1"
    assert parsed(plans["b1"]).log_dirs == "/root/.squall/runs/run-1/data"
    assert parsed(plans["b2"]).log_dirs in plans["b2"].directories


def test_several_data_directories_are_refused() -> None:
    wrong = dataclasses.replace(SEPARATE, hosts=(*SEPARATE.hosts, host("b3", 4, "brokers", data=("/a", "/b"))))
    with pytest.raises(UsageError, match=r"b3: data_dirs: /a, /b are 2 directories\n    .*name one"):
        configure(wrong)


def test_runs_have_cluster_ids_of_their_own() -> None:
    places = {one.name: HostPaths("python3", "/root", "/b") for one in SEPARATE.hosts}
    ids = {
        parsed(plan).cluster_id
        for run in ("run-1", "run-2")
        for plan in SquallNodes().configure(SEPARATE, places, ClusterSettings(run)).values()
    }
    assert len(ids) == 2 and all(len(one) == 22 for one in ids)


def test_an_inventory_without_brokers_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one controller and one broker"):
        configure(Inventory("inventory.yaml", (host("c1", 1, "controllers"),)))


def test_the_process_is_defined_in_the_agents_words() -> None:
    arguments = configure(SEPARATE)["c1"].process.arguments()
    known = {"name", "argv", "env", "cwd", "log", "stop_signal", "data", "ledger", "disk_calls", "ports", "config"}
    assert set(arguments) == known
    assert arguments["argv"][1:4] == ["-u", "-m", "squall.nodes"]  # type: ignore[index]
    assert arguments["argv"][4:8:2] == ["--config", "--ledger"]  # type: ignore[index]
    assert arguments["argv"][7] == arguments["ledger"]  # type: ignore[index]


def test_a_node_writes_a_control_trace_that_is_fetched_with_its_log() -> None:
    """HX-05: and its host can describe its logs."""
    plan = configure(SEPARATE)["b1"]
    assert plan.process.argv[-2:] == ("--control-trace", plan.trace)
    assert plan.trace in plan.logs
    assert plan.digest[-4:-1] == ("-m", "squall.nodes.server.digest", plan.process.data)


def test_an_agent_learns_a_nodes_kafka_address_and_not_its_metrics_address() -> None:
    ports = {name: plan.process.arguments()["ports"] for name, plan in configure(SEPARATE).items()}
    assert (ports["b1"], ports["c1"]) == ([9092], [9093])


def test_disk_calls_are_watched_where_faults_are_about_them_and_nowhere_else() -> None:
    assert configure(SEPARATE)["b1"].process.arguments()["disk_calls"] == []
    assert configure(SEPARATE, disk_calls=("fsync",))["b1"].process.arguments()["disk_calls"] == ["fsync"]


@pytest.mark.lab
@pytest.mark.xdist_group("hosts")
def test_files_of_a_run_are_written_fetched_and_removed(b1: Remote, c1: Remote, tmp_path: Path) -> None:
    system = SquallNodes()
    deployed = deploy_all([b1, c1], system)
    assert deployed["b1"].bundle is deployed["c1"].bundle is system.bundle(HostKind.here())
    inventory = Inventory("lab", (b1.spec, c1.spec))
    places = {name: one.place for name, one in deployed.items()}
    plan = system.configure(inventory, places, ClusterSettings("files"))["b1"]
    write_files(b1, plan)
    b1.run(["cp", "/etc/hostname", plan.process.log], check=True)
    fetched = collect_logs(b1, plan, tmp_path)
    assert (tmp_path / "b1/node.log").read_text() == "b1\n"
    assert {path.name for path in fetched} == {"node.log", "node.properties"}
    remove_run(b1, plan)
    assert not b1.run(["test", "-e", plan.directories[0]]).ok
