"""The proxy: the process that carries connections to this host's node while a fault affects messages.

    python3 -u program.py rpc.proxy --directory DIR --ready DESCRIPTOR

Not Toxiproxy: it treats bytes. This proxy reads the headers of Kafka's messages, so that it can hold one kind of them.

The agent commands it over a Unix socket in its directory, by JSON lines:

    {"do": "apply", "rules": [...], "ports": [9092]}  → {"gates": {"9092": {"ip": 23456, "ip6": 23456}}}
    {"do": "cut"}      → {"cut": 7}              connections that reach the node past the proxy are reset
    {"do": "waiting"}  → {"waiting": {"f1": 2}}  messages held now, by fault

For each port of the node there is a **gate**, a transparent listener to which the firewall redirects new connections
(`rpc_gate.py`). The kernel does so only while a socket listens there; otherwise the connection goes to the node as if
there were no rule. Hence the node stays reachable if the proxy dies in any way. A gate is closed while no process
listens at the node's port, so that a dead node refuses connections as dead nodes do. When the node is back, the gate
opens, and connections made in between are reset so that they reconnect.

The proxy exits when its last rule is over, by command or by the rule's deadline: held messages proceed, no new
connection is accepted, and each connection ends at a quiet moment or is reset a second later. So nothing of the proxy
stays after the faults. One runs per host; it holds a lock, which also shows that it lives.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import resource
import socket
import time
from pathlib import Path
from typing import Any

from squall.nemesis.agent.net.addresses import address_of
from squall.nemesis.agent.net.tcp_sockets import destroy, listens, passing_by
from squall.nemesis.agent.rpc.rpc_gate import Gate
from squall.nemesis.agent.rpc.rpc_relay import Relay, close, connected
from squall.nemesis.agent.rpc.rpc_rules import Effects, Rules, RuleSpec

LOCK, SOCKET, EFFECTS = "proxy.lock", "proxy.socket", "effects"
WATCH = 0.025
"""Seconds between checks: the kernel has no event for a process that begins or stops listening."""
CUT_ROUNDS, CUT_PAUSE = 50, 0.01
LEAVE_SECONDS = 1.0
FIRST_RULE_SECONDS = 10.0
LOCK_SECONDS, LOCK_PAUSE = 2.0, 0.002

Message = dict[str, Any]


class Proxy:
    """Rules, gates and relays of one host."""

    def __init__(self, effects: Effects) -> None:
        self._rules = Rules(effects)
        self._gates: dict[int, Gate] = {}
        self._relays: dict[Relay, asyncio.Task[None]] = {}
        self._arriving: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    async def serve(self, control: socket.socket) -> None:
        """Serve until the last rule is over."""
        server = await asyncio.start_unix_server(self._answer, sock=control)
        watching = asyncio.create_task(self._watch())
        try:
            await self._until_rules_are_over()
        finally:
            watching.cancel()
            for gate in self._gates.values():
                await gate.close()
            await self._leave()
            server.close()

    async def _until_rules_are_over(self) -> None:
        waits_until: float = time.monotonic() + FIRST_RULE_SECONDS
        while True:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), max(0.0, waits_until - time.monotonic()))
            self._rules.end_expired(time.monotonic())
            deadline = self._rules.next_deadline()
            if deadline is None:
                return
            waits_until = deadline

    async def _leave(self) -> None:
        """End all relays. Messages just released are under way, so their relays leave later; stuck relays are reset."""
        for relay in list(self._relays):
            relay.leave()
        tasks = [*self._relays.values(), *self._arriving]
        if tasks:
            await asyncio.wait(tasks, timeout=LEAVE_SECONDS)
        for relay in list(self._relays):
            relay.reset()
        if self._relays:
            await asyncio.wait(list(self._relays.values()), timeout=LEAVE_SECONDS)

    # --- what the agent requests -----------------------------------------------------------------------------

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while line := await reader.readline():
                try:
                    answer = await self._carry_out(json.loads(line))
                except (OSError, ValueError, KeyError, TypeError) as trouble:
                    answer = {"error": f"{type(trouble).__name__}: {trouble}"}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()

    async def _carry_out(self, request: Message) -> Message:
        if request["do"] == "apply":
            return await self._apply([RuleSpec.from_json(one) for one in request["rules"]], request["ports"])
        if request["do"] == "cut":
            return {"cut": sum([await self._cut_what_passes_by(port) for port in self._gates])}
        if request["do"] == "waiting":
            return {"waiting": {rule.spec.id: rule.waiting for rule in self._rules}}
        raise ValueError(f"do: {request['do']!r} is not known")

    async def _apply(self, specs: list[RuleSpec], ports: list[int]) -> Message:
        for port in ports:
            if port not in self._gates:
                self._gates[port] = Gate(port, self._take)
                await self._follow_node(self._gates[port])
        self._rules.become(specs)
        self._changed.set()
        return {"gates": {str(port): gate.listening_at for port, gate in self._gates.items()}}

    # --- connections -----------------------------------------------------------------------------------------

    def _take(self, client: socket.socket, gate: Gate) -> None:
        """Accept a connection that the firewall redirected to a gate."""
        task = asyncio.create_task(self._relay(client, gate))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _relay(self, client: socket.socket, gate: Gate) -> None:
        """Relay to the node, at the address that the client connected to."""
        there, peer = client.getsockname(), client.getpeername()
        if there[1] != gate.node_port:  # the client connected to the gate's own port
            close(client, reset=True)
            return
        node = await connected(client, there)
        if node is None:
            return
        relay = Relay(client, node, address_of(peer[0]), self._rules)
        task = asyncio.create_task(relay.run())
        self._relays[relay] = task
        task.add_done_callback(lambda _: self._relays.pop(relay, None))
        if not len(self._rules):
            relay.leave()

    async def _watch(self) -> None:
        """Keep gates open while the node listens."""
        while True:
            for gate in list(self._gates.values()):
                if await self._follow_node(gate):
                    await self._cut_what_passes_by(gate.node_port)
            await asyncio.sleep(WATCH)

    async def _follow_node(self, gate: Gate) -> bool:
        """Open or close the gate as the node does. Returns whether it was opened."""
        there = listens(gate.node_port)
        if there and not gate.is_open:
            gate.open()
            return True
        if not there and gate.is_open:
            await gate.close()
        return False

    async def _cut_what_passes_by(self, port: int) -> int:
        """Reset connections of the rules' sources that bypass the proxy, including those being established."""
        cut = set()
        for _ in range(CUT_ROUNDS):
            found = [one for one in passing_by(port) if any(rule.concerns(one.peer) for rule in self._rules)]
            if not found:
                break
            for one in found:
                destroy(one)
                if one.key not in cut:
                    cut.add(one.key)
                    self._note_reset(one.peer)
            await asyncio.sleep(CUT_PAUSE)
        return len(cut)

    def _note_reset(self, peer: Any) -> None:
        for rule in self._rules:
            if rule.concerns(peer):
                rule.has_reset(1)


def take_lock(path: Path) -> None:
    """Lock for the life of the process: the kernel closes the descriptor. Raises BlockingIOError if a proxy lives.

    A process that only checks whether a proxy lives holds the lock for a moment.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(LOCK_PAUSE)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())


def bound_control(directory: Path) -> socket.socket:
    """Bind the Unix socket. Its path may be longer than the kernel allows, so it is named through the directory."""
    (directory / SOCKET).unlink(missing_ok=True)
    control = socket.socket(socket.AF_UNIX)
    descriptor = os.open(directory, os.O_PATH)
    try:
        control.bind(f"/proc/self/fd/{descriptor}/{SOCKET}")
    finally:
        os.close(descriptor)
    control.listen()
    return control


def allow_many_connections() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="squall's proxy for faults that pick out messages")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--ready", type=int, required=True, metavar="DESCRIPTOR")
    options = parser.parse_args(argv)
    take_lock(options.directory / LOCK)
    allow_many_connections()
    control = bound_control(options.directory)
    os.write(options.ready, b"+")
    os.close(options.ready)
    asyncio.run(Proxy(Effects(options.directory / EFFECTS)).serve(control))
    return 0
