"""What a host and its node use, as /proc has it."""

from __future__ import annotations

import http.server
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from squall.nemesis.agent.probe.host_samples import (
    disk_bytes,
    machine_use,
    memory_bytes,
    network_use,
    processor_seconds,
)
from tests.nemesis.agent.conftest import Refused, RunningAgent
from tests.waiting import wait_until

BUSY = [sys.executable, "-uc", "kept = b'x' * (64 << 20)\nwhile True: sum(range(1000))"]
PAGE = b"""# TYPE kafka_server_leader_count gauge
kafka_server_leader_count 3
kafka_server_leader_count_of_another 4
kafka_log_size{topic="events",partition="0"} 5
squall_iteration_time_ms{quantile="0.99"} 6.5
"""


@pytest.fixture
def metrics_address() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_busy_process_uses_processor_time_and_memory(agent: RunningAgent) -> None:
    agent.define(BUSY)
    assert agent.call("probe.samples", name="node")["process"] is None
    pid = agent.call("proc.start", name="node")["pid"]
    first = agent.call("probe.samples", name="node")

    def uses_both() -> bool:
        process = agent.call("probe.samples", name="node")["process"]
        return bool(process["cpu_s"] > 0 and process["resident_bytes"] >= 64 << 20)

    wait_until(uses_both, "it has used the processor and its memory")
    later = agent.call("probe.samples", name="node")
    assert first["process"]["pid"] == later["process"]["pid"] == pid
    assert later["at_s"] > first["at_s"] and later["machine"]["busy_s"] >= first["machine"]["busy_s"]
    assert later["process"]["resident_bytes"] < later["machine"]["memory_total_bytes"]
    assert later["shared"] is True


def test_only_the_lines_of_the_wanted_metrics_are_passed_on(agent: RunningAgent, metrics_address: str) -> None:
    names = ["kafka_server_leader_count", "squall_iteration_time_ms"]
    text = agent.call("probe.metrics", address=metrics_address, names=names)["text"]
    assert text == 'kafka_server_leader_count 3\nsquall_iteration_time_ms{quantile="0.99"} 6.5\n'


def test_a_node_without_metrics_is_an_error_that_names_the_address(agent: RunningAgent) -> None:
    with pytest.raises(Refused, match=r"no metrics at 127\.0\.0\.1:1: "):
        agent.call("probe.metrics", address="127.0.0.1:1", names=[])
    with pytest.raises(Refused, match="must be ADDRESS:PORT"):
        agent.call("probe.metrics", address="localhost", names=[])


def test_tables_of_the_kernel_are_read_by_their_columns() -> None:
    busy, stolen = processor_seconds("cpu  100 20 30 4000 500 6 7 800 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    assert (round(busy * 100), round(stolen * 100)) == (163, 800)
    assert memory_bytes("MemTotal: 100 kB\nMemFree: 5 kB\nMemAvailable: 60 kB\n") == (40 * 1024, 100 * 1024)
    disks = "8 0 sda 1 2 10 4 5 6 20 8\n8 1 sda1 1 2 10 4 5 6 20 8\n7 0 loop0 1 2 99 4 5 6 99 8\n"
    assert disk_bytes(disks, lambda name: name == "sda") == (5120, 10240)
    table = "Inter-|\n face |\n lo: 9 0 0 0 0 0 0 0 9 0\n eth0: 100 1 0 0 0 0 0 0 200 2\n eth1: 1 0 0 0 0 0 0 0 2 0\n"
    assert network_use(table) == {"received_bytes": 101, "sent_bytes": 202}


@pytest.mark.parametrize("read", [processor_seconds, memory_bytes])
def test_a_kernel_that_shows_something_else_gives_no_value(
    read: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises((ValueError, KeyError, IndexError)):
        read("something else\n")
    monkeypatch.setattr(f"squall.nemesis.agent.probe.host_samples.{read.__name__}", lambda text: [][0])
    assert None in machine_use().values()
