"""Simulated hosts: they answer the agent's verbs, so faults, evidence and times to live are written once.

What `nemesis/agent` does with signals, nftables and a clock shim on real hosts happens here to simulated processes,
connections and clocks. Times to live are kept by the kernel, as the host's own watchdog keeps them; the control side
may forget a fault and it heals all the same. Verbs and answers: docs/architecture.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from squall.harness.simulation.kernel import MICROSECONDS, Kernel, Scheduled
from squall.harness.simulation.network import SimNetwork
from squall.harness.simulation.process import SimProcess
from squall.nemesis.ports import EVERYONE, VerbFailed

Arguments = Mapping[str, object]
Answer = dict[str, object]

VERB_LATENCY_S = 0.002
PROBE_LATENCY_S = 0.001


@dataclass(slots=True)
class _Entry:
    """One open fault of a host's journal."""

    verb: str
    detail: str
    undo: Callable[[], None]
    timer: Scheduled | None


class SimHost:
    """One simulated host with one node process; see `nemesis.ports.Host`.

    `addresses` are all hosts of the world by name, for probes and for cutting everyone off.
    """

    def __init__(
        self, process: SimProcess, *, kernel: Kernel, network: SimNetwork, addresses: Mapping[str, str]
    ) -> None:
        self.process = process
        self._kernel = kernel
        self._network = network
        self._addresses = addresses
        self._journal: dict[str, _Entry] = {}
        self._heard: dict[str, dict[str, int]] = {}
        self._peers: dict[str, SimHost] = {}
        self._verbs: dict[str, Callable[[Arguments], Answer]] = {
            "proc.define": lambda arguments: {},
            "proc.start": self._start,
            "proc.stop": self._stop,
            "proc.kill": self._kill,
            "proc.pause": self._pause,
            "proc.resume": self._resume,
            "proc.status": self._status,
            "net.drop": self._drop,
            "net.allow": self._undo_by_id,
            "clock.set": self._set_clock,
            "clock.clear": self._undo_by_id,
            "probe.clock": self._probe_clock,
            "probe.heard": self._probe_heard,
            "heal": self._heal,
            "journal": self._list_journal,
            "info": self._info,
        }

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def address(self) -> str:
        return self.process.address

    def meet(self, peers: Mapping[str, SimHost]) -> None:
        """Learn of the other hosts, once all exist."""
        self._peers = dict(peers)

    def has_open(self, verb: str) -> bool:
        """Whether a fault of this verb is open here."""
        return any(entry.verb == verb for entry in self._journal.values())

    async def call(self, verb: str, **arguments: object) -> Answer:
        await asyncio.sleep(VERB_LATENCY_S)
        if verb == "probe.reach":
            return await self._probe_reach(arguments)
        if verb == "probe.send":
            return await self._probe_send(arguments)
        if verb == "probe.port":
            return await self._probe_port(arguments)
        handler = self._verbs.get(verb)
        if handler is None:
            raise VerbFailed(self.name, verb, "unknown_verb", f"no verb {verb!r}")
        return handler(arguments)

    # -- faults -----------------------------------------------------------------------------------------------

    def _open(self, arguments: Arguments, verb: str, detail: str, undo: Callable[[], None]) -> None:
        identity = str(arguments["id"])
        if identity in self._journal:
            self._renew(identity, arguments)
            return
        time_to_live = arguments.get("ttl")
        timer = None
        if isinstance(time_to_live, int | float):
            timer = self._kernel.after(round(time_to_live * MICROSECONDS), self._undo, identity)
        self._journal[identity] = _Entry(verb, detail, undo, timer)
        self._network.note(f"fault {self.name} {verb} {identity} {detail}")

    def _renew(self, identity: str, arguments: Arguments) -> None:
        """A fault verb repeated under the same id renews its time to live."""
        entry = self._journal[identity]
        time_to_live = arguments.get("ttl")
        if entry.timer is not None and isinstance(time_to_live, int | float):
            entry.timer.cancel()
            entry.timer = self._kernel.after(round(time_to_live * MICROSECONDS), self._undo, identity)

    def _undo(self, identity: str) -> bool:
        entry = self._journal.pop(identity, None)
        if entry is None:
            return False
        if entry.timer is not None:
            entry.timer.cancel()
        if all(other.verb != entry.verb or entry.verb == "net.drop" for other in self._journal.values()):
            entry.undo()
        self._network.note(f"healed {self.name} {identity}")
        return True

    def _undo_by_id(self, arguments: Arguments) -> Answer:
        return {"healed": self._undo(str(arguments["id"]))}

    def _heal(self, arguments: Arguments) -> Answer:
        wanted = arguments.get("id")
        identities = [str(wanted)] if wanted is not None else list(self._journal)
        return {"healed": [identity for identity in identities if self._undo(identity)]}

    def _list_journal(self, arguments: Arguments) -> Answer:
        return {
            "entries": [
                {"id": identity, "verb": entry.verb, "detail": entry.detail}
                for identity, entry in self._journal.items()
            ]
        }

    # -- processes --------------------------------------------------------------------------------------------

    def _start(self, arguments: Arguments) -> Answer:
        for identity in [key for key, entry in self._journal.items() if entry.verb.startswith("proc.")]:
            self._undo(identity)
        self.process.start()
        return {"pid": self.process.incarnation}

    def _stop(self, arguments: Arguments) -> Answer:
        self.process.stop()
        return {}

    def _kill(self, arguments: Arguments) -> Answer:
        if not self.process.running:
            raise VerbFailed(self.name, "proc.kill", "not_running", "the node is not running")
        pid = self.process.incarnation
        power_loss = bool(arguments.get("power_loss", False))
        self._open(arguments, "proc.kill", "node", self.process.start)
        self.process.crash(power_loss=power_loss)
        return {"pid": pid}

    def _pause(self, arguments: Arguments) -> Answer:
        if not self.process.running:
            raise VerbFailed(self.name, "proc.pause", "not_running", "the node is not running")
        self.process.pause()
        self._open(arguments, "proc.pause", "node", self.process.resume)
        return {"pid": self.process.incarnation}

    def _resume(self, arguments: Arguments) -> Answer:
        if "id" in arguments:
            return self._undo_by_id(arguments)
        self.process.resume()
        return {"healed": True}

    def _status(self, arguments: Arguments) -> Answer:
        process = self.process
        state = "absent" if not process.running else "stopped" if process.paused else "running"
        return {"state": state, "pid": process.incarnation if process.running else None, "started": process.incarnation}

    # -- network ----------------------------------------------------------------------------------------------

    def _drop(self, arguments: Arguments) -> Answer:
        sources = arguments["sources"]
        assert isinstance(sources, list | tuple)
        cause = f"{self.name}/{arguments['id']}"
        for source in sources:
            if source == EVERYONE:
                for address in self._addresses.values():
                    self._network.block(address, self.address, cause)
                    self._network.block(self.address, address, cause)
            else:
                self._network.block(str(source), self.address, cause)
        self._open(arguments, "net.drop", ",".join(map(str, sources)), lambda: self._network.unblock(cause))
        return {}

    async def _probe_reach(self, arguments: Arguments) -> Answer:
        targets = arguments["targets"]
        assert isinstance(targets, Mapping)
        await asyncio.sleep(PROBE_LATENCY_S)
        return {
            str(name): not (
                self._network.blocked(self.address, address) or self._network.blocked(address, self.address)
            )
            for name, address in targets.items()
        }

    async def _probe_send(self, arguments: Arguments) -> Answer:
        targets = arguments["targets"]
        assert isinstance(targets, Mapping)
        await asyncio.sleep(PROBE_LATENCY_S)
        for name, address in targets.items():
            peer = self._peers.get(str(name))
            if peer is not None and not self._network.blocked(self.address, str(address)):
                counts = peer._heard.setdefault(str(arguments["nonce"]), {})
                source = str(arguments.get("source", self.name))
                counts[source] = counts.get(source, 0) + 1
        return {}

    def _probe_heard(self, arguments: Arguments) -> Answer:
        return {"heard": dict(self._heard.get(str(arguments["nonce"]), {}))}

    async def _probe_port(self, arguments: Arguments) -> Answer:
        targets = arguments["targets"]
        assert isinstance(targets, Mapping)
        await asyncio.sleep(PROBE_LATENCY_S)
        return {str(name): self._port_state(str(name), str(where)) for name, where in targets.items()}

    def _port_state(self, name: str, where: str) -> str:
        address = where.rpartition(":")[0]
        if self._network.blocked(self.address, address) or self._network.blocked(address, self.address):
            return "silent"
        peer = self._peers.get(name)
        return "open" if peer is not None and peer.process.running else "refused"

    # -- clocks and the rest ----------------------------------------------------------------------------------

    def _set_clock(self, arguments: Arguments) -> Answer:
        offset, rate = arguments.get("offset_s", 0.0), arguments.get("rate", 1.0)
        assert isinstance(offset, int | float) and isinstance(rate, int | float)
        self.process.clock.skew(float(offset), float(rate))
        self._open(arguments, "clock.set", f"{offset:+g} s", lambda: self.process.clock.skew(0.0))
        return {}

    def _probe_clock(self, arguments: Arguments) -> Answer:
        return {"offset_s": self.process.clock.offset_s()}

    def _info(self, arguments: Arguments) -> Answer:
        return {"python": "simulated", "architecture": "simulated", "capabilities": ["net", "clock", "proc"]}
