"""Messages held and cut, for real: a host with a node and a proxy, and clients on another, in network namespaces.

The node is a stand-in that answers every request with its correlation id. Nothing of this machine's own network is
touched: the namespaces are anonymous and go with the processes that hold them.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.harness.hosts.network import LabNetwork, process_started
from tests.facts import naming
from tests.nemesis.agent.conftest import RunningAgent, package_of
from tests.nemesis.agent.rpc.test_rpc_frames import FETCH, PRODUCE, request

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("rpc"),
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, which needs root"),
]

HOST, NEAR, FAR = "10.99.8.1", "10.99.8.2", "10.99.8.3"
PORT = 9092
NODE = """
import socket, struct, threading
def serve(connection):
    stream = connection.makefile("rb")
    while length := stream.read(4):
        request = stream.read(struct.unpack(">i", length)[0])
        connection.sendall(struct.pack(">i", 4) + request[4:8])
server = socket.create_server(("", 9092), backlog=128)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


class Client:
    """A connection from the other host."""

    def __init__(self, network: LabNetwork, source: str) -> None:
        self.socket = network.socket()
        self.socket.settimeout(3)
        self.socket.bind((source, 0))
        self.socket.connect((HOST, PORT))
        self._asked = 0

    def ask(self, api_key: int, body: bytes = b"") -> None:
        self._asked += 1
        self.socket.sendall(request(api_key, self._asked, body))

    def answered(self, within: float = 2) -> bool:
        """Whether the next answer comes."""
        self.socket.settimeout(within)
        try:
            return len(self.socket.recv(8, socket.MSG_WAITALL)) == 8
        except (TimeoutError, ConnectionResetError):
            return False

    def asks_and_is_answered(self, api_key: int) -> bool:
        self.ask(api_key)
        return self.answered()

    def ended(self, within: float = 3) -> str:
        """`closed`, `reset`, or `open` if neither."""
        self.socket.settimeout(within)
        try:
            return "closed" if not self.socket.recv(1) else "open"
        except ConnectionResetError:
            return "reset"
        except TimeoutError:
            return "open"


class Host:
    """The host with the node, and where its clients are."""

    def __init__(self, agent: RunningAgent, inside: list[str], outside: LabNetwork) -> None:
        self.agent = agent
        self._inside = inside
        self._outside = outside
        self._clients: list[Client] = []

    def connect(self, source: str = NEAR) -> Client:
        client = Client(self._outside, source)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.socket.close()

    def hold(self, api_key: int = FETCH, *, id: str = "f1", ttl: float = 60, **more: Any) -> dict[str, Any]:
        return self._inject("rpc.hold", api_key, id, ttl, more)

    def cut(self, api_key: int = PRODUCE, *, id: str = "f1", ttl: float = 60, **more: Any) -> dict[str, Any]:
        return self._inject("rpc.cut", api_key, id, ttl, more)

    def _inject(self, verb: str, api_key: int, id: str, ttl: float, more: dict[str, Any]) -> dict[str, Any]:
        arguments = {"direction": "request", "sources": [NEAR], **more}
        return self.agent.call(verb, id=id, api="an API", api_key=api_key, ttl=ttl, **arguments)

    def heal(self, id: str | None = None) -> None:
        self.agent.call("heal", **({"id": id} if id else {}))

    def seen(self, id: str = "f1") -> dict[str, Any]:
        return self.agent.call("probe.rpc", id=id)

    def rules(self) -> str:
        listing = subprocess.run([*self._inside, "nft", "list", "ruleset"], capture_output=True, text=True)
        return listing.stdout

    def proxy_pid(self) -> int:
        return int((self.agent.state / "rpc" / "proxy.lock").read_text())

    def proxy_runs(self) -> bool:
        return process_started(self.proxy_pid()) is not None

    def is_clean(self) -> bool:
        return "squall" not in self.rules() and not self.proxy_runs()

    def port(self) -> str:
        """As a client finds it."""
        probe = self._outside.socket()
        probe.settimeout(2)
        try:
            probe.connect((HOST, PORT))
        except ConnectionRefusedError:
            return "refused"
        except ConnectionResetError:
            return "reset"
        except TimeoutError:
            return "silent"
        finally:
            probe.close()
        return "open"


