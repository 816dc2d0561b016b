"""Servers of NATS with JetStream on the loopback interface, for entries of the gallery.

    nodes = NatsNodes(program, servers=3, settings={"sync_interval": "always"}, directory, watched=True)
    nodes.start()

Servers are named n1, n2, …; all of them are in one cluster, and each knows every route. `watched` servers have their
fsyncs written down (`sync_ledger.py`), so that they can lose power.

They are numbered from 1, once they have elected a meta leader, which gets the highest number. So a schedule that kills
the first ones does not depend on which server the election has chosen.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

from squall.harness.gallery.core.node_process import NodeProcess, keep_files, wait_until_listening
from squall.harness.gallery.core.sync_ledger import SyncLedger
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.loopback.loopback import free_ports
from squall.harness.systems.asked import TROUBLES, ask
from squall.harness.systems.nats.admin import leader_in
from squall.harness.systems.nats.configuration import Server, configuration

LOOK_EVERY_S: Final = 0.1
MONITOR_SECONDS: Final = 2.0


class NatsNode(NodeProcess):
    """One server and its files."""

    def __init__(self, program: Path, directory: Path, ledger: SyncLedger | None) -> None:
        super().__init__(directory / "node.log")
        self._command = [str(program), "-c", str(directory / "node.conf")]
        self._ledger = ledger

    def lose_power(self) -> int:
        """Kill the server and drop what it has not fsynced. Returns how many bytes that was."""
        assert self._ledger is not None, "only a watched server can lose power"
        self.kill()
        return self._ledger.lose_power().bytes_gone

    def _spawn(self, out: IO[bytes]) -> subprocess.Popen[bytes]:
        if self._ledger is not None:
            return self._ledger.start(self._command, out)
        return subprocess.Popen(self._command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)


class NatsNodes:
    """A cluster; use as a context, which ends every process."""

    def __init__(
        self, program: Path, servers: int, settings: Mapping[str, str], directory: Path, *, watched: bool
    ) -> None:
        numbers = range(1, servers + 1)
        ports = iter(free_ports(3 * servers))
        self.ports = {number: next(ports) for number in numbers}
        self._routes = {number: next(ports) for number in numbers}
        self._monitors = {number: next(ports) for number in numbers}
        self.numbers = {name_of(number): number for number in numbers}
        """The number of each server by its name."""
        self.nodes: dict[int, NodeProcess] = {}
        for number in numbers:
            there = directory / f"node-{number}"
            data = there / "data"
            data.mkdir(parents=True)
            (there / "node.conf").write_text(self._configuration(number, data, settings), encoding="utf-8")
            self.nodes[number] = NatsNode(program, there, SyncLedger(data) if watched else None)

    def __enter__(self) -> NatsNodes:
        return self

    def __exit__(self, *exc: object) -> None:
        for node in self.nodes.values():
            node.kill()

    @property
    def bootstrap(self) -> str:
        """The addresses that clients begin with."""
        return ",".join(f"nats://127.0.0.1:{port}" for port in self.ports.values())

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def wait_until_listening(self, seconds: float) -> None:
        """Wait until every server accepts connections. Raises NotReproduced with a server's last words."""
        wait_until_listening({self.nodes[number]: port for number, port in self.ports.items()}, seconds)

    def number_the_meta_leader_last(self, seconds: float) -> None:
        """Wait for a meta leader, and give it the highest number. Raises NotReproduced."""
        leader, last = self.numbers[self._meta_leader(seconds)], len(self.nodes)
        self.nodes = _swapped(self.nodes, leader, last)
        self.ports = _swapped(self.ports, leader, last)
        names = _swapped({number: name for name, number in self.numbers.items()}, leader, last)
        self.numbers = {name: number for number, name in names.items()}

    def _meta_leader(self, seconds: float) -> str:
        """The name of the meta leader, as soon as a server knows one."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for port in self._monitors.values():
                if leader := _meta_leader_at(port):
                    return leader
            time.sleep(LOOK_EVERY_S)
        raise NotReproduced(f"no meta leader is elected within {seconds:g} s")

    def keep_logs(self, directory: Path) -> None:
        """Copy each server's log and configuration to `directory`/NUMBER."""
        keep_files(self.nodes, ("node.log", "node.conf"), directory)

    def _configuration(self, number: int, data: Path, settings: Mapping[str, str]) -> str:
        server = Server(
            name=name_of(number),
            clients=f"127.0.0.1:{self.ports[number]}",
            monitor=f"127.0.0.1:{self._monitors[number]}",
            routes=f"127.0.0.1:{self._routes[number]}",
            store=str(data),
        )
        return configuration(server, [f"127.0.0.1:{port}" for port in self._routes.values()], settings)


def _swapped(numbered: Mapping[int, Any], one: int, other: int) -> dict[int, Any]:
    """The same values, with those of two numbers exchanged."""
    return {**numbered, one: numbered[other], other: numbered[one]}


def name_of(number: int) -> str:
    """The name of a server."""
    return f"n{number}"


def _meta_leader_at(monitor: int) -> str:
    """The name of the meta leader, as a server says at its monitoring port; empty if it knows none."""
    try:
        return leader_in(ask(("127.0.0.1", monitor), "/jsz", MONITOR_SECONDS))
    except TROUBLES:
        return ""
