"""etcd as a system: command lines, what the members' answers add up to, refusals before the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import HostPaths
from squall.harness.hosts.system import ClusterSettings, NodePlan
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.scenario.plan import plan_suite
from squall.harness.scenario.suite import load_suite
from squall.harness.scenario.suites import SHIPPED
from squall.harness.systems.etcd.admin import Status, state_of
from squall.harness.systems.etcd.system import Etcd

TWO = Inventory("inventory.yaml", (HostSpec("b1", "10.0.0.1", ("brokers",)), HostSpec("b2", "10.0.0.2", ("brokers",))))
ADDRESSES = {1: "10.0.0.1", 2: "10.0.0.2", 3: "10.0.0.3"}
IDS = {1: 101, 2: 102, 3: 103}


def configure(**settings: Any) -> dict[str, NodePlan]:
    place = HostPaths("/usr/bin/python3", "/root", "/root/.squall/bundles/x", programs="/cache/etcd")
    return Etcd().configure(TWO, {one.name: place for one in TWO.hosts}, ClusterSettings("run-1", **settings))


def status(number: int, leader: int, term: int = 5) -> Status:
    return Status(number, IDS[number], IDS.get(leader, 0), term)


def test_each_broker_is_a_member_of_one_new_cluster() -> None:
    argv = configure(config={"election-timeout": 500})["b2"].process.argv
    assert argv[:3] == ("/cache/etcd/server", "--name=b2", "--data-dir=/root/.squall/runs/run-1/data")
    assert "--listen-client-urls=http://10.0.0.2:9092" in argv and "--initial-cluster-token=run-1" in argv
    assert "--initial-cluster=b1=http://10.0.0.1:2380,b2=http://10.0.0.2:2380" in argv
    assert argv[-1] == "--election-timeout=500"


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"election-timout": 500}, "cluster.config.election-timout: .*did you mean `election-timeout`"),
        ({"snapshot-count": "many"}, "cluster.config.snapshot-count: is no whole number"),
    ],
)
def test_a_setting_that_a_member_does_not_take_is_refused(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        configure(config=config)


def test_a_status_is_read_as_the_gateway_writes_it() -> None:
    said = {"header": {"member_id": "102", "raft_term": "5"}, "leader": "101", "raftTerm": "5", "raftIndex": "9"}
    assert Status.of(2, said) == Status(2, 102, 101, 5)
    assert Status.of(2, {"header": {"member_id": "102"}}) == Status(2, 102, 0, 0)


def test_members_that_follow_the_leader_in_its_term_are_in_sync() -> None:
    state = state_of([status(1, 1), status(2, 1), status(3, 0)], ADDRESSES, 9092, ["keys"])
    (one,) = state.partitions
    assert (one.leader, one.leader_epoch, one.in_sync, one.replicas) == (1, 5, (1, 2), (1, 2, 3))
    assert (state.controller, state.controller_epoch, len(state.brokers)) == (1, 5, 3)


def test_a_leader_that_is_cut_off_is_outvoted_by_a_later_term() -> None:
    state = state_of([status(1, 1, 5), status(2, 3, 6), status(3, 3, 6)], ADDRESSES, 9092, ["keys"])
    assert (state.partitions[0].leader, state.partitions[0].in_sync) == (3, (2, 3))


def test_without_a_leader_no_member_is_in_sync() -> None:
    state = state_of([status(1, 0), status(2, 0)], ADDRESSES, 9092, ["keys"])
    assert (state.partitions[0].leader, state.partitions[0].in_sync, state.controller) == (None, (), None)
    gone = state_of([status(2, 1), status(3, 1)], ADDRESSES, 9092, ["keys"])
    assert gone.partitions[0].leader is None, "it does not answer"


def test_the_shipped_suite_has_registers_a_watch_and_a_negative_control(tmp_path: Path) -> None:
    plans = list(plan_suite(load_suite(SHIPPED / "etcd.yaml"), 1, tmp_path))
    assert {plan.name: (plan.scenario.load.name, plan.scenario.load.client) for plan in plans} == {
        "etcd-registers": ("register", "program"),
        "etcd-watch": ("log", "program"),
        "etcd-serializable-reads": ("register", "program"),
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("nemesis: [{fault: wipe-disk, target: b1, at: 1s, for: 1s}]", "etcd: wipe-disk: a member without its data"),
        ("workload: {name: log, list_offsets: 0.1}", "workload: etcd: list_offsets"),
        ("workload: {name: produce-bench}", "workload.name: etcd: produce-bench: it has clients for register, log"),
    ],
)
def test_what_a_suite_asks_in_vain_is_refused_when_it_is_planned(tmp_path: Path, changed: str, words: str) -> None:
    file = tmp_path / "suite.yaml"
    cluster = "cluster: {system: etcd, topics: {keys: {partitions: 1}}}"
    rest = "" if changed.startswith("nemesis") else "\nfault_free: true"
    file.write_text(f"scenario: one\n{cluster}\n{changed}{rest}\n")
    with pytest.raises(UsageError, match=words):
        list(plan_suite(load_suite(file), 1, tmp_path))
