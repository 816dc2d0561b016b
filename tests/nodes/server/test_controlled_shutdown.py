"""SIGTERM to real brokers: leaderships go before the process does (CS-01 to CS-06, BL-04)."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clusters import Cluster
from tests.nodes.server.steady_load import QUIET, Load

pytestmark = pytest.mark.xdist_group("clusters")
TOPIC, PARTITIONS = "handed-over", 6
GAP_MAX_S = 1.0
ANSWER_MAX_S = 20
"""A client that is new connects and learns the versions first, which takes seconds while a machine is busy."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, controllers=3) as running:
        running.wait_until_ready()
        admin = AdminClient({"bootstrap.servers": running.bootstrap} | QUIET)
        assignment = [[1, 2, 3], [2, 3, 1], [3, 1, 2]] * (PARTITIONS // 3)
        topic = NewTopic(TOPIC, PARTITIONS, replica_assignment=assignment, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[TOPIC].result(20)
        yield running


LOOK_MAX_S = 2
"""A look at a broker while another one stops: the client may ask the one that stops, and wait for it."""


def seen_by(cluster: Cluster, broker: int, timeout: float = ANSWER_MAX_S) -> dict[int, tuple[int, set[int]]]:
    """Leader and ISR of each topic-partition, as one broker says."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.ports[broker]}"} | QUIET)
    found = admin.list_topics(TOPIC, timeout=timeout).topics[TOPIC].partitions
    return {number: (one.leader, set(one.isrs)) for number, one in found.items()}


def await_all_in_sync(cluster: Cluster) -> None:
    """Wait until each broker answers, and sees every replica in sync; one that has just started does neither."""

    def holds() -> bool:
        try:
            seen = [view for broker in cluster.ports for view in seen_by(cluster, broker).values()]
        except KafkaException:
            return False
        return all(isr == {1, 2, 3} for _, isr in seen)

    cluster.wait_for("every broker sees all in sync", holds)


def lead_as_preferred(cluster: Cluster) -> None:
    """Give every topic-partition back to its preferred leader: a broker that leads nothing has leave at once."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap} | QUIET)
    everything = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    admin.elect_leaders(ElectionType.PREFERRED, everything).result(20)
    preferred = {number: number % 3 + 1 for number in range(PARTITIONS)}

    def holds() -> bool:
        views = [seen_by(cluster, broker) for broker in cluster.ports]
        return all({number: leader for number, (leader, _) in view.items()} == preferred for view in views)

    cluster.wait_for("every broker sees the preferred leaders", holds)


@pytest.mark.parametrize("broker", [1, 2])
def test_leaders_move_before_the_process_ends_and_producers_hardly_notice(cluster: Cluster, broker: int) -> None:
    """CS-02, CS-04, CS-06: no error and no gap of a second."""
    await_all_in_sync(cluster)
    lead_as_preferred(cluster)
    node, witness = cluster.nodes[broker], 3
    with Load(cluster, TOPIC, PARTITIONS) as load:
        cluster.wait_for("acknowledgements", load.runs)
        began = time.monotonic()
        node.signal(signal.SIGTERM)
        alive_without_leaderships = False
        while node.pid is not None:
            try:
                view = seen_by(cluster, witness, LOOK_MAX_S)
            except KafkaException:
                continue
            moved = all(leader not in (broker, -1) for leader, _ in view.values())
            alive_without_leaderships |= moved and all(broker not in isr for _, isr in view.values())
        ended = time.monotonic()
        assert node.wait() == 0, node.log
        cluster.wait_for("acknowledgements after the end", lambda: time.monotonic() > ended + 1 and load.runs())
        until = time.monotonic()
    assert alive_without_leaderships, "the process ended before its leaderships were elsewhere"
    assert not load.failed
    gaps = load.gaps(began, until)
    print(f"broker {broker}: {ended - began:.2f} s from SIGTERM to the end; longest gap {max(gaps.values()):.3f} s")
    assert max(gaps.values()) < GAP_MAX_S, gaps
    assert "it leads nothing any more" in node.log
    assert (node.directory / "data" / ".kafka_cleanshutdown").exists()
    node.log_path.unlink()
    node.start()
    cluster.wait_until_ready()


def test_a_second_signal_ends_it_at_once(cluster: Cluster) -> None:
    """A broker whose leave is withheld, because another one does not answer, need not be waited for."""
    await_all_in_sync(cluster)
    lead_as_preferred(cluster)
    node = cluster.nodes[1]
    cluster.pause(2)
    try:
        node.signal(signal.SIGTERM)
        cluster.wait_for("the wish", lambda: "wants to stop" in node.log)
        assert node.pid is not None
        node.signal(signal.SIGTERM)
        assert node.wait(3) == 0, node.log
        assert "broker 1 shuts down" not in node.log, "it had leave by then"
    finally:
        cluster.resume(2)
    assert (node.directory / "data" / ".kafka_cleanshutdown").exists()
    node.log_path.unlink()
    node.start()
    cluster.wait_until_ready()


def test_without_a_controller_it_ends_within_its_bound() -> None:
    with Cluster(brokers=1, controllers=1, properties={"controlled.shutdown.timeout.ms": "1500"}) as cluster:
        cluster.wait_until_ready()
        [controller], [node] = cluster.controllers, cluster.brokers
        controller.kill()
        began = time.monotonic()
        assert node.stop() == 0, node.log
        assert 1.4 < time.monotonic() - began < 4
        assert "without the controller's leave" in node.log
        assert (node.directory / "data" / ".kafka_cleanshutdown").exists()
