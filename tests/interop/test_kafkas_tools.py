"""Apache Kafka's own command-line tools on our cluster, and on Apache Kafka as the control (docs/interoperability.md).

Both clusters get the same topic: two topic-partitions, records in both, the second begins at offset 6 after
DeleteRecords. Nothing hangs: a tool either does here what it does there, or ends at once with a message.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from squall.harness.hosts.network import MachineNetwork
from squall.harness.load.tcp import TcpConnector
from squall.harness.operator.admin_connection import AdminConnection, parse_bootstrap
from squall.harness.operator.describe import describe_cluster
from squall.harness.operator.facts import ClusterFacts
from squall.workloads.clients.native.admin import Address
from tests.clusters import Cluster
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.features import ALL, TOOLS, Feature, table
from tests.interop.jvm import Done, Jvm
from tests.interop.log_files import written_log
from tests.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("interop"), pytest.mark.timeout(240)]

AT_ONCE_S = 20.0
"""Far above what a refusal takes on a busy machine, far below any of the clients' own timeouts (30 s and more)."""
REASSIGN = TOOLS + "reassign.ReassignPartitionsCommand"
DUMP = TOOLS + "DumpLogSegments"
VERIFICATION = TOOLS + "ReplicaVerificationTool"


@dataclass(frozen=True)
class Place:
    """A cluster, as tools reach it."""

    name: str
    bootstrap: str
    controllers: str
    values: dict[str, str]

    def fill(self, text: str) -> str:
        return text.format(bootstrap=self.bootstrap, controllers=self.controllers, **self.values)


@pytest.fixture(scope="session")
def jvm(jars: Sequence[Path]) -> Iterator[Jvm]:
    with Jvm(jars) as running:
        yield running


def run(jvm: Jvm, place: Place, tool: str, *arguments: str) -> Done:
    return jvm.tool(tool, *(place.fill(argument) for argument in arguments))


def eventually(jvm: Jvm, place: Place, said: str, tool: str, *arguments: str) -> Done:
    """Run a tool until it says something: a broker learns of a change a moment after it was answered."""
    deadline = time.monotonic() + AT_ONCE_S
    while True:
        done = run(jvm, place, tool, *arguments)
        if re.search(said, done.out):
            return done
        assert time.monotonic() < deadline, f"{place.name}: {tool} {arguments}: {done}"
        time.sleep(0.1)


def known_by_every_broker(place: Place, topic: str, partitions: int) -> None:
    """Await that each broker has the topic's topic-partitions and their leaders: a tool may ask any of them."""

    def known(address: Address) -> bool:
        facts = asyncio.run(described_by(address))
        found = [one for one in facts.partitions if one.topic == topic and one.leader is not None]
        return len(found) == partitions

    for address in parse_bootstrap(place.bootstrap):
        wait_until(partial(known, address), f"{topic} known by {address} of {place.name}", AT_ONCE_S)


async def described_by(address: Address) -> ClusterFacts:
    connection = AdminConnection(TcpConnector(MachineNetwork()), [address])
    try:
        return await describe_cluster(connection)
    finally:
        connection.close()


def prepared(jvm: Jvm, place: Place, directory: Path) -> Place:
    """The topic of the module's text."""
    at = ("--bootstrap-server", "{bootstrap}")
    create = ("--create", "--topic", "{topic}", "--replica-assignment", "1:2,2:3")
    assert run(jvm, place, TOOLS + "TopicCommand", *at, *create).status == 0
    known_by_every_broker(place, place.values["topic"], 2)
    producer = jvm.java.org.apache.kafka.clients.producer.KafkaProducer(properties(jvm, place))
    record = jvm.java.org.apache.kafka.clients.producer.ProducerRecord
    for number in range(20):
        for partition in (0, 1):
            producer.send(record(place.values["topic"], partition, f"k{number}", f"{number} " + "v" * 300))
    producer.close()
    plan = directory / f"{place.name}-delete.json"
    offsets = [{"topic": place.values["topic"], "partition": 1, "offset": 6}]
    plan.write_text(json.dumps({"version": 1, "partitions": offsets}))
    done = run(jvm, place, TOOLS + "DeleteRecordsCommand", *at, "--offset-json-file", str(plan))
    assert re.search(r"low_watermark: 6", done.out), done
    return place


def properties(jvm: Jvm, place: Place) -> object:
    made = jvm.java.java.util.Properties()
    made.setProperty("bootstrap.servers", place.bootstrap)
    for side in ("serializer", "deserializer"):
        for part in ("key", "value"):
            name = f"org.apache.kafka.common.serialization.String{side.capitalize()}"
            made.setProperty(f"{part}.{side}", name)
    return made


