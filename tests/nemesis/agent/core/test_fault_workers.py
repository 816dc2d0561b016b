"""Connections that are reset again and again, and storms of them, for real: two hosts joined by a virtual cable.

Both are carried out by fault workers, which are separate processes. So here is also tested what holds for all of them:
they end by their time to live with nobody there, and a fault whose worker dies is over and known to be.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis.agent.net.connections import address_in, established
from tests.nemesis.agent.conftest import ADDRESSES

SERVE = """
import socket, threading
def keep(listener):
    kept = []
    while True:
        kept.append(listener.accept()[0])
for listener in [socket.create_server(("", port), backlog=1024) for port in (22, 9092)]:
    threading.Thread(target=keep, args=(listener,)).start()
print("ready", flush=True)
"""
COME_AGAIN = """
import socket, sys, time
def connect(port):
    return socket.create_connection((sys.argv[1], port))
control, one = connect(22), connect(9092)
print("ready", flush=True)
resets = 0
control.settimeout(0)
while True:
    try:
        one.recv(1)
    except ConnectionResetError:
        resets += 1
        one = connect(9092)
    try:
        control.recv(1)
    except BlockingIOError:
        pass
    print(resets, flush=True)
"""
PORTS = [9092]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, which needs root")


class Cable:
    """h1, a host with a node's port, and h2, from where connections come."""

    def __init__(self, agents: dict[str, Any], inside: dict[str, list[str]]) -> None:
        self.h1 = agents["h1"]
        self.h2 = agents["h2"]
        self.inside = inside
        self.started: list[subprocess.Popen[str]] = []

    def start(self, host: str, script: str, *arguments: str) -> subprocess.Popen[str]:
        command = [*self.inside[host], sys.executable, "-c", script, *arguments]
        started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.started.append(started)
        assert started.stdout is not None and started.stdout.readline() == "ready\n"
        return started

    def reset(self, *, id: str = "f1", ttl: float = 60, **how: Any) -> None:
        self.h1.call("net.reset", id=id, ttl=ttl, **{"ports": PORTS, "every_s": 0.2, **how})

    def storm(self, *, id: str = "f1", ttl: float = 60, connections: int = 300) -> None:
        self.h2.call("net.storm", id=id, ttl=ttl, address=ADDRESSES["h1"], port=9092, connections=connections)

    def _listed(self) -> list[int]:
        """The inodes of the connections to the node's port, as the host itself lists them."""
        return [one["inode"] for one in self.h1.call("probe.connections", ports=PORTS)["connections"]]

    def connections(self) -> int:
        return len(self._listed())

    def accepted(self) -> set[int]:
        """The inodes of those that the node has accepted: a client may be connected before that, and they have none."""
        return set(self._listed()) - {0}


@pytest.fixture
def cable(inside: dict[str, list[str]], start_agent: Callable[..., Any]) -> Iterator[Cable]:
    agents = {name: start_agent(address=ADDRESSES[name], name=name, prefix=inside[name]) for name in ADDRESSES}
    joined = Cable(agents, inside)
    joined.start("h1", SERVE)
    yield joined
    for one in joined.started:
        one.kill()
        one.wait()


def errand_pid(agent: Any) -> int:
    (running,) = (agent.state / "errands").glob("*.running.json")
    return int(json.loads(running.read_text())["pid"])


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}/cmdline").exists()


@pytest.mark.lab
@needs_root
def test_connections_are_reset_and_those_that_come_again_are_too(
    cable: Cable, wait_until: Callable[..., float]
) -> None:
    client = cable.start("h2", COME_AGAIN, ADDRESSES["h1"])
    wait_until(lambda: len(cable.accepted()) == 1, "the node has accepted it")
    before = cable.accepted()
    cable.reset()
    assert client.stdout is not None
    assert int(client.stdout.readline()) == 1 and int(client.stdout.readline()) == 2, "the second one was reset too"
    assert not before & cable.accepted()
    wait_until(lambda: cable.h1.call("probe.errand", id="f1")["effect"].get("reset", 0) >= 2, "both are counted")
    cable.h1.call("heal", id="f1")
    wait_until(lambda: len(cable.accepted()) == 1, "the client is connected again")
    last = cable.accepted()
    again = cable.h1.call("probe.errand", id="f1")
    assert not again["open"] and not again["cut_short"] and cable.accepted() == last