@pytest.fixture
def namespaces() -> Iterator[tuple[list[str], LabNetwork]]:
    """The command prefix that enters the node's host, and the network of its clients."""
    holders = [
        subprocess.Popen(["unshare", "--net", "--", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for holder in holders:
        assert holder.stdout is not None
        holder.stdout.readline()
    host, clients = (["nsenter", "--net", "-t", str(holder.pid)] for holder in holders)
    cable = ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(holders[1].pid)]
    subprocess.run([*host, *cable], check=True)
    for prefix, addresses in ((host, [HOST]), (clients, [NEAR, FAR])):
        commands = ["link set lo up", *(f"addr add {one}/24 dev eth0" for one in addresses), "link set eth0 up"]
        for command in commands:
            subprocess.run([*prefix, "ip", *command.split()], check=True)
    started = process_started(holders[1].pid)
    assert started is not None
    yield host, LabNetwork(holders[1].pid, started)
    for holder in holders:
        holder.kill()
        holder.wait()


@pytest.fixture
def host(
    start_agent: Callable[..., RunningAgent],
    namespaces: tuple[list[str], LabNetwork],
    wait_until: Callable[..., float],
) -> Iterator[Host]:
    inside, outside = namespaces
    agent = start_agent(address="0.0.0.0", prefix=inside)
    agent.define([sys.executable, "-c", NODE], ports=[PORT])
    agent.call("proc.start", name="node")
    host = Host(agent, inside, outside)
    wait_until(lambda: host.port() == "open", "the node listens")
    yield host
    host.close()
    if (agent.state / "rpc" / "proxy.lock").exists() and host.proxy_runs():
        os.kill(host.proxy_pid(), signal.SIGKILL)


def test_a_held_request_waits_until_the_fault_is_healed(host: Host) -> None:
    host.hold(FETCH)
    one, other = host.connect(), host.connect()
    one.ask(FETCH)
    assert other.asks_and_is_answered(PRODUCE), "other connections go on"
    assert not one.answered(within=0.3)
    assert host.seen() == {"open": True, "met": 1, "waiting": 1, "reset": 0, "cut_short": False}
    host.heal("f1")
    assert one.answered()
    assert host.seen() == {"open": False, "met": 1, "waiting": 0, "reset": 0, "cut_short": False}
    assert host.is_clean()
    assert host.connect().asks_and_is_answered(FETCH)


def test_a_held_answer_waits_too(host: Host) -> None:
    host.hold(FETCH, direction="response")
    one = host.connect()
    assert one.asks_and_is_answered(PRODUCE)
    one.ask(FETCH)
    assert not one.answered(within=0.3)
    assert host.seen()["waiting"] == 1
    host.heal("f1")
    assert one.answered()


def test_one_request_is_taken_out_and_outlives_its_connection(host: Host, wait_until: Callable[..., float]) -> None:
    host.hold(FETCH, count=1, pass_others=True, outlive=True)
    one = host.connect()
    one.ask(FETCH, b"late")
    assert one.asks_and_is_answered(FETCH), "the next one passes"
    assert (host.seen()["met"], host.seen()["waiting"]) == (1, 1)
    one.socket.close()
    assert host.connect().asks_and_is_answered(FETCH)
    assert host.seen()["waiting"] == 1, "it outlives its connection"
    host.heal("f1")
    wait_until(lambda: host.seen().get("late") == 1, "it is delivered without its sender")
    assert (host.seen()["delivered"], host.seen()["answered"]) == (1, 1)
    assert host.is_clean()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"count": 0}, "count"),
        ({"outlive": True}, "outlive"),
        ({"outlive": True, "pass_others": True, "direction": "response"}, "outlive"),
        ({"pass_others": 1}, "pass_others"),
        ({"until": {"api_key": 0, "direction": "answer", "messages": 1}}, "until.direction"),
    ],
)
def test_a_hold_that_cannot_be_is_refused(
    host: Host, refused: type[Exception], arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(refused, match=naming(named)):
        host.hold(FETCH, **arguments)


def test_connections_from_before_are_reset_once_and_come_again_through_the_proxy(host: Host) -> None:
    before, stranger = host.connect(), host.connect(FAR)
    assert before.asks_and_is_answered(FETCH) and stranger.asks_and_is_answered(FETCH)
    assert host.hold(FETCH)["reset"] == 1
    assert before.ended() == "reset"
    assert stranger.asks_and_is_answered(FETCH), "whoever is not concerned keeps the connection"
    again = host.connect()
    again.ask(FETCH)
    assert not again.answered(within=0.3)
    assert (host.seen()["met"], host.seen()["reset"]) == (1, 1)
    assert host.hold(FETCH)["reset"] == 0, "to renew a fault resets nothing"


def test_everyone_is_concerned_by_a_star(host: Host) -> None:
    host.hold(FETCH, sources=["*"])
    one, other = host.connect(NEAR), host.connect(FAR)
    one.ask(FETCH)
    other.ask(FETCH)
    assert not one.answered(within=0.2) and not other.answered(within=0.2)
    assert host.seen()["waiting"] == 2


def test_answers_are_cut_off_again_and_again(host: Host) -> None:
    host.cut(PRODUCE, direction="response", messages=0)
    for times in (1, 2, 3):
        one = host.connect()
        assert one.asks_and_is_answered(FETCH)
        one.ask(PRODUCE)
        assert one.ended() == "reset"
        assert host.seen()["met"] == times
    host.heal("f1")
    assert host.connect().asks_and_is_answered(PRODUCE)


def test_a_killed_proxy_leaves_the_node_reachable_and_the_fault_cut_short(
    host: Host, wait_until: Callable[..., float]
) -> None:
    host.hold(FETCH)
    held = host.connect()
    held.ask(FETCH)
    wait_until(lambda: host.seen()["waiting"] == 1, "it is held")
    os.kill(host.proxy_pid(), signal.SIGKILL)
    assert held.ended() in ("closed", "reset")
    wait_until(lambda: not host.proxy_runs(), "it is dead", timeout=1)
    assert host.connect().asks_and_is_answered(FETCH), "at once, whether anybody has noticed or not"
    wait_until(lambda: host.agent.call("journal") == {"entries": []}, "the keeper ends the fault", timeout=2)
    assert host.is_clean()
    assert host.seen() == {"open": False, "met": 1, "waiting": 0, "reset": 0, "cut_short": True}


def test_it_ends_by_its_time_to_live_though_the_agent_was_killed(host: Host, wait_until: Callable[..., float]) -> None:
    host.hold(FETCH, ttl=3)  # longer than an agent on a busy machine takes to say so
    one = host.connect()
    one.ask(FETCH)
    host.agent.kill()
    assert one.answered(within=8)
    wait_until(host.is_clean, "nothing is left", timeout=3)


def test_it_ends_by_its_time_to_live_though_keeper_and_agent_were_killed(
    host: Host, wait_until: Callable[..., float]
) -> None:
    host.hold(FETCH, ttl=3)  # longer than an agent on a busy machine takes to say so
    one = host.connect()
    one.ask(FETCH)
    host.agent.kill_keepers()
    host.agent.kill()
    assert one.answered(within=8)
    wait_until(lambda: not host.proxy_runs(), "the proxy goes by itself", timeout=3)
    assert host.connect().asks_and_is_answered(FETCH), "the rule that nobody removed does nothing"


@pytest.mark.parametrize("order", [("hold", "cut"), ("cut", "hold")])
def test_overlapping_faults_heal_in_any_order(host: Host, order: tuple[str, str]) -> None:
    host.hold(FETCH, id="hold")
    host.cut(PRODUCE, id="cut", messages=0, sources=[NEAR, FAR])

    def holds() -> bool:
        one = host.connect()
        one.ask(FETCH)
        return not one.answered(within=0.3)

    def cuts() -> bool:
        one = host.connect()
        one.ask(PRODUCE)
        return one.ended(within=0.3) == "reset"

    acts = {"hold": holds, "cut": cuts}
    assert holds() and cuts()
    host.heal(order[0])
    assert not acts[order[0]]() and acts[order[1]]()
    host.heal(order[1])
    assert not holds() and not cuts()
    assert host.is_clean()


def test_a_dead_node_refuses_connections_and_restarts_behind_the_proxy(
    host: Host, wait_until: Callable[..., float]
) -> None:
    host.hold(FETCH)
    one = host.connect()
    assert one.asks_and_is_answered(PRODUCE)
    host.agent.call("proc.kill", id="kill", name="node", ttl=60)
    assert one.ended() in ("closed", "reset")
    wait_until(lambda: host.port() == "refused", "the gate is closed", timeout=1)
    host.agent.call("heal", id="kill")
    wait_until(lambda: host.port() == "open", "the node is back")

    def held_again() -> bool:
        one = host.connect()
        one.ask(FETCH)
        return not one.answered(within=0.2) and host.seen()["waiting"] > 0

    wait_until(held_again, "its requests are held as before", timeout=3)


def test_what_was_under_way_when_it_heals_is_answered_before_the_proxy_goes(host: Host) -> None:
    host.hold(FETCH)
    one = host.connect()
    one.ask(PRODUCE)
    one.ask(FETCH)
    one.ask(PRODUCE)
    assert one.answered() and not one.answered(within=0.2)
    host.heal("f1")
    assert one.answered() and one.answered(), "the held request and the one behind it"
    assert one.ended() == "closed", "and then an ordinary end, so that the client comes again past the proxy"


def test_large_messages_come_through_whole(host: Host) -> None:
    host.hold(FETCH)
    one = host.connect()
    one.ask(PRODUCE, b"x" * 3_000_000)
    assert one.answered()
    one.ask(FETCH, b"y" * 100_000)
    assert not one.answered(within=0.2)
    host.heal("f1")
    assert one.answered()


def test_a_process_that_was_defined_without_ports_is_refused(host: Host, refused: Any) -> None:
    host.agent.define(["/bin/sleep", "1000"], name="other")
    with pytest.raises(refused, match="defined without `ports`"):
        host.hold(FETCH, name="other")
    assert host.agent.call("journal") == {"entries": []}


def test_the_control_port_is_never_sent_through_a_proxy(host: Host, refused: Any) -> None:
    host.agent.define(["/bin/sleep", "1000"], name="other", ports=[22])
    with pytest.raises(refused, match=naming("22", "control connection")):
        host.hold(FETCH, name="other")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"direction": "up"}, "direction: 'up' must be one of request, response"),
        ({"api_key": -1}, "api_key: -1 must be at least 0"),
        ({"sources": ["nowhere"]}, "'nowhere' is not an IP address"),
        ({"messages": -1}, "messages: -1 must be at least 0"),
    ],
)
def test_strange_arguments_are_refused(host: Host, refused: Any, wrong: dict[str, Any], said: str) -> None:
    arguments = {"api": "Fetch", "api_key": 1, "direction": "request", "sources": ["*"], **wrong}
    with pytest.raises(refused, match=said):
        host.agent.call("rpc.cut", id="f1", ttl=5, **arguments)


def test_a_host_whose_kernel_hands_no_connections_over_says_so(
    start_agent: Callable[..., RunningAgent], program: Path, tmp_path: Path, refused: Any
) -> None:
    nft = tmp_path / "nft"
    nft.write_text("#!/bin/sh\necho 'Error: Could not process rule: No such file or directory' >&2\nexit 1\n")
    nft.chmod(0o755)
    copy = shutil.copytree(program.parent, tmp_path / "agent")
    module = package_of(copy / "agent.py") / "rpc" / "rpc.py"
    module.write_text(module.read_text().replace('find_program("nft")', repr(str(nft))))
    agent = start_agent(program=copy / "agent.py")
    agent.define(["/bin/sleep", "1000"], ports=[PORT])
    with pytest.raises(refused, match=naming("nft_tproxy")) as trouble:
        agent.call("rpc.hold", id="f1", api="Fetch", api_key=1, direction="request", sources=["*"], ttl=5)
    assert trouble.value.kind == "unsupported"
    assert agent.call("journal") == {"entries": []}
