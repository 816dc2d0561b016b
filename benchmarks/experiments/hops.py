"""Messages that an administrative write waits for: through a broker, and to the active controller directly (MD-09).

One topic is created in a quiet simulated cluster of three controllers and one broker. From the record of all messages,
the chain that ends with the client's response is followed back to its request; a message from one host to another is a
hop. Then the hops until the broker has applied the change.

The source claims that updates go straight to the quorum, one hop less. With ZooKeeper the controller is a client of
another quorum: to create a topic it writes the topic's znode, gets the watch event, reads, and writes the state of
each topic-partition, before it sends LeaderAndIsr to the brokers. Those hops are counted from Apache Kafka 3.9's code,
for an ensemble of three.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from squall.benchmarks.experiments.parts.picture import bars, by_name
from squall.benchmarks.experiments.parts.quorum_course import READY_S, QuorumCourse
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.hosts.system import CONTROLLER_PORT
from squall.harness.scenario.cluster import create_topics
from squall.harness.simulation.world.recording_network import Frame, RecordingNetwork, path_to
from squall.harness.simulation.world.world import CLIENT_ADDRESS
from squall.workloads.clients.common.client import Topic
from squall.workloads.clients.native.admin import Address, NativeAdmin

ZOOKEEPER_HOPS = (
    "client to controller",
    "controller to ZooKeeper",
    "proposal",
    "acknowledgement",
    "response and watch",
    "read the topic",
    "its content",
    "write the states",
    "proposal",
    "acknowledgement",
    "response",
    "LeaderAndIsr to the broker",
)
"""The chain from the request until the broker knows, Apache Kafka 3.9 with ZooKeeper."""
QUIET_S = 5.0
QUIET = {"broker.heartbeat.interval.ms": "60000", "broker.session.timeout.ms": "180000"}
"""No heartbeat falls between the messages that are counted."""


def quiet_course() -> tuple[QuorumCourse, RecordingNetwork]:
    course = QuorumCourse(3, 1, network=RecordingNetwork, config=QUIET).start()
    course.run(QUIET_S)
    network = course.world.network
    assert isinstance(network, RecordingNetwork)
    return course, network


def create(course: QuorumCourse, network: RecordingNetwork, topic: str, address: Address) -> list[Frame]:
    """Create a topic by a request to one node; return the chain of messages of its response."""
    course.kernel.run_until_complete(_create(course, topic, address, "warm-up"))
    course.run(QUIET_S)
    network.frames.clear()
    course.kernel.run_until_complete(_create(course, topic, address))
    response = [one for one in network.frames if one.target == CLIENT_ADDRESS][-1]
    return path_to(network.frames, response, CLIENT_ADDRESS)


async def _create(course: QuorumCourse, topic: str, address: Address, prefix: str = "") -> None:
    admin = NativeAdmin(course.world.connector(), [address])
    await create_topics(admin, (Topic(prefix + topic, 1, 1),), READY_S)
    await admin.close()


def counted() -> dict[str, list[Frame]]:
    """The chains of both ways, and of the news to the broker."""
    course, network = quiet_course()
    broker = course.world.bootstrap()[0]
    controller = (course.addresses[course.leader], CONTROLLER_PORT)
    through = create(course, network, "through", broker)
    direct = create(course, network, "direct", controller)
    course.run(0.2)
    commit = direct[-1].sent
    news = next(
        one for one in network.frames
        if (one.source, one.target) == (controller[0], broker[0]) and one.sent >= commit and one.api is None
    )  # fmt: skip
    course.close()
    return {"through": through, "direct": direct, "news": [*direct[:-1], news]}


def run(short: bool = False) -> Iterator[Measurement]:
    """Count; the form is the same either way."""
    chains = counted()
    yield _hops("create a topic through a broker", chains["through"], 6, "broker forwards (Apache Kafka)")
    yield _hops("create a topic at the active controller", chains["direct"], 4, "straight to the quorum (source)")
    yield _hops("    until the broker has applied it", chains["news"], 4, "the response to its fetch (source)")
    yield Measurement(
        "    with ZooKeeper", len(ZOOKEEPER_HOPS), "hops", reference="from Apache Kafka 3.9's code, not measured"
    )
    saved = len(ZOOKEEPER_HOPS) - len(chains["news"])
    yield Measurement("hops saved beside ZooKeeper", saved, "hops", must=1, reference="one hop less (source)")


def _hops(name: str, chain: Sequence[Frame], expected: int, reference: str) -> Measurement:
    microseconds = tuple(float(one.arrived - one.sent) for one in chain)
    return Measurement(name, len(chain), "hops", within=(expected, expected), reference=reference, samples=microseconds)


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart: hops of each way."""
    found = by_name(measurements)
    names = ("create a topic through a broker", "create a topic at the active controller",
             "until the broker has applied it", "with ZooKeeper")  # fmt: skip
    groups = ("through a broker", "to the controller", "known to brokers", "the same, ZooKeeper")
    title = "Messages, one after the other, that the creation of a topic waits for"
    return {"hops": bars(title, groups, {"hops": [found[name].measured for name in names]}, "hops", "")}
