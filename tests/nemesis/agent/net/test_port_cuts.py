"""Connections of one port cut, for real: two hosts in network namespaces of their own, joined by a virtual cable."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.net.port_cuts import nft_script
from tests.nemesis.agent.conftest import ADDRESSES

LISTEN = """
import socket, time
listening = [socket.create_server(("", port), backlog=64) for port in (22, 9092, 9093)]
print("ready", flush=True)
time.sleep(600)
"""
TALK = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 9092))
connection.settimeout(0.5)
print("ready", flush=True)
sys.stdin.readline()
connection.send(b"x")
import fcntl, struct, termios, time
deadline = time.monotonic() + 0.7
while struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"0000"))[0] and time.monotonic() < deadline:
    time.sleep(0.01)
print("arrived" if time.monotonic() < deadline else "stuck", flush=True)
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, which needs root")


class Cable:
    """h1, which drops, and h2; both listen at the control port, 9092 and 9093."""

    def __init__(self, agents: dict[str, Any], inside: dict[str, list[str]]) -> None:
        self.agents = agents
        self.inside = inside

    def cut(self, *, id: str = "f1", ttl: float = 60, port: int = 9092, **how: Any) -> None:
        self.agents["h1"].call("net.drop_port", id=id, ttl=ttl, port=port, **{"peers": [ADDRESSES["h2"]], **how})

    def found(self, source: str, target: str) -> dict[int, str]:
        """What connections from one to the other find, by port."""
        targets = {str(port): f"{ADDRESSES[target]}:{port}" for port in (22, 9092, 9093)}
        answer = self.agents[source].call("probe.port", targets=targets, timeout=0.3)
        return {int(port): said for port, said in answer.items()}

    def start(self, host: str, script: str, *arguments: str) -> subprocess.Popen[str]:
        command = [*self.inside[host], sys.executable, "-c", script, *arguments]
        started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None and started.stdout.readline() == "ready\n"
        return started


@pytest.fixture
def cable(inside: dict[str, list[str]], start_agent: Callable[..., Any]) -> Iterator[Cable]:
    agents = {name: start_agent(address=ADDRESSES[name], name=name, prefix=inside[name]) for name in ADDRESSES}
    joined = Cable(agents, inside)
    listening = [joined.start(name, LISTEN) for name in ADDRESSES]
    yield joined
    for one in listening:
        one.kill()
        one.wait()


OPEN = {22: "open", 9092: "open", 9093: "open"}
CUT = {**OPEN, 9092: "silent"}


@pytest.mark.lab
@needs_root
def test_one_port_is_cut_both_ways_and_nothing_else(cable: Cable) -> None:
    assert cable.found("h1", "h2") == OPEN and cable.found("h2", "h1") == OPEN
    cable.cut()
    assert cable.found("h1", "h2") == CUT and cable.found("h2", "h1") == CUT
    assert cable.agents["h2"].call("probe.reach", targets={"h1": ADDRESSES["h1"]}, timeout=1) == {"h1": True}
    cable.agents["h1"].call("heal", id="f1")
    assert cable.found("h1", "h2") == OPEN and cable.found("h2", "h1") == OPEN


@pytest.mark.lab
@needs_root
def test_an_established_connection_is_cut_too(cable: Cable) -> None:
    talking = cable.start("h2", TALK, ADDRESSES["h1"])
    cable.cut()
    said, _ = talking.communicate("\n", timeout=10)
    assert said == "stuck\n"


@pytest.mark.lab
@needs_root
def test_everybody_but_some_is_cut_off(cable: Cable) -> None:
    cable.cut(peers=["*"], but=[ADDRESSES["h2"]])
    assert cable.found("h2", "h1") == OPEN
    cable.cut(id="f2", peers=["*"], but=["10.1.2.3"])
    assert cable.found("h2", "h1") == CUT


@pytest.mark.lab
@needs_root
def test_two_cuts_heal_one_by_one_and_what_is_left_over_ends_by_its_time_to_live(
    cable: Cable, wait_until: Callable[..., float]
) -> None:
    cable.cut()
    cable.cut(id="f2", port=9093, ttl=1.5)
    assert cable.found("h2", "h1") == {**CUT, 9093: "silent"}
    cable.agents["h1"].call("heal", id="f1")
    assert cable.found("h2", "h1") == {**OPEN, 9093: "silent"}
    cable.agents["h1"].kill()
    wait_until(lambda: not list((cable.agents["h1"].state / "journal").glob("*.json")), "the fault is over")
    assert cable.agents["h2"].call("probe.port", targets={"h1": f"{ADDRESSES['h1']}:9093"}) == {"h1": "open"}
    rules = subprocess.run([*cable.inside["h1"], "nft", "list", "tables"], capture_output=True, text=True).stdout
    assert "squall" not in rules


def test_one_direction_is_one_chain() -> None:
    cut = {"port": 9092, "peers": ["10.0.0.2", "fd00::2"], "but": [], "direction": "in"}
    inward, _, outward = nft_script([Entry("f1", "net.drop_port", cut, time.monotonic() + 9, 0.0, "")], 22).partition(
        "chain out"
    )
    assert "ip saddr { 10.0.0.2 } tcp dport 9092 counter drop" in inward
    assert "ip6 saddr { fd00::2 } tcp sport 9092 counter drop" in inward
    assert "9092" not in outward


def test_without_cuts_there_is_no_table() -> None:
    assert nft_script([], 22) == "table inet squall_port\ndelete table inet squall_port\n"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"port": 0, "peers": ["*"]}, "port: 0 must be"),
        ({"port": 22, "peers": ["*"]}, "not the control connection"),
        ({"port": 9092, "peers": []}, "peers: .* must be a list of addresses"),
        ({"port": 9092, "peers": ["10.0.0.1"], "but": ["10.0.0.2"]}, "but: "),
        ({"port": 9092, "peers": ["*"], "direction": "up"}, "direction: 'up'"),
    ],
)
@needs_root
def test_nonsense_is_refused(agent: Any, refused: type[Exception], how: dict[str, Any], said: str) -> None:
    with pytest.raises(refused, match=said):
        agent.call("net.drop_port", id="f1", ttl=5, **how)
