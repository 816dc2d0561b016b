"""Packets that come twice, damaged, out of order, or are lost in bursts, for real: two hosts joined by a virtual cable.

Nothing of this machine's own network is touched. What happens to packets is counted by trains of numbered datagrams.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.nemesis.agent.conftest import ADDRESSES

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, which needs root"),
]

CARS = 400
CHECKED = """
import socket, sys, time
thrower = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(400):
    thrower.sendto(b"x" * 200, (sys.argv[1], 9999))
    time.sleep(0.0005)
"""
COUNT = """
import socket
listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.bind(("", 9999))
listener.settimeout(1.5)
print("ready", flush=True)
whole = damaged = 0
try:
    while True:
        if listener.recv(1000) == b"x" * 200:
            whole += 1
        else:
            damaged += 1
except TimeoutError:
    print(whole, damaged, flush=True)
"""
EXCHANGE = """
import hashlib, socket
listener = socket.create_server(("", 9092))
print("ready", flush=True)
connection, _ = listener.accept()
digest = hashlib.sha256()
while data := connection.recv(1 << 20):
    digest.update(data)
print(digest.hexdigest(), flush=True)
"""
SEND = """
import hashlib, random, socket, sys
connection = socket.create_connection((sys.argv[1], 9092), timeout=30)
data = random.Random(1).randbytes(300_000)
connection.sendall(data)
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
print(hashlib.sha256(data).hexdigest())
"""


class Cable:
    """h1, whose links are spoilt, and h2 at the other end."""

    def __init__(self, agents: dict[str, Any], inside: dict[str, list[str]]) -> None:
        self.agents = agents
        self.inside = inside
        self._trains = 0

    def spoil(self, *, id: str = "f1", ttl: float = 60, **how: Any) -> None:
        self.agents["h1"].call("net.spoil", id=id, ttl=ttl, peers=[ADDRESSES["h2"]], **how)

    def train(self, source: str, target: str) -> dict[str, int]:
        """What is counted of a train that is thrown now."""
        self._trains += 1
        nonce = f"train {self._trains}"
        throw = {"targets": {target: ADDRESSES[target]}, "nonce": nonce, "source": source, "count": CARS}
        self.agents[source].call("probe.throw", **throw)
        return self.agents[target].call("probe.caught", nonce=nonce)["caught"].get(source, {})

    def start(self, host: str, script: str) -> subprocess.Popen[str]:
        command = [*self.inside[host], sys.executable, "-c", script]
        started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None and started.stdout.readline() == "ready\n"
        return started

    def run(self, host: str, script: str, *arguments: object) -> str:
        command = [*self.inside[host], sys.executable, "-c", script, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    def is_clean(self) -> bool:
        both = (self.train("h1", "h2"), self.train("h2", "h1"))
        return all(one == clean_train() for one in both)


def clean_train() -> dict[str, int]:
    nothing = dict.fromkeys(("twice", "damaged", "overtaken", "lost", "bursts", "longest"), 0)
    return {"thrown": CARS, "arrived": CARS, **nothing}


@pytest.fixture
def cable(inside: dict[str, list[str]], start_agent: Callable[..., Any]) -> Iterator[Cable]:
    agents = {name: start_agent(address=ADDRESSES[name], name=name, prefix=inside[name]) for name in ADDRESSES}
    yield Cable(agents, inside)


BOTH_WAYS = pytest.mark.parametrize(("source", "target"), [("h1", "h2"), ("h2", "h1")], ids=["outward", "inward"])


@BOTH_WAYS
def test_packets_come_twice(cable: Cable, source: str, target: str) -> None:
    assert cable.is_clean()
    cable.spoil(duplicate=0.3)
    train = cable.train(source, target)
    assert train["arrived"] == CARS and CARS * 0.2 < train["twice"] < CARS * 0.4, train
    cable.agents["h1"].call("heal", id="f1")
    assert cable.is_clean()


@BOTH_WAYS
def test_packets_come_damaged_to_who_asks_for_no_checksum(cable: Cable, source: str, target: str) -> None:
    cable.spoil(corrupt=0.3)
    train = cable.train(source, target)
    assert CARS * 0.15 < train["damaged"] < CARS * 0.4, train
    cable.agents["h1"].call("heal", id="f1")
    assert cable.is_clean()


@BOTH_WAYS
def test_a_damaged_packet_with_a_checksum_is_lost(cable: Cable, source: str, target: str) -> None:
    cable.spoil(corrupt=0.3)
    counting = cable.start(target, COUNT)
    cable.run(source, CHECKED, ADDRESSES[target])
    assert counting.stdout is not None
    whole, damaged = map(int, counting.stdout.readline().split())
    counting.wait(5)
    assert damaged == 0 and CARS * 0.6 < whole < CARS * 0.8


@BOTH_WAYS
def test_packets_are_overtaken(cable: Cable, source: str, target: str) -> None:
    cable.spoil(reorder=0.2, late_s=0.01)
    train = cable.train(source, target)
    assert train["arrived"] == CARS and CARS * 0.1 < train["overtaken"] < CARS * 0.3, train


@BOTH_WAYS
def test_packets_are_lost_in_bursts(cable: Cable, source: str, target: str) -> None:
    cable.spoil(enter=0.05, leave=0.2)
    train = cable.train(source, target)
    assert train["lost"] > CARS * 0.05 and train["lost"] / train["bursts"] > 2.5, train


def test_a_stream_arrives_whole_through_all_of_it(cable: Cable) -> None:
    cable.spoil(duplicate=0.1, corrupt=0.03, reorder=0.1, late_s=0.003)
    receiving = cable.start("h1", EXCHANGE)
    sent = cable.run("h2", SEND, ADDRESSES["h1"])
    assert receiving.stdout is not None
    assert receiving.stdout.readline() == sent
    receiving.wait(5)


def test_it_overlaps_with_a_slow_link_and_each_heals_alone(cable: Cable) -> None:
    h1, h2 = cable.agents["h1"], cable.agents["h2"]
    h1.call("net.shape", id="slow", ttl=60, peers=[ADDRESSES["h2"]], delay_s=0.02)
    cable.spoil(duplicate=0.5)
    assert cable.train("h1", "h2")["twice"] > CARS * 0.3
    h1.call("heal", id="f1")
    assert h2.call("probe.latency", targets={"h1": ADDRESSES["h1"]})["h1"] > 0.035
    assert cable.train("h1", "h2")["twice"] == 0
    h1.call("heal", id="slow")
    assert h2.call("probe.latency", targets={"h1": ADDRESSES["h1"]})["h1"] < 0.01


def test_it_ends_by_its_time_to_live_with_nobody_there(cable: Cable, wait_until: Callable[..., float]) -> None:
    h1 = cable.agents["h1"]
    cable.spoil(duplicate=1.0, ttl=1.5)
    assert cable.train("h1", "h2")["twice"] > CARS / 4
    h1.kill()
    wait_until(lambda: not list((h1.state / "journal").glob("*.json")), "the fault is over")
    assert not list((h1.state / "emulators").glob("*.json"))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, "give at least one"),
        ({"duplicate": 1.5}, "duplicate: 1.5 must be a number from 0 to 1"),
        ({"reorder": 0.5}, "late_s"),
        ({"enter": 0.1, "leave": 0}, "leave"),
    ],
)
def test_nonsense_is_refused(agent: Any, refused: type[Exception], how: dict[str, Any], said: str) -> None:
    with pytest.raises(refused, match=said):
        agent.call("net.spoil", id="f1", ttl=5, peers=["*"], **how)
