"""A tour of administration with real admin clients, and two witnesses after every step.

kafka-python and confluent-kafka create, enlarge, describe, alter, move, elect, trim and delete. After every step
the metadata of kcat (`kcat -L -J`) must say the same as `squall cluster describe --json`: brokers, topics, leaders,
replicas, ISR. Both ask the same broker, which may learn of a step a moment after it was answered; so agreement *and*
what the step did are awaited together, with a deadline.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import kafka.admin
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType

from squall.harness.cli.main import status_of
from tests.clusters import Cluster
from tests.interop.clients import DEADLINE_S, ConfluentKafka, KafkaPython
from tests.interop.records import sample
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("interop")
Partitions = dict[int, tuple[int, frozenset[int], frozenset[int]]]
"""Leader, replicas and ISR by partition."""


@dataclass(frozen=True)
class View:
    """A cluster as somebody describes it."""

    brokers: dict[int, str]
    topics: dict[str, Partitions]


class Witnesses:
    """kcat and `squall cluster describe`, asking one and the same broker."""

    def __init__(self, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.bootstrap = cluster.bootstrap.split(",")[0]
        self.controllers = set(cluster.controller_ports)
        self.capsys = capsys

    def squall(self, *arguments: str) -> Any:
        """What `squall cluster … --json` prints."""
        self.capsys.readouterr()
        status = status_of(["cluster", *arguments, "--json", "--bootstrap", self.bootstrap])
        captured = self.capsys.readouterr()
        assert status == 0, captured.err
        return json.loads(captured.out)

    def of_squall(self) -> View:
        said = self.squall("describe")
        assert said["controller"] in self.controllers
        topics = {
            topic["name"]: {
                one["partition"]: (one["leader"] or -1, frozenset(one["replicas"]), frozenset(one["isr"]))
                for one in topic["partitions"]
            }
            for topic in said["topics"]
        }
        return View({one["id"]: f"{one['host']}:{one['port']}" for one in said["brokers"]}, topics)

    def of_kcat(self) -> View:
        command = ["kcat", "-b", self.bootstrap, "-L", "-J"]
        said = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=DEADLINE_S).stdout)
        topics = {
            topic["topic"]: {
                one["partition"]: (
                    one["leader"],
                    frozenset(replica["id"] for replica in one["replicas"]),
                    frozenset(replica["id"] for replica in one["isrs"]),
                )
                for one in topic["partitions"]
            }
            for topic in said["topics"]
        }
        return View({one["id"]: one["name"] for one in said["brokers"]}, topics)

    def agree(self, what: str, holds: Callable[[View], bool]) -> View:
        """Wait until both say the same and it is what the step should have brought about."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            ours, kcats = self.of_squall(), self.of_kcat()
            if ours == kcats and holds(ours):
                return ours
            assert time.monotonic() < deadline, f"after {what}:\nsquall: {ours}\nkcat:   {kcats}"
            time.sleep(0.05)


