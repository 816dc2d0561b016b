"""Connections whose bytes are sliced, swallowed, cut or ended late, for real: a node behind its proxy, another host.

What shows it is a connection from the other host (`probe.exchange`), which the proxy treats as any other. The node is a
stand-in that answers every request with 400 bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.nemesis.agent.conftest import ADDRESSES, RunningAgent

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("rpc"),
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, which needs root"),
]

PORT = 9092
REQUEST, ANSWER = 14, 404
NODE = """
import socket, struct, threading
def serve(connection):
    stream = connection.makefile("rb")
    while length := stream.read(4):
        request = stream.read(struct.unpack(">i", length)[0])
        connection.sendall(struct.pack(">i", 400) + request[4:8] + bytes(396))
    connection.shutdown(socket.SHUT_WR)
    connection.close()
server = socket.create_server(("", 9092), backlog=128)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


class Host:
    """h1, with the node, as seen from h2."""

    def __init__(self, agents: dict[str, RunningAgent], inside: list[str]) -> None:
        self.agent = agents["h1"]
        self._other = agents["h2"]
        self._inside = inside

    def treat(self, treatment: str, *, id: str = "f1", ttl: float = 60, **how: Any) -> None:
        told = {"treatment": treatment, "sources": [ADDRESSES["h2"]], **how}
        self.agent.call("rpc.stream", id=id, ttl=ttl, **told)

    def exchange(self, requests: int = 1) -> dict[str, Any]:
        return self._other.call("probe.exchange", target=f"{ADDRESSES['h1']}:{PORT}", requests=requests, timeout=5)

    def heal(self) -> None:
        self.agent.call("heal", id="f1")

    def met(self) -> int:
        return int(self.agent.call("probe.rpc", id="f1")["met"])

    def is_clean(self) -> bool:
        rules = subprocess.run([*self._inside, "nft", "list", "ruleset"], capture_output=True, text=True).stdout
        told = self.exchange()
        return "squall" not in rules and told["answered"] == 1 and told["pieces"] == 1 and told["close_seconds"] < 0.3


@pytest.fixture
def host(
    inside: dict[str, list[str]], start_agent: Callable[..., RunningAgent], wait_until: Callable[..., float]
) -> Iterator[Host]:
    agents = {name: start_agent(address=ADDRESSES[name], name=name, prefix=inside[name]) for name in ADDRESSES}
    agents["h1"].define([sys.executable, "-c", NODE], ports=[PORT])
    agents["h1"].call("proc.start", name="node")
    one = Host(agents, inside["h1"])
    wait_until(lambda: one.exchange()["answered"] == 1, "the node answers")
    yield one
    if agents["h1"].process.poll() is None:
        agents["h1"].call("heal")


def test_messages_are_sliced_and_arrive_whole(host: Host) -> None:
    host.treat("slice", size=40, gap_s=0.005)
    told = host.exchange(requests=2)
    assert told["answered"] == 2 and told["received"] == 2 * ANSWER
    assert told["pieces"] >= ANSWER // 40, told
    assert host.met() == 1
    host.heal()
    assert host.is_clean()


def test_a_black_hole_swallows_everything_and_then_closes(host: Host) -> None:
    host.treat("black-hole", delay_s=0.5)
    told = host.exchange()
    assert (told["connected"], told["received"], told["ended"]) == (True, 0, "closed")
    assert 0.4 < told["seconds"] < 2
    host.heal()
    assert host.is_clean()


def test_a_connection_is_cut_after_so_many_bytes(host: Host) -> None:
    host.treat("cut", limit=1000)
    told = host.exchange(requests=10)
    assert told["answered"] == 2 and told["ended"] in ("closed", "reset")
    assert told["received"] == 1000 - 3 * REQUEST, "the third answer came as far as the limit let it"
    assert host.exchange(requests=1)["answered"] == 1, "every connection has its own count"
    host.heal()
    assert host.exchange(requests=10)["answered"] == 10


def test_an_end_is_told_late(host: Host) -> None:
    host.treat("slow-close", delay_s=0.4)
    told = host.exchange()
    assert told["answered"] == 1 and told["close_seconds"] > 0.7, "once each way"
    host.heal()
    assert host.is_clean()


def test_others_are_left_alone(host: Host) -> None:
    host.treat("black-hole", delay_s=0.5, sources=["10.1.2.3"])
    assert host.exchange()["answered"] == 1 and host.met() == 0


def test_two_of_them_heal_one_by_one(host: Host) -> None:
    host.treat("slice", size=40, gap_s=0.005)
    host.treat("slow-close", id="f2", delay_s=0.4)
    assert host.exchange()["pieces"] >= 5, "the older one rules"
    host.heal()
    told = host.exchange()
    assert told["pieces"] == 1 and told["close_seconds"] > 0.7
    host.agent.call("heal", id="f2")
    assert host.is_clean()


def test_it_ends_by_its_time_to_live_with_nobody_there(host: Host, wait_until: Callable[..., float]) -> None:
    host.treat("black-hole", delay_s=0.2, ttl=1.0)
    assert host.exchange()["answered"] == 0
    host.agent.kill_keepers()
    host.agent.kill()
    wait_until(lambda: host.exchange()["answered"] == 1, "the node answers again")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"treatment": "melt"}, "must be one of slice, black-hole, cut, slow-close"),
        ({"treatment": "slice", "size": 0, "gap_s": 0.1}, "size: 0 must be from 1"),
        ({"treatment": "black-hole", "delay_s": -1}, "delay_s: -1 must be from 0"),
    ],
)
def test_nonsense_is_refused(host: Host, refused: type[Exception], how: dict[str, Any], said: str) -> None:
    with pytest.raises(refused, match=said):
        host.treat(**how)