@pytest.mark.lab
@needs_root
def test_connections_of_other_peers_and_ports_stay(cable: Cable, wait_until: Callable[..., float]) -> None:
    cable.start("h2", COME_AGAIN, ADDRESSES["h1"])
    wait_until(lambda: len(cable.accepted()) == 1, "the node has accepted it")
    before = cable.accepted()
    cable.reset(peers=["10.1.2.3"])
    cable.reset(id="f2", ports=[9093])

    def done() -> list[dict[str, Any]]:
        return [cable.h1.call("probe.errand", id=id)["effect"] for id in ("f1", "f2")]

    wait_until(lambda: all("reset" in effect for effect in done()), "both have gone round once")
    assert all(effect["reset"] == 0 for effect in done()) and cable.accepted() == before


@pytest.mark.lab
@needs_root
def test_a_storm_holds_its_connections_until_it_is_healed(cable: Cable, wait_until: Callable[..., float]) -> None:
    cable.storm()
    wait_until(lambda: cable.connections() == 300, "300 connections")
    cable.h2.call("heal", id="f1")
    wait_until(lambda: cable.connections() == 0, "no connection is left")


@pytest.mark.lab
@needs_root
def test_connections_that_a_node_cannot_accept_exist_without_an_inode(
    cable: Cable, wait_until: Callable[..., float]
) -> None:
    (node,) = cable.started
    node.send_signal(signal.SIGSTOP)
    cable.storm(connections=50)
    wait_until(lambda: cable.connections() == 50, "50 connections")
    assert not cable.accepted()
    node.send_signal(signal.SIGCONT)
    wait_until(lambda: len(cable.accepted()) == 50, "each has an inode of its own")


@pytest.mark.lab
@needs_root
def test_two_storms_heal_one_by_one(cable: Cable, wait_until: Callable[..., float]) -> None:
    cable.storm(connections=100)
    cable.storm(id="f2", connections=50)
    wait_until(lambda: cable.connections() == 150, "150 connections")
    cable.h2.call("heal", id="f1")
    wait_until(lambda: cable.connections() == 50, "those of the other storm")


@pytest.mark.lab
@needs_root
def test_an_errand_ends_by_its_time_to_live_with_nobody_there(cable: Cable, wait_until: Callable[..., float]) -> None:
    cable.storm(ttl=1.0)
    pid = errand_pid(cable.h2)
    cable.h2.kill_keepers()
    cable.h2.kill()
    wait_until(lambda: is_gone(pid), "the errand is gone")
    wait_until(lambda: cable.connections() == 0, "and so are its connections")


@pytest.mark.lab
@needs_root
def test_a_fault_whose_errand_dies_is_over_and_known_to_be(cable: Cable, wait_until: Callable[..., float]) -> None:
    cable.storm()
    os.kill(errand_pid(cable.h2), signal.SIGKILL)
    wait_until(lambda: not cable.h2.call("journal")["entries"], "the keeper has ended it")
    told = cable.h2.call("probe.errand", id="f1")
    assert told["cut_short"] and not told["open"]


@pytest.mark.parametrize(
    ("verb", "how", "said"),
    [
        ("net.reset", {"ports": []}, "must be a list of port numbers"),
        ("net.reset", {"ports": [22]}, "control connection"),
        ("net.reset", {"ports": [9092], "every_s": 0.001}, "at least 0.05"),
        ("net.storm", {"address": "b1", "port": 9092, "connections": 5}, "not an IP address"),
        ("net.storm", {"address": "10.0.0.1", "port": 9092, "connections": 0}, "connections: 0 must be from 1"),
    ],
)
@needs_root
def test_nonsense_is_refused(agent: Any, refused: type[Exception], verb: str, how: dict[str, Any], said: str) -> None:
    with pytest.raises(refused, match=said):
        agent.call(verb, id="f1", ttl=5, **how)


def test_addresses_of_the_kernels_tables_are_read_as_people_write_them() -> None:
    assert address_in("0100007F:1F90") == ("127.0.0.1", 8080)
    assert address_in("0000000000000000FFFF00000B4D0A0A:2384") == ("10.10.77.11", 9092)
    assert address_in("00000000000000000000000001000000:0016") == ("::1", 22)


def test_only_established_connections_with_other_hosts_at_these_ports_count() -> None:
    table = "\n".join(
        [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
            "   0: 0B4D4D0A:2384 0C4D4D0A:C350 01 0:0 00:0 0 0 0 71 1",
            "   1: 0B4D4D0A:2384 0C4D4D0A:C351 06 0:0 00:0 0 0 0 72 1",
            "   2: 0B4D4D0A:2384 0B4D4D0A:C352 01 0:0 00:0 0 0 0 73 1",
            "   3: 0B4D4D0A:0016 0C4D4D0A:C353 01 0:0 00:0 0 0 0 74 1",
        ]
    )
    assert list(established(table, {9092})) == [{"port": 9092, "peer": "10.77.77.12", "peer_port": 50000, "inode": 71}]