@pytest.fixture
def witnesses(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Witnesses:
    return Witnesses(cluster, capsys)


def has(topic: str, partitions: int, replicas: int) -> Callable[[View], bool]:
    """The topic has so many topic-partitions, each led and with so many replicas, all in sync."""

    def holds(view: View) -> bool:
        found = view.topics.get(topic, {})
        whole = [one for one in found.values() if one[0] > 0 and len(one[1]) == len(one[2]) == replicas]
        return len(found) == len(whole) == partitions

    return holds


def lacks(topic: str) -> Callable[[View], bool]:
    return lambda view: topic not in view.topics


def placed(topic: str, partition: int, replicas: set[int], leader: int | None = None) -> Callable[[View], bool]:
    """Exactly these replicas, all in sync; and this leader, if one is named."""

    def holds(view: View) -> bool:
        led_by, all_of_them, in_sync = view.topics[topic][partition]
        return all_of_them == in_sync == replicas and led_by in ({leader} if leader else replicas)

    return holds


def await_that(what: str, holds: Callable[[], bool]) -> None:
    wait_until(holds, what, DEADLINE_S, every=0.02)


# -- confluent-kafka -----------------------------------------------------------------------------------------------


def test_confluent_kafkas_tour(
    cluster: Cluster, bootstrap: str, new_name: Callable[[], str], witnesses: Witnesses
) -> None:
    name, library = new_name(), ConfluentKafka(bootstrap)
    admin = library.admin()

    admin.create_topics([NewTopic(name, 1, replica_assignment=[[1, 2, 3]])])[name].result(DEADLINE_S)
    witnesses.agree("creation", has(name, 1, 3))

    admin.create_partitions([NewPartitions(name, 3, [[2, 3, 1], [3, 1, 2]])])[name].result(DEADLINE_S)
    witnesses.agree("more topic-partitions", has(name, 3, 3))

    topics = confluent_kafka.TopicCollection([name])
    described = admin.describe_topics(topics)[name].result(DEADLINE_S)
    assert [[node.id for node in one.replicas] for one in described.partitions] == [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    whole = admin.describe_cluster().result(DEADLINE_S)
    assert {node.id for node in whole.nodes} == set(cluster.ports)

    resource = ConfigResource(ResourceType.TOPIC, name)
    entry = ConfigEntry("min.insync.replicas", "2", incremental_operation=AlterConfigOpType.SET)
    altering = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin.incremental_alter_configs([altering])[altering].result(DEADLINE_S)
    await_that(
        "min.insync.replicas is 2",
        lambda: admin.describe_configs([resource])[resource].result(DEADLINE_S)["min.insync.replicas"].value == "2",
    )
    witnesses.agree("altered configs", has(name, 3, 3))
    await_that(
        "squall cluster topics shows it",
        lambda: witnesses.squall("topics", name)[0]["configs"] == {"min.insync.replicas": "2"},
    )

    library.produce(name, 0, sample("trimmed", 7))
    place = confluent_kafka.TopicPartition(name, 0)
    trimmed = admin.delete_records([confluent_kafka.TopicPartition(name, 0, 4)])[place].result(DEADLINE_S)
    assert trimmed.low_watermark == 4
    (topic,) = witnesses.squall("topics", name)
    assert (topic["partitions"][0]["start_offset"], topic["partitions"][0]["end_offset"]) == (4, 7)
    witnesses.agree("deleted records", has(name, 3, 3))

    admin.delete_topics([name])[name].result(DEADLINE_S)
    witnesses.agree("deletion", lacks(name))


def test_confluent_kafka_elects_the_preferred_leader(
    bootstrap: str, new_name: Callable[[], str], witnesses: Witnesses, tmp_path: Path
) -> None:
    name, admin = new_name(), ConfluentKafka(bootstrap).admin()
    admin.create_topics([NewTopic(name, 1, replica_assignment=[[1, 2, 3]])])[name].result(DEADLINE_S)
    witnesses.agree("creation", has(name, 1, 3))
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "replicas": [3, 1, 2]}]}))
    assert status_of(["cluster", "reassign", str(plan), "--yes", "--wait", "--bootstrap", bootstrap]) == 0
    witnesses.agree("another order of replicas", placed(name, 0, {1, 2, 3}))
    place = confluent_kafka.TopicPartition(name, 0)
    elected = admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [place]).result(DEADLINE_S)
    not_needed = confluent_kafka.KafkaError.ELECTION_NOT_NEEDED  # the controller's own balancing was faster
    assert elected[place] is None or elected[place].code() == not_needed
    witnesses.agree("the election of the preferred leader", placed(name, 0, {1, 2, 3}, leader=3))


# -- kafka-python --------------------------------------------------------------------------------------------------


def test_kafka_pythons_tour(bootstrap: str, new_name: Callable[[], str], witnesses: Witnesses) -> None:
    name, library = new_name(), KafkaPython(bootstrap)
    admin = library.admin()
    try:
        admin.create_topics({name: {"assignments": {0: [1, 2], 1: [2, 3]}}}, wait_for_metadata=True)
        witnesses.agree("creation", has(name, 2, 2))

        admin.create_partitions({name: 4})
        witnesses.agree("more topic-partitions", has(name, 4, 2))
        (described,) = admin.describe_topics([name])
        assert len(described["partitions"]) == 4
        (paged,) = admin.describe_topic_partitions([name])["topics"]
        assert [sorted(one["isr_nodes"]) for one in paged["partitions"][:2]] == [[1, 2], [2, 3]]
        assert [one["elr"] for one in witnesses.squall("topics", name)[0]["partitions"]] == [[]] * 4
        assert {one["broker_id"] for one in admin.describe_cluster()["brokers"]} == {1, 2, 3}

        change = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, name, {"retention.ms": "86400000"})
        admin.alter_configs([change])
        asked = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, name)
        await_that(
            "retention.ms is a day",
            lambda: admin.describe_configs([asked])["topic"][name]["retention.ms"]["value"] == "86400000",
        )
        witnesses.agree("altered configs", has(name, 4, 2))

        admin.elect_leaders(0, {name: [0]})
        witnesses.agree("an election that is not needed", has(name, 4, 2))

        library.produce(name, 1, sample("trimmed", 7))
        place = kafka.TopicPartition(name, 1)
        admin.delete_records({place: 5})
        (topic,) = witnesses.squall("topics", name)
        assert (topic["partitions"][1]["start_offset"], topic["partitions"][1]["end_offset"]) == (5, 7)

        admin.delete_topics([name])
        witnesses.agree("deletion", lacks(name))
    finally:
        admin.close()


