"""Metrics over HTTP: the text is Prometheus', whoever asks for something else is told so, and slow scrapes share."""

from __future__ import annotations

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics.metric_names import METRICS
from squall.nodes.node.metrics.samples import Sample
from squall.nodes.node.timings import Recent
from squall.nodes.server.metrics_endpoint import MetricsEndpoint, Page, resident_bytes
from tests.clusters import Cluster

pytestmark = pytest.mark.xdist_group("clusters")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.combined() as made:
        made.wait_until_ready()
        yield made


def read(cluster: Cluster, path: str = "/metrics") -> str:
    address = f"http://127.0.0.1:{cluster.metrics_ports[1]}{path}"
    with urllib.request.urlopen(address, timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return answer.read().decode()


def test_a_running_node_tells_every_metric_in_the_format_of_prometheus(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(10)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce("orders", b"one")
    assert producer.flush(10) == 0
    families = {family.name: family for family in text_string_to_metric_families(read(cluster))}
    served = {name: (family.type, family.documentation) for name, family in families.items()}
    expected = [metric for metric in METRICS if metric not in names.OF_ZOOKEEPER]
    assert served == {metric.name.removesuffix("_total"): (metric.kind, metric.about) for metric in expected}
    assert all(family.samples for family in families.values())
    assert families["kafka_server_topic_messages_in"].samples[0].value == 1
    assert families["process_cpu_seconds"].samples[0].value > 0
    assert families["process_resident_memory_bytes"].samples[0].value > 1 << 20
    assert families["kafka_controller_active_controller_count"].samples[0].value == 1


def test_only_metrics_are_there(cluster: Cluster) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        read(cluster, "/")
    with socket.create_connection(("127.0.0.1", cluster.metrics_ports[1]), 5) as other:
        other.sendall(b"no HTTP at all\r\n\r\n")
        assert other.recv(100).startswith(b"HTTP/1.1 404 ")


def test_whoever_sends_without_end_is_hung_up_on(cluster: Cluster) -> None:
    with socket.create_connection(("127.0.0.1", cluster.metrics_ports[1]), 5) as other:
        other.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000)
        assert read_all(other) == b""
    assert read(cluster)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def test_a_port_that_is_taken_stops_the_start_with_its_key_and_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with Cluster.combined(properties={"metrics.listener": address}) as cluster:
            assert cluster.nodes[1].wait() == 254
            assert f"metrics.listener={address}: cannot listen: Address already in use" in cluster.nodes[1].log


# -- the text --------------------------------------------------------------------------------------------------------


def test_the_samples_of_a_metric_stand_together_whatever_their_order() -> None:
    page = Page()
    for metric, topic in ((names.LOG_SIZE, "a"), (names.LOG_END, "a"), (names.LOG_SIZE, 'b"\\\n')):
        page.add(Sample(metric, 1.5, (("topic", topic), ("partition", "0"))))
    families = list(text_string_to_metric_families(page.text()))
    assert [(family.name, len(family.samples)) for family in families] == [
        ("kafka_log_size", 2),
        ("kafka_log_log_end_offset", 1),
    ]
    assert families[0].samples[1].labels == {"topic": 'b"\\\n', "partition": "0"}


def test_whole_numbers_are_written_whole_and_nothing_as_nan() -> None:
    page = Page()
    page.add(Sample(names.BYTES_IN, 2**53 - 1))
    page.add(Sample(names.RAFT_ELECTION_MAX, float("nan")))
    assert "kafka_server_bytes_in_total 9007199254740991\n" in page.text()
    assert "kafka_server_raft_election_latency_max NaN\n" in page.text()


async def ask(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


class SlowCollector:
    """Breathes a thousand times; says how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def collect(self, now: int, busy: int) -> Iterator[Sample | None]:
        self.asked += 1
        for _ in range(1000):
            yield None
        yield Sample(names.TOPICS, self.asked)


def test_those_who_ask_during_a_scrape_are_given_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squall.nodes.server.metrics_endpoint.SLICE_S", 0.0)

    async def scenario() -> None:
        collector = SlowCollector()
        endpoint = MetricsEndpoint(collector, Recent())  # type: ignore[arg-type]
        bound = socket.create_server(("127.0.0.1", 0))
        await endpoint.start(bound)
        answers = await asyncio.gather(*(ask(bound.getsockname()[1]) for _ in range(5)))
        assert collector.asked == 1
        assert all(b"kafka_controller_global_topic_count 1" in answer for answer in answers)
        assert b"kafka_controller_global_topic_count 2" in await ask(bound.getsockname()[1])
        endpoint.close()

    asyncio.run(scenario())


def test_resident_memory_is_known_even_where_the_kernel_does_not_tell(tmp_path: Path) -> None:
    (tmp_path / "statm").write_text("1000 250 30 4 0 5 0\n")
    assert resident_bytes(tmp_path / "statm", lambda: 4096) == 250 * 4096
    assert resident_bytes(tmp_path / "nowhere") > 1 << 20


class BrokenCollector:
    """Fails in the middle of the first scrape."""

    def __init__(self) -> None:
        self.asked = 0

    def collect(self, now: int, busy: int) -> Iterator[Sample | None]:
        self.asked += 1
        yield Sample(names.TOPICS, self.asked)
        if self.asked == 1:
            raise RuntimeError("something has changed its size")


def test_a_scrape_that_fails_says_so_and_the_next_one_is_another(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        endpoint = MetricsEndpoint(BrokenCollector(), Recent())  # type: ignore[arg-type]
        bound = socket.create_server(("127.0.0.1", 0))
        await endpoint.start(bound)
        port = bound.getsockname()[1]
        assert (await ask(port)).startswith(b"HTTP/1.1 500 ")
        assert b"kafka_controller_global_topic_count 2" in await ask(port)
        endpoint.close()

    asyncio.run(scenario())
    assert "metrics failed: RuntimeError('something has changed its size')" in capsys.readouterr().out
