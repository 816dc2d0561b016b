"""Controllers as processes, for the controller benchmark: read traces, restart with other settings, sample memory.

A trace carries times of the machine's monotonic clock, which is also this process's, so a node's own events and
measurements from outside share one time line.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Thread

import psutil

from squall.benchmarks.parts.stub_brokers import until
from squall.harness.loopback.loopback import Cluster, NodeProcess

LOAD_TIMEOUT_S = 300.0
PROBE_EVERY_S = 0.01
_API_VERSIONS = b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
"""Header of version 1: key 18, version 0, correlation 1, no client id."""


@dataclass(frozen=True)
class Happened:
    """One line of a trace; `at` in seconds of the monotonic clock."""

    at: float
    node: int
    name: str
    fields: Mapping[str, object]


@dataclass(frozen=True)
class Stages:
    """The stages of a failover, in seconds after the kill."""

    detect: float
    """A survivor requests votes."""
    elect: float
    """A leader is elected."""
    load: float
    """The leader has replayed everything, and decides."""


class Controllers:
    """The controllers of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.ids = list(cluster.controller_ports)

    def node(self, controller: int) -> NodeProcess:
        return self._cluster.nodes[controller]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", port) for port in self._cluster.controller_ports.values()]

    async def are_up(self) -> None:
        """Wait until all of them respond. Raises AssertionError with the end of its log if one has died."""
        for one in self.ids:
            while await self.applied(one) < -1:
                node = self.node(one)
                assert node.pid is not None, f"controller {one} has died: {node.log[-1000:]}"
                await asyncio.sleep(0.05)

    def kill(self, controller: int) -> None:
        """Send SIGKILL to one, and wait until it has ended."""
        self.node(controller).kill()

    def resident(self) -> list[int]:
        """Resident bytes of each running controller."""
        return [psutil.Process(pid).memory_info().rss for one in self.ids if (pid := self.node(one).pid) is not None]

    def processor_s(self) -> float:
        """Processor time of all running controllers."""
        times = [psutil.Process(pid).cpu_times() for one in self.ids if (pid := self.node(one).pid) is not None]
        return sum(one.user + one.system for one in times)

    # -- traces -----------------------------------------------------------------------------------------------

    def happened(self, controller: int, since: float, *names: str) -> Iterator[Happened]:
        """The events in a controller's trace since a time, as far as written."""
        path = self.node(controller).trace_path
        wanted = tuple(f'"event": "{name}"' for name in names)
        for line in path.read_text().splitlines() if path.exists() else ():
            if any(one in line for one in wanted) and line.endswith("}"):
                fields = json.loads(line)
                if fields["t"] / 1e6 >= since:
                    yield Happened(fields["t"] / 1e6, controller, fields["event"], fields)

    async def stages(self, survivors: Sequence[int], killed_at: float) -> Stages:
        """The failover's stages after a kill, from the survivors' traces; waits until they contain all stages."""
        found: list[Stages] = []

        def told() -> bool:
            events = [one for node in survivors for one in self.happened(node, killed_at, "state", "controller")]
            asked = [one.at for one in events if one.fields.get("role") in ("prospective", "candidate")]
            led = [one.at for one in events if one.fields.get("role") == "leader"]
            decided = [one.at for one in events if one.fields.get("active") is True]
            if asked and led and decided:
                found.append(Stages(min(asked) - killed_at, max(led) - killed_at, max(decided) - killed_at))
            return bool(found)

        await until("the traces tell of the failover", told, every_s=0.1)
        return found[0]

    # -- restarts -----------------------------------------------------------------------------------------------

    def configure(self, properties: Mapping[str, str]) -> None:
        """Change settings, effective from each controller's next start."""
        for controller in self.ids:
            path = self.node(controller).config_path
            lines = dict(line.split("=", 1) for line in path.read_text().splitlines())
            path.write_text("".join(f"{key}={value}\n" for key, value in {**lines, **properties}.items()))

    async def start(self, controller: int) -> float:
        """Start a stopped controller, and wait until it has replayed what was applied when it began.

        Returns the seconds that this took.
        """
        goal = max([await self.applied(one) for one in self.ids if one != controller])
        began = time.monotonic()
        self.node(controller).start()
        while await self.applied(controller) < goal:
            if time.monotonic() - began > LOAD_TIMEOUT_S:
                raise AssertionError(f"controller {controller} is not ready in {LOAD_TIMEOUT_S:.0f} s")
            await asyncio.sleep(0.1)
        loaded = [one.at for one in self.happened(controller, began, "snapshot_loaded")]
        return (min(loaded) if loaded else time.monotonic()) - began

    async def restart(self, controller: int) -> float:
        self.kill(controller)
        return await self.start(controller)

    async def applied(self, controller: int) -> float:
        """The offset of the last record that a controller has replayed, by its metrics.

        -1 if there is none yet, -2 without a response.
        """
        if self.node(controller).pid is None:
            return -2.0
        try:
            metrics = await asyncio.to_thread(self._cluster.metrics, controller)
        except OSError:
            return -2.0
        return metrics.value("kafka_controller_last_applied_record_offset")


class LoopProbe:
    """Requests each controller's API versions every few milliseconds, and keeps the longest wait for a response.

    It is a thread beside the stubs, so a wait includes delays by the interpreter and the machine.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self._addresses = addresses
        self._ended = Event()
        self.longest_s = 0.0
        self.asked = 0

    def __enter__(self) -> LoopProbe:
        self._threads = [Thread(target=self._ask, args=(address,), daemon=True) for address in self._addresses]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, address: tuple[str, int]) -> None:
        frame = len(_API_VERSIONS).to_bytes(4, "big") + _API_VERSIONS
        with socket.create_connection(address, timeout=60.0) as connection:
            while not self._ended.wait(PROBE_EVERY_S):
                began = time.monotonic()
                try:
                    connection.sendall(frame)
                    _received(connection, int.from_bytes(_received(connection, 4), "big"))
                except (OSError, EOFError):
                    return  # the controller was killed
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                self.asked += 1


def _received(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        piece = connection.recv(size - len(content))
        if not piece:
            raise EOFError("the controller closed the connection")
        content += piece
    return content


async def sampled_peak(controllers: Controllers, ended: asyncio.Event) -> int:
    """The maximum resident bytes of any controller until the event."""
    peak = 0
    while not ended.is_set():
        peak = max([peak, *controllers.resident()])
        await asyncio.sleep(0.1)
    return peak
