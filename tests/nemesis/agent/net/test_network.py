"""Deafness, for real: two hosts in network namespaces of their own, joined by a virtual cable.

Each test runs once with nft and once as on a host that has only iptables. Nothing of this machine's own network is
touched: the namespaces are anonymous and go with the processes that hold them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nemesis.agent.conftest import ADDRESSES, package_of

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, which needs root"),
]

CONTROL_PORT = 22
NODE_PORT = 9092
SERVE = """
import socket, sys
for port in map(int, sys.argv[1:]):
    globals()[f"listening_{port}"] = socket.create_server(("", port), backlog=64)
print("ready", flush=True)
connection = None
while True:
    connection, _ = listening_9092.accept()
    for line in connection.makefile():
        print(line.strip(), flush=True)
"""
TALK = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 9092))
for line in sys.stdin:
    connection.sendall(line.encode())
"""


class Pair:
    """Two hosts with an agent each."""

    def __init__(self, h1: Any, h2: Any, inside: dict[str, list[str]]) -> None:
        self.h1 = h1
        self.h2 = h2
        self.inside = inside
        self._nonces = 0

    def hears(self, listener: Any, source: Any) -> bool:
        self._nonces += 1
        nonce = f"n{self._nonces}"
        source.call(
            "probe.send",
            targets={listener.name: ADDRESSES[listener.name]},
            nonce=nonce,
            source=source.name,
        )
        heard = listener.call("probe.heard", nonce=nonce, timeout=0.2, expect=[source.name])["heard"]
        return source.name in heard

    def drop(self, listener: Any, *sources: str, id: str = "f1", ttl: float = 60) -> None:
        listener.call("net.drop", id=id, sources=list(sources), ttl=ttl)

    def rules(self, name: str) -> str:
        listing = subprocess.run([*self.inside[name], "nft", "list", "ruleset"], capture_output=True, text=True)
        return listing.stdout


@pytest.fixture(params=["nft", "iptables"])
def program_with(request: pytest.FixtureRequest, program: Path, tmp_path: Path) -> Path:
    """The agent, once as it is and once as on a host without nft."""
    if shutil.which(request.param) is None:
        pytest.skip(f"this machine has no {request.param}")
    if request.param == "nft":
        return program
    copy = shutil.copytree(program.parent, tmp_path / "agent-without-nft")
    network = package_of(copy / "agent.py") / "net" / "network.py"
    network.write_text(network.read_text().replace('find_program("nft")', 'find_program("absent-nft")'))
    return copy / "agent.py"


@pytest.fixture
def pair(start_agent: Callable[..., Any], program_with: Path, inside: dict[str, list[str]]) -> Pair:
    agents = [
        start_agent(name=name, address="0.0.0.0", prefix=inside[name], program=program_with) for name in ADDRESSES
    ]
    pair = Pair(*agents, inside)
    expected = "iptables" if "without-nft" in str(program_with) else "nft"
    assert pair.h1.call("info")["network"] == expected
    assert pair.hears(pair.h1, pair.h2) and pair.hears(pair.h2, pair.h1)
    return pair


@pytest.fixture
def server(inside: dict[str, list[str]]) -> Iterator[subprocess.Popen[str]]:
    """On h1: a control port and a node port."""
    command = [*inside["h1"], sys.executable, "-c", SERVE, str(CONTROL_PORT), str(NODE_PORT)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()


def test_the_receiver_drops_one_way_only(pair: Pair) -> None:
    pair.drop(pair.h1, ADDRESSES["h2"])
    assert not pair.hears(pair.h1, pair.h2)
    assert pair.hears(pair.h2, pair.h1)
    assert pair.h1.call("probe.reach", targets={"h2": ADDRESSES["h2"]}, timeout=0.2) == {"h2": False}


def test_healed_there_is_no_trace_left(pair: Pair) -> None:
    untouched = pair.rules("h1")
    pair.drop(pair.h1, ADDRESSES["h2"])
    assert pair.rules("h1") != untouched
    assert pair.h1.call("net.allow", id="f1") == {"healed": ["f1"]}
    assert pair.hears(pair.h1, pair.h2)
    assert pair.rules("h1") == "", "no rule, no chain and no table, by whatever firewall"
    assert pair.h1.call("net.allow", id="f1") == {"healed": []}


@pytest.mark.parametrize("order", [("f1", "f2"), ("f2", "f1")])
def test_overlapping_partitions_heal_in_any_order(pair: Pair, order: tuple[str, str]) -> None:
    pair.drop(pair.h1, ADDRESSES["h2"], id="f1")
    pair.drop(pair.h1, "10.99.7.0/24", ADDRESSES["h2"], id="f2")
    pair.h1.call("heal", id=order[0])
    assert not pair.hears(pair.h1, pair.h2)
    pair.h1.call("heal", id=order[1])
    assert pair.hears(pair.h1, pair.h2)


def test_the_control_connection_is_exempt(pair: Pair, server: Any) -> None:
    targets = {
        "control": f"{ADDRESSES['h1']}:{CONTROL_PORT}",
        "node": f"{ADDRESSES['h1']}:{NODE_PORT}",
    }
    assert pair.h2.call("probe.port", targets=targets) == {"control": "open", "node": "open"}
    for sources in ([ADDRESSES["h2"]], ["*"]):
        pair.drop(pair.h1, *sources, id="f")
        found = pair.h2.call("probe.port", targets=targets, timeout=0.3)
        assert found == {"control": "open", "node": "silent"}
        pair.h1.call("heal")


def test_cut_from_everyone_it_neither_hears_nor_is_heard_but_talks_to_itself(pair: Pair) -> None:
    pair.drop(pair.h1, "*")
    assert not pair.hears(pair.h1, pair.h2)
    assert not pair.hears(pair.h2, pair.h1)
    assert pair.h1.call("probe.reach", targets={"self": "127.0.0.1"}, timeout=0.3) == {"self": True}


def test_established_connections_are_cut_and_go_on_after_healing(pair: Pair, server: Any) -> None:
    command = [*pair.inside["h2"], sys.executable, "-u", "-c", TALK, ADDRESSES["h1"]]
    talker = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    assert talker.stdin is not None
    try:
        talker.stdin.write("before\n")
        talker.stdin.flush()
        assert server.stdout.readline() == "before\n"
        pair.drop(pair.h1, ADDRESSES["h2"])
        talker.stdin.write("during\n")
        talker.stdin.flush()
        assert not pair.hears(pair.h1, pair.h2)
        assert not readable(server.stdout, timeout=0.5)
        pair.h1.call("heal")
        assert server.stdout.readline() == "during\n"
    finally:
        talker.kill()
        talker.wait()


def readable(stream: Any, timeout: float) -> bool:
    import select

    return bool(select.select([stream], [], [], timeout)[0])


def test_deafness_ends_by_itself_though_the_agent_was_killed(pair: Pair, wait_until: Any) -> None:
    pair.drop(pair.h1, ADDRESSES["h2"], ttl=1)
    pair.h1.kill()

    def knock() -> str:
        target = {"h1": f"{ADDRESSES['h1']}:{NODE_PORT}"}
        return pair.h2.call("probe.port", targets=target, timeout=0.1)["h1"]

    assert knock() == "silent"
    took = wait_until(lambda: knock() == "refused", "h1 answers again, if only that nobody is there", timeout=6)
    assert took < 5