def test_kafka_python_moves_any_set_of_replicas_to_any_other(
    bootstrap: str, new_name: Callable[[], str], witnesses: Witnesses
) -> None:
    """Grown, replaced altogether, shrunk (RA-04); and a preferred leader that does not lead is elected."""
    name, admin = new_name(), KafkaPython(bootstrap).admin()
    place = kafka.TopicPartition(name, 0)

    def move(replicas: list[int]) -> None:
        assert admin.alter_partition_reassignments({place: replicas}) == {place: None}
        await_that(f"{place} is on {replicas}", lambda: not admin.list_partition_reassignments({name: [0]}))

    try:
        admin.create_topics({name: {"assignments": {0: [1, 2]}}}, wait_for_metadata=True)
        witnesses.agree("creation", has(name, 1, 2))
        for replicas in ([1, 2, 3], [3], [1, 2], [3, 1]):
            move(replicas)
            view = witnesses.agree(f"a move to {replicas}", placed(name, 0, set(replicas)))
        leader = view.topics[name][0][0]
        other = {1: 3, 3: 1}[leader]
        move([other, leader])
        admin.elect_leaders(0, {name: [0]})
        witnesses.agree("the election of the preferred leader", placed(name, 0, {1, 3}, leader=other))
    finally:
        admin.close()


def test_kafka_python_reads_and_changes_the_levels_of_features(
    bootstrap: str, new_name: Callable[[], str], witnesses: Witnesses
) -> None:
    """KIP-584: eligible leader replicas off and on again (EL-06); a level that nobody knows is refused."""
    name, admin, feature = new_name(), KafkaPython(bootstrap).admin(), "eligible.leader.replicas.version"

    def level() -> int:
        described = admin.describe_features()
        assert described["metadata.version"]["finalized"][0] > 0
        return int(described.get(feature, {}).get("finalized", (0, 0))[1])

    try:
        admin.create_topics({name: {"assignments": {0: [1, 2]}}}, wait_for_metadata=True)
        assert level() == 1
        assert admin.update_features({feature: ("SAFE_DOWNGRADE", 0)}) == {feature: "OK"}
        await_that("level 0", lambda: level() == 0)
        witnesses.agree("the end of eligible leader replicas", has(name, 1, 2))
        assert admin.update_features({feature: 1}) == {feature: "OK"}
        await_that("level 1", lambda: level() == 1)
        assert "no level 9" in admin.update_features({feature: 9})[feature]
        assert level() == 1
    finally:
        admin.close()


# -- the tool itself -----------------------------------------------------------------------------------------------


def test_the_tool_plans_moves_waits_and_lists(
    bootstrap: str, topic: str, witnesses: Witnesses, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["cluster", "reassign", "--bootstrap", bootstrap]
    assert status_of([*asked, "--topics", topic, "--brokers", "2,3", "--replication-factor", "2"]) == 254
    assert "--yes" in capsys.readouterr().err, "nobody is there to confirm"
    plan = [*asked, "--topics", topic, "--brokers", "2,3", "--replication-factor", "2", "--yes", "--wait"]
    assert status_of(plan) == 0
    assert "3 topic-partitions are where they shall be" in capsys.readouterr().out
    witnesses.agree("a move by the tool", has(topic, 3, 2))
    assert witnesses.of_squall().topics[topic][0][1] == {2, 3}
    assert witnesses.squall("reassign", "--list") == []
    assert status_of(plan) == 0
    assert "nothing to move" in capsys.readouterr().out


def test_the_tool_knows_the_quorum(cluster: Cluster, witnesses: Witnesses) -> None:
    quorum = witnesses.squall("quorum")
    assert {one["id"] for one in quorum["voters"]} == set(cluster.controller_ports)
    assert {one["id"] for one in quorum["observers"]} == set(cluster.ports)
    assert quorum["leader"] in cluster.controller_ports and quorum["high_watermark"] > 0
    (leader,) = [one for one in quorum["voters"] if one["id"] == quorum["leader"]]
    assert leader["lag"] == 0 and leader["log_end_offset"] >= quorum["high_watermark"]
