"""Probe hosts from each other in simulation: datagrams, connections, round trips (docs/architecture.md, `probe.…`).

Probes examine the network as it is at that moment and take some virtual time, but are not traffic of the nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.network import SimNetwork
from squall.harness.simulation.world.process import SimProcess

Arguments = Mapping[str, object]
Answer = dict[str, object]

LATENCY_S = 0.001


class Probes:
    """The probes of one host. `taking_time` maps verbs to the probes that must be awaited."""

    def __init__(self, process: SimProcess, network: SimNetwork) -> None:
        self.taking_time: dict[str, Callable[[Arguments], Awaitable[Answer]]] = {
            "probe.reach": self._reach,
            "probe.send": self._send,
            "probe.port": self._port,
            "probe.latency": self._latency,
        }
        self._process = process
        self._network = network
        self._heard: dict[str, dict[str, int]] = {}
        self._peers: dict[str, Probes] = {}

    def meet(self, peers: Mapping[str, Probes]) -> None:
        """Register the other hosts, once all exist."""
        self._peers = dict(peers)

    async def _reach(self, arguments: Arguments) -> Answer:
        targets = arguments["targets"]
        assert isinstance(targets, Mapping)
        await asyncio.sleep(LATENCY_S)
        return {str(name): not self._is_cut_from(str(address)) for name, address in targets.items()}

    def _is_cut_from(self, address: str) -> bool:
        """Return whether either direction between this host and the address is blocked."""
        own = self._process.address
        return self._network.blocked(own, address) or self._network.blocked(address, own)

    async def _send(self, arguments: Arguments) -> Answer:
        targets = arguments["targets"]
        assert isinstance(targets, Mapping)
        await asyncio.sleep(LATENCY_S)
        for name, address in targets.items():
            peer = self._peers.get(str(name))
            if peer is not None and not self._network.blocked(self._process.address, str(address)):
                counts = peer._heard.setdefault(str(arguments["nonce"]), {})
                source = str(arguments.get("source", self._process.name))
                counts[source] = counts.get(source, 0) + 1
        return {}

    def heard(self, arguments: Arguments) -> Answer:
        return {"heard": dict(self._heard.get(str(arguments["nonce"]), {}))}

    async def _port(self, arguments: Arguments) -> Answer:
        targets = arguments["targets"]
        assert isinstance(targets, Mapping)
        await asyncio.sleep(LATENCY_S)
        return {str(name): self._port_state(str(name), str(where)) for name, where in targets.items()}

    def _port_state(self, name: str, where: str) -> str:
        address = where.rpartition(":")[0]
        if self._network.blocked(self._process.address, address) or self._network.blocked(
            address, self._process.address
        ):
            return "silent"
        peer = self._peers.get(name)
        return "open" if peer is not None and peer._process.running else "refused"

    async def _latency(self, arguments: Arguments) -> Answer:
        """Measure round trips of datagrams of `size` bytes each way; virtual time passes accordingly."""
        targets, size = arguments["targets"], arguments.get("size", 64)
        assert isinstance(targets, Mapping) and isinstance(size, int)
        found: Answer = {}
        for name, address in targets.items():
            there = self._network.probe(self._process.address, str(address), size)
            back = self._network.probe(str(address), self._process.address, size)
            found[str(name)] = None if there is None or back is None else (there + back) / MICROSECONDS
        await asyncio.sleep(LATENCY_S)
        return found
