"""NATS JetStream as a system: configurations, what the servers' answers add up to, refusals before the start."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from nats.js.api import ClusterInfo, PeerInfo, StreamConfig, StreamInfo, StreamState

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import HostKind, HostPaths
from squall.harness.hosts.system import ClientSystem, ClusterSettings, FetchedSystem, NodePlan, ObservedSystem
from squall.harness.load.tcp import SocketsHere
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.scenario.lab_topology import LabTopology
from squall.harness.scenario.plan import plan_suite, planned
from squall.harness.scenario.suite import Suite, load_suite
from squall.harness.scenario.suites import SHIPPED
from squall.harness.systems import go_servers
from squall.harness.systems.go_servers import Member
from squall.harness.systems.nats.admin import NatsAdmin
from squall.harness.systems.nats.streams import all_replicas, replicas_of
from squall.harness.systems.nats.system import NatsJetStream

THREE = Inventory(
    "inventory.yaml",
    (
        HostSpec("b1", "10.0.0.1", ("brokers",)),
        HostSpec("b2", "10.0.0.2", ("brokers",), data_dirs=("/data/1",)),
        HostSpec("load1", "10.0.0.9", ("clients",)),
    ),
)
NUMBERS = {"b1": 1, "b2": 2, "b3": 3}


def configure(inventory: Inventory = THREE, **settings: Any) -> dict[str, NodePlan]:
    place = HostPaths("/usr/bin/python3", "/root", "/root/.squall/bundles/x", programs="/cache/nats")
    return NatsJetStream().configure(
        inventory, {one.name: place for one in inventory.hosts}, ClusterSettings("run-1", **settings)
    )


def suite(path: Path, **changes: str) -> Suite:
    """The shipped suite, with lines in place of others."""
    text = (SHIPPED / "nats.yaml").read_text()
    for old, new in changes.items():
        (line,) = [one for one in text.splitlines() if one.strip().startswith(old.replace("_", " "))]
        text = text.replace(line, new)
    file = path / "suite.yaml"
    file.write_text(text)
    return load_suite(file)


def test_each_broker_is_a_server_that_knows_all_routes() -> None:
    plans = configure()
    assert {name: (plan.node_id, plan.roles, plan.process.argv[0]) for name, plan in plans.items()} == {
        "b1": (1, ("broker",), "/cache/nats/server"),
        "b2": (2, ("broker",), "/cache/nats/server"),
    }
    (text,) = plans["b2"].files.values()
    assert "server_name: b2\nlisten: 10.0.0.2:9092\nhttp: 10.0.0.2:8222\n" in text
    assert 'store_dir: "/data/1/squall-run-1"' in text
    assert "routes: [nats://10.0.0.1:6222, nats://10.0.0.2:6222]" in text and 'name: "run-1"' in text


def test_a_setting_of_the_suite_stands_among_those_of_jetstream() -> None:
    (text,) = configure(config={"sync_interval": "always"})["b1"].files.values()
    assert 'jetstream {\n  store_dir: "/root/.squall/runs/run-1/data"\n  sync_interval: always\n}' in text


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"mutants": ("ack-before-replication",)}, "cluster.mutants: nats: it has no seeded bugs"),
        ({"disk_calls": ("fsync",)}, "disk calls fsync"),
        ({"config": {"sync_intervall": "always"}}, "cluster.config.sync_intervall: .*did you mean `sync_interval`"),
        ({"config": {"sync_interval": "often"}}, "cluster.config.sync_interval: .*a duration such as 2m"),
    ],
)
def test_what_a_server_does_not_take_is_refused_by_name(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        configure(**settings)


def test_it_brings_its_programs_its_observer_and_its_clients() -> None:
    system = NatsJetStream()
    assert isinstance(system, FetchedSystem) and isinstance(system, ObservedSystem) and isinstance(system, ClientSystem)
    assert system.client_program("log", "/there") == ("/there/client",)
    assert system.version == NatsJetStream.limits.versions[0] == "2.12.1"


def test_a_host_of_another_architecture_is_refused() -> None:
    with pytest.raises(UsageError, match="a host is a riscv64"):
        NatsJetStream().bundle(HostKind("cpython", (3, 11), "riscv64", "glibc"))


def test_without_go_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"no go on PATH.*\n.*install Go"):
        NatsJetStream().fetch(print)


def test_programs_of_the_same_content_are_one_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = {"server": tmp_path / "nats-server-2.12.1-0123456789abcdef", "client": tmp_path / "nats-client-fedcba98"}
    for name, path in made.items():
        path.write_text(name)
    monkeypatch.setattr(go_servers, "go_program", lambda name, package, say: made["server"])
    monkeypatch.setattr(go_servers, "built", lambda module, package, say: made["client"])
    monkeypatch.setattr("squall.harness.hosts.libraries.libraries_root", lambda: tmp_path / "libraries")
    system = NatsJetStream()
    system.fetch(print)
    library = system.library()
    assert library.name == "nats-server-2.12.1-0123456789abcdef-fedcba98"
    assert (library.directory / "server").read_text() == "server"
    assert (library.directory / "client").read_text() == "client"


# --- suites ----------------------------------------------------------------------------------------------------------


def test_the_suite_has_servers_alone_and_the_systems_own_client(tmp_path: Path) -> None:
    (plan,) = plan_suite(suite(tmp_path), 1, tmp_path)
    assert plan.scenario.cluster.lab.names() == [("b1", "brokers"), ("b2", "brokers"), ("b3", "brokers")]
    assert plan.scenario.load.client == "program" and not plan.scenario.compares_replicas


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"brokers:": "  controllers: 3\n  brokers: 3"}, "cluster.controllers: nats: its servers are all alike"),
        ({"events:": "    events: {partitions: 4}"}, "cluster.topics.events: nats: a stream is one topic-partition"),
        (
            {"events:": "    events: {partitions: 1, replication_factor: 3, min_insync_replicas: 1}"},
            "cluster.topics.events: nats: .*min_insync_replicas must be 2",
        ),
        ({"brokers:": "  brokers: 3\n  config: {sync: always}"}, "cluster.config.sync: nats: "),
        ({"workload:": "workload: {name: log, client: confluent}"}, "workload.client: nats: confluent speaks Kafka"),
        ({"workload:": "workload: {name: metadata}"}, "workload.name: nats: metadata: it has clients for log"),
        (
            {"workload:": "workload: {name: register}"},
            "workload.program: nats: it brings no client program for register",
        ),
        ({"workload:": "workload: {name: log, acks: '1', idempotent: false}"}, "workload: nats: acks: 1"),
        ({"workload:": "workload: {name: log, delete_records: 0.1}"}, "workload: nats: delete_records"),
        (
            {"-_{fault:_pause": "  - {fault: power-loss, target: b1, at: 38s, for: 6s}"},
            "nats: power-loss: its nodes keep no ledger",
        ),
        (
            {"-_{fault:_pause": "  - {fault: rpc-hold, api: Fetch, direction: request, from: b1, at: 38s, for: 6s}"},
            "nats: rpc-hold: it does not speak Kafka's protocol",
        ),
    ],
)
def test_what_a_suite_asks_in_vain_is_refused_when_it_is_planned(
    tmp_path: Path, changes: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        list(plan_suite(suite(tmp_path, **changes), 1, tmp_path))


def test_hosts_that_would_be_controllers_are_refused(tmp_path: Path) -> None:
    with_controllers = Inventory("lab.yaml", lab=LabTopology(controllers=1, brokers=3))
    (refused,) = planned(suite(tmp_path), 1, tmp_path, place=with_controllers)
    assert "lab.yaml: c1 would run controllers; nats: its servers are all alike" in getattr(refused, "problem", "")
    (fine,) = planned(
        suite(tmp_path), 1, tmp_path, place=Inventory("lab.yaml", lab=LabTopology(controllers=0, brokers=3))
    )
    assert getattr(fine, "seed", None) == 1


# --- what servers answer ---------------------------------------------------------------------------------------------


def info(leader: str | None, *peers: tuple[str, bool, bool]) -> StreamInfo:
    replicas = [PeerInfo(name=name, current=current, offline=offline) for name, current, offline in peers]
    state = StreamState(messages=0, bytes=0, first_seq=0, last_seq=0, consumer_count=0)
    return StreamInfo(StreamConfig(name="events"), state, cluster=ClusterInfo(leader=leader, replicas=replicas))


@pytest.mark.parametrize(
    ("found", "leader", "in_sync", "replicas"),
    [
        (info("b2", ("b1", True, False), ("b3", True, False)), 2, (1, 2, 3), (1, 2, 3)),
        (info("b2", ("b1", False, False), ("b3", True, True)), 2, (2,), (1, 2, 3)),
        (info(None, ("b1", True, False)), -1, (), (1,)),
    ],
)
def test_replicas_in_sync_are_the_leader_and_those_that_are_current(
    found: StreamInfo, leader: int, in_sync: tuple[int, ...], replicas: tuple[int, ...]
) -> None:
    assert replicas_of(found, NUMBERS) == (leader, in_sync) and all_replicas(found, NUMBERS) == replicas


class Answers(NatsAdmin):
    """An admin of three servers that answer as the test says; None does not answer."""

    def __init__(self, meta: dict[str, str | None], streams: dict[str, StreamInfo | None]) -> None:
        members = [Member(number, name, f"10.0.0.{number}") for name, number in NUMBERS.items()]
        super().__init__(SocketsHere(), members, 9092, 8222)
        self.meta, self.streams = meta, streams

    def _monitored(self, name: str) -> dict[str, Any] | None:
        leader = self.meta[name]
        return None if leader is None else {"meta_cluster": {"leader": leader}}

    async def _info(self, name: str, topic: str) -> StreamInfo | None:
        return self.streams.get(name)


def test_a_leader_that_is_cut_off_is_outvoted() -> None:
    stale, true = (
        info("b1", ("b2", False, False), ("b3", False, False)),
        info("b2", ("b1", False, False), ("b3", True, False)),
    )
    admin = Answers({"b1": "b1", "b2": "b3", "b3": "b3"}, {"b1": stale, "b2": true, "b3": true})
    state = asyncio.run(admin.describe(["events"]))
    (one,) = state.partitions
    assert (one.leader, one.in_sync, one.replicas, state.controller) == (2, (2, 3), (1, 2, 3), 3)


def test_servers_that_do_not_answer_are_not_live() -> None:
    admin = Answers({"b1": "", "b2": None, "b3": None}, {})
    state = asyncio.run(admin.describe(["events"]))
    assert ([number for number, *_ in state.brokers], state.partitions, state.controller) == ([1], (), None)
    with pytest.raises(ConnectionError, match="no server answers"):
        asyncio.run(Answers(dict.fromkeys(NUMBERS), {}).describe())