@pytest.fixture(scope="session")
def ours(jvm: Jvm, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Place:
    controllers = ",".join(f"127.0.0.1:{port}" for port in cluster.controller_ports.values())
    place = Place("squall", cluster.bootstrap, controllers, {"topic": "tools", "fresh": "tools-fresh"})
    return prepared(jvm, place, tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="session")
def theirs(jvm: Jvm, apache: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place("apache-kafka", apache.bootstrap, apache.controllers, {"topic": "tools", "fresh": "tools-fresh"})
    return prepared(jvm, place, tmp_path_factory.mktemp("control"))


@pytest.fixture(params=["ours", "theirs"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each cluster in turn."""
    found: Place = request.getfixturevalue(request.param)
    return found


# -- one call each -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature", ALL, ids=lambda one: one.name)
def test_a_tool_works_as_on_kafka_or_is_refused_at_once(jvm: Jvm, place: Place, feature: Feature) -> None:
    expected = feature.works if place.name != "squall" or feature.refused is None else feature.refused
    done = run(jvm, place, feature.tool, *feature.arguments)
    assert not done.hung, done
    assert re.search(place.fill(expected), done.out), done
    assert done.seconds < AT_ONCE_S, done
    if feature.fresh_partitions is not None:
        known_by_every_broker(place, place.values["fresh"], feature.fresh_partitions)


def test_the_documentation_has_this_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "interoperability.md").read_text()
    assert table() in page, f"put this into docs/interoperability.md:\n{table()}"


# -- kafka-reassign-partitions -------------------------------------------------------------------------------------


def test_topic_partitions_are_moved_by_kafkas_tool_in_all_its_modes(jvm: Jvm, place: Place, tmp_path: Path) -> None:
    """Generate, execute, verify, list, cancel; directories that are not there; and throttles, which ours refuses."""
    at, topic = ("--bootstrap-server", "{bootstrap}"), "moving"
    create = ("--create", "--topic", topic, "--replica-assignment", "1:2,2:3")
    assert run(jvm, place, TOOLS + "TopicCommand", *at, *create).status == 0
    known_by_every_broker(place, topic, 2)

    topics, plan, wrong = (tmp_path / name for name in ("topics.json", "plan.json", "wrong.json"))
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    moves = [{"topic": topic, "partition": 0, "replicas": [2, 3]}, {"topic": topic, "partition": 1, "replicas": [3, 1]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    elsewhere = {"topic": topic, "partition": 0, "replicas": [2, 3], "log_dirs": ["/nowhere", "any"]}
    wrong.write_text(json.dumps({"version": 1, "partitions": [elsewhere]}))

    def reassign(*arguments: str) -> Done:
        return run(jvm, place, REASSIGN, *at, *arguments)

    given = ("--reassignment-json-file", str(plan))
    generated = reassign("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3")
    assert '"replicas":[1,2],"log_dirs":["/' in generated.out, generated
    started = reassign(*given, "--execute")
    assert "Successfully started partition reassignments" in started.out, started
    verified = eventually(jvm, place, f"{topic}-1 is completed", REASSIGN, *at, *given, "--verify")
    assert verified.status == 0 and f"{topic}-0 is completed" in verified.out, verified
    assert "Clearing topic-level throttles" in verified.out, verified
    assert "No partition reassignments found" in reassign("--list").out
    assert "None of the specified partition reassignments are active" in reassign(*given, "--cancel").out
    throttled = reassign(*given, "--execute", "--throttle", "1000000")
    if place.name == "squall":
        assert "cannot be set: replication is not throttled" in throttled.out, throttled
    else:
        assert "The inter-broker throttle limit was set" in throttled.out, throttled
    refused = reassign("--reassignment-json-file", str(wrong), "--execute")
    assert refused.status == 1 and "LogDirNotFoundException" in refused.out, refused


# -- tools that look at replicas and files -------------------------------------------------------------------------


def test_kafkas_tool_finds_the_replicas_equal(jvm: Jvm, place: Place) -> None:
    """`kafka-replica-verification` fetches from leaders and followers alike, and never ends by itself."""
    arguments = ("--broker-list", place.bootstrap, "--topics-include", place.values["topic"])
    said = jvm.alone(VERIFICATION, *arguments, "--report-interval-ms", "500", until=r"max lag is 0 .*offset [1-9]")
    assert re.search(r"max lag is 0 for partition tools-\d at offset [1-9]\d* among 2 partitions", said), said
    assert "doesn't match" not in said, said


@pytest.fixture(scope="session")
def closed_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a log that was closed cleanly: several segments, and a producer in each."""
    return written_log(tmp_path_factory.mktemp("log"))


@pytest.mark.parametrize("ending", [".log", ".index", ".timeindex", ".snapshot"])
def test_kafkas_tool_reads_the_files_of_a_log_and_finds_nothing_wrong(jvm: Jvm, closed_log: Path, ending: str) -> None:
    first = sorted(closed_log.glob(f"*{ending}"))[0]
    done = jvm.tool(DUMP, "--files", str(first), "--deep-iteration")
    assert done.status == 0, done
    assert not re.search(r"(?i)mismatch|corrupt|out of order|not found|exception|error", done.out), done
    expected = {
        ".log": r"baseOffset: 0 lastOffset: 2 .*isvalid: true",
        ".index": r"offset: \d+ position: \d+",
        ".timeindex": r"timestamp: \d+ offset: \d+",
        ".snapshot": r"producerId: 42 producerEpoch: 3 .*lastSequence: \d+",
    }
    assert re.search(expected[ending], done.out), done
