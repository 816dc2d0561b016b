"""`squall run --capture`: the packets of every node's host come with the run, but for the control connection's."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.conftest import CommandLine
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("power-loss")]

QUIET = """
scenario: quiet
cluster:
  controllers: 1
  topics: {events: {partitions: 1, replication_factor: 3, min_insync_replicas: 2}}
workload: {name: log, client: confluent, producers: 1, consumers: 1, rate: 50/s, acks: all}
fault_free: true
time: {load: 2s, settle: 10s}
min_acknowledged: 10
"""
GLOBAL_HEADER, PACKET_HEADER = 24, 16
ETHERNET = 14
BROKER, CONTROLLER, SSH = 9092, 9093, 22


def ports_of(file: Path) -> Iterator[tuple[int, int]]:
    """Source and destination of each TCP segment over IPv4, as Wireshark would find them."""
    content = file.read_bytes()
    assert content[:4] == b"\x4d\x3c\xb2\xa1", "not a capture with timestamps in nanoseconds"
    position = GLOBAL_HEADER
    while position < len(content):
        _, _, kept, size = struct.unpack_from("<IIII", content, position)
        assert kept <= size
        packet = content[position + PACKET_HEADER : position + PACKET_HEADER + kept]
        assert len(packet) == kept, "the file ends within a packet"
        position += PACKET_HEADER + kept
        if packet[12:14] == b"\x08\x00" and packet[23] == 6:
            yield struct.unpack_from(">HH", packet, ETHERNET + 4 * (packet[14] & 15))


@pytest.mark.full
def test_what_passed_between_the_hosts_is_there_afterwards(squall: CommandLine) -> None:
    need_lab()
    (squall.directory / "quiet.yaml").write_text(QUIET)
    said = squall("run", "quiet.yaml", "--capture", "--in-process")
    assert said.status == 0, said.all
    assert "packets, in nodes/HOST/capture.pcap" in said.out
    nodes = squall.directory / "runs" / "latest" / "nodes"
    seen = {host: {port for pair in ports_of(nodes / host / "capture.pcap") for port in pair} for host in ("b1", "c1")}
    assert BROKER in seen["b1"] and CONTROLLER in seen["b1"]
    assert CONTROLLER in seen["c1"]
    assert SSH not in seen["b1"] | seen["c1"]
