"""`net.reset`: resets connections of this host at some ports, repeatedly while the fault is open.

Both ends see a reset: the process here an error, the peer a packet. It works as `ss -K` does (`tcp_sockets.py`), in a
separate errand. The control connection's port is not allowed; connections within the host and those of the proxy stay.
"""

from __future__ import annotations

import ipaddress
import os
from typing import Any

from squall.nemesis.agent.core.arguments import number, required
from squall.nemesis.agent.core.fault_workers import CarriedOutByWorker, FaultWorker, FaultWorkers, run_fault_worker
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.net.network import EVERYONE, checked_sources
from squall.nemesis.agent.net.tcp_sockets import MARK, Connection, can_destroy, connected, destroy

LEAST_PERIOD = 0.05


class ResetConnections(CarriedOutByWorker):
    """The fault verb."""

    program = "net.net_reset"

    def __init__(self, workers: FaultWorkers, control_port: int) -> None:
        super().__init__(workers)
        self._control_port = control_port
        self._able: str | None = "not tried"

    def trouble_with_host(self) -> str | None:
        """Why this host cannot reset connections; None if it can. Tried until it works."""
        if self._able is not None:
            self._able = self._tried()
        return self._able

    def _tried(self) -> str | None:
        if os.geteuid() != 0:
            return "only root may reset connections; set ansible_become"
        try:
            if can_destroy():
                return None
        except OSError as refused:
            return f"the kernel's list of sockets cannot be read: {refused}"
        return "the kernel cannot reset connections (CONFIG_INET_DIAG_DESTROY)"

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if trouble := self.trouble_with_host():
            raise VerbError("unsupported", trouble)
        ports = required(arguments, "ports", list, "a list of port numbers")
        if not ports or not all(isinstance(port, int) and 0 < port < 65_536 for port in ports):
            raise VerbError("bad_argument", f"ports: {ports!r} must be a list of port numbers")
        if self._control_port in ports:
            raise VerbError("bad_argument", f"ports: {self._control_port} is the port of the control connection")
        every = number({"every_s": 1.0, **arguments}, "every_s")
        if every < LEAST_PERIOD:
            raise VerbError("bad_argument", f"every_s: {every:g} must be at least {LEAST_PERIOD:g}")
        peers = checked_sources(arguments.get("peers") or [EVERYONE])
        return {"ports": ports, "every_s": every, "peers": peers}


def meant(found: Connection, ports: set[int], peers: list[str]) -> bool:
    """Whether the fault concerns this connection."""
    if found.mark == MARK or found.peer.is_loopback or found.peer == found.local:
        return False
    if not ports & {found.local_port, found.peer_port}:
        return False
    return EVERYONE in peers or any(found.peer in ipaddress.ip_network(peer) for peer in peers)


def reset_again_and_again(worker: FaultWorker) -> None:
    ports, peers = set(worker.arguments["ports"]), worker.arguments["peers"]
    reset = rounds = 0
    goes_on = True
    while goes_on:
        for found in list(connected()):
            if meant(found, ports, peers):
                destroy(found)
                reset += 1
        rounds += 1
        worker.note(reset=reset, rounds=rounds)
        goes_on = worker.wait(worker.arguments["every_s"])


def main(argv: list[str]) -> int:
    return run_fault_worker(argv, reset_again_and_again)
