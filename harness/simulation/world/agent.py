"""Simulate hosts that serve the agent's verbs, so that faults, evidence and times to live are written once.

What `nemesis/agent` does with signals, nftables and a clock shim on real hosts happens here to simulated processes,
connections and clocks. The kernel enforces times to live, as the host's own watchdog does: a fault heals even if the
control process forgets it. Verbs and responses: docs/architecture.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

from squall.harness.simulation.world.clock_watch import skew_clock, watch_clock
from squall.harness.simulation.world.disk import Disturbance, LossMode
from squall.harness.simulation.world.disk_verbs import DISK_CALL_VERBS, disturbance_for
from squall.harness.simulation.world.kernel import MICROSECONDS, Kernel, Scheduled
from squall.harness.simulation.world.links import RpcRule, Shape
from squall.harness.simulation.world.network import SimNetwork
from squall.harness.simulation.world.probes import Answer, Arguments, Probes
from squall.harness.simulation.world.process import SimProcess
from squall.nemesis.core.ports import EVERYONE, VerbFailed

VERB_LATENCY_S = 0.002
STOP_TIMEOUT_S = 10.0
"""Seconds that a stop waits before it kills the node, unless the arguments give another time."""
STOPS = ("proc.stop", "proc.term")
"""Equal in simulation, since no simulated supervisor dies that would have to restart the node."""
SHARED = ("proc.pause", "clock.set")
"""Verbs that set one state of the host; it ends with the last open fault. Other verbs undo only their own change."""

KEPT = "kept"
"""The identity of settings that no fault takes back."""

KEEPS_DOWN = ("proc.kill", "proc.power_loss", "disk.wipe")
"""Verbs that keep the node from running until they end."""


@dataclass(slots=True)
class _Entry:
    """One open fault in a host's journal."""

    verb: str
    detail: str
    undo: Callable[[], object]
    timer: Scheduled | None


class SimHost:
    """One simulated host with one node process; see `nemesis.ports.Host`.

    `addresses` maps the names of all hosts of the world to addresses, for probes and for isolating a host from all
    others. `reconfigure` sets what the node's settings have from its next start on beside those of its place.
    `may_kill` tells whether a node that is too slow to stop may be killed now; if not, the stop goes on.
    """

    def __init__(
        self,
        process: SimProcess,
        *,
        kernel: Kernel,
        network: SimNetwork,
        addresses: Mapping[str, str],
        reconfigure: Callable[[Mapping[str, str]], None],
    ) -> None:
        self.process = process
        self.may_kill: Callable[[], bool] = lambda: True
        self._configure = reconfigure
        self._kernel = kernel
        self._network = network
        self._addresses = addresses
        self._journal: dict[str, _Entry] = {}
        self._probes = Probes(process, network)
        self._disturbances: dict[str, Disturbance] = {}
        self._rules: dict[str, RpcRule] = {}
        self._losses: dict[str, int] = {}
        self._effects: dict[str, int] = {}
        self._settings: dict[str, Mapping[str, str]] = {}
        self._verbs: dict[str, Callable[[Arguments], Answer]] = {
            "proc.define": lambda arguments: {},
            "proc.start": self._start,
            "proc.kill": self._kill,
            "proc.pause": self._pause,
            "proc.resume": self._resume,
            "proc.status": self._status,
            "proc.reconfigure": self._reconfigure,
            "net.drop": self._drop,
            "net.allow": self._undo_by_id,
            "clock.set": self._set_clock,
            "clock.clear": self._undo_by_id,
            "proc.power_loss": self._lose_power,
            "disk.wipe": self._wipe_disk,
            **{verb: partial(self._disturb_disk, verb) for verb in DISK_CALL_VERBS},
            "net.shape": self._shape,
            "rpc.hold": self._hold,
            "rpc.cut": self._cut,
            "probe.disk": self._probe_disk,
            "probe.fill": self._probe_disk,
            "probe.rpc": self._probe_rpc,
            "probe.heard": self._probes.heard,
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
        """Register the other hosts, once all exist."""
        self._probes.meet({name: peer._probes for name, peer in peers.items()})

    def has_open(self, verb: str) -> bool:
        """Return whether a fault of this verb is open here."""
        return any(entry.verb == verb for entry in self._journal.values())

    def offers(self, verb: str) -> bool:
        """Return whether this host supports the verb."""
        return verb in self._verbs or verb in (*STOPS, "probe.clock")

    def effect_of(self, identity: str) -> int:
        """Return how much a healed fault did here: calls, messages, stalls, bytes; 1 for a fault that has no count."""
        if identity in self._losses:
            return self._losses[identity]
        if identity in self._disturbances:
            return self._disturbances[identity].met
        if identity in self._rules:
            return self._rules[identity].met
        return self._effects.get(identity, 0)

    async def call(self, verb: str, **arguments: object) -> Answer:
        await asyncio.sleep(VERB_LATENCY_S)
        if verb in self._probes.taking_time:
            return await self._probes.taking_time[verb](arguments)
        if verb in STOPS:
            return await self._stop(arguments)
        if verb == "probe.clock":
            return await self._probe_clock(arguments)
        handler = self._verbs.get(verb)
        if handler is None:
            raise VerbFailed(self.name, verb, "unknown_verb", f"no verb {verb!r}")
        return handler(arguments)

    # -- faults -----------------------------------------------------------------------------------------------

    def _open(self, arguments: Arguments, verb: str, detail: str, undo: Callable[[], object]) -> None:
        identity = str(arguments["id"])
        if identity in self._journal:
            self._renew(identity, arguments)
            return
        time_to_live = arguments.get("ttl")
        timer = None
        if isinstance(time_to_live, int | float):
            timer = self._kernel.after(round(time_to_live * MICROSECONDS), self._undo, identity)
        self._journal[identity] = _Entry(verb, detail, undo, timer)
        self._effects[identity] = int(verb not in ("net.drop", "net.shape"))
        self._network.note(f"fault {self.name} {verb} {identity} {detail}")

    def _renew(self, identity: str, arguments: Arguments) -> None:
        """Renew the time to live of an open fault: its verb was called again with the same id."""
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
        if entry.verb not in SHARED or not self.has_open(entry.verb):
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
        for identity in [key for key, entry in self._journal.items() if entry.verb in ("proc.pause", *KEEPS_DOWN)]:
            self._undo(identity)
        self.process.start()
        return {"pid": self.process.incarnation}

    async def _stop(self, arguments: Arguments) -> Answer:
        """Send SIGTERM, then kill if that does not suffice, and as soon as it is permitted."""
        if not self.process.running:
            return {"pid": None, "by_itself": True}
        pid, timeout = self.process.incarnation, arguments.get("timeout", STOP_TIMEOUT_S)
        assert isinstance(timeout, int | float)
        while True:
            over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.process.ask_to_stop(partial(_end, over))
            try:
                await asyncio.wait_for(over, timeout)
            except TimeoutError:
                if self.may_kill():
                    self.process.crash()
                    return {"pid": pid, "by_itself": False}
            else:
                return {"pid": pid, "by_itself": True}

    def _kill(self, arguments: Arguments) -> Answer:
        pid = self._ended(arguments, "proc.kill")
        if bool(arguments.get("power_loss", False)):
            self.process.lose_power()
        return {"pid": pid}

    def _lose_power(self, arguments: Arguments) -> Answer:
        return self._damage(arguments, "proc.power_loss", lambda: self.process.lose_power(_loss_mode(arguments)))

    def _wipe_disk(self, arguments: Arguments) -> Answer:
        return self._damage(arguments, "disk.wipe", self.process.wipe_disk)

    def _damage(self, arguments: Arguments, verb: str, lose: Callable[[], int]) -> Answer:
        """End the node, if it runs, and damage its disk by `lose`; only once, however often the fault is renewed."""
        id = str(arguments["id"])
        if id in self._journal:
            self._renew(id, arguments)
            return {"pid": None}
        pid = self.process.incarnation if self.process.running else None
        self._open(arguments, verb, "node", self.start_if_it_may)
        self.process.crash()
        self._losses[id] = lose()
        return {"pid": pid}

    def _ended(self, arguments: Arguments, verb: str) -> int | None:
        """End the node while the fault is open. Return its pid, or None if the call only renews the fault."""
        if str(arguments["id"]) in self._journal:
            self._renew(str(arguments["id"]), arguments)
            return None
        if not self.process.running:
            raise VerbFailed(self.name, verb, "not_running", "the node is not running")
        pid = self.process.incarnation
        self._open(arguments, verb, "node", self.start_if_it_may)
        self.process.crash()
        return pid

    def start_if_it_may(self) -> None:
        """Start the node unless another fault still keeps it down."""
        if not any(self.has_open(verb) for verb in KEEPS_DOWN):
            self.process.start()

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

    def _reconfigure(self, arguments: Arguments) -> Answer:
        """Change the settings with which the node starts next; undone, a node that runs by them starts again."""
        identity, settings = str(arguments["id"]), arguments["settings"]
        assert isinstance(settings, Mapping)
        incarnation = self.process.incarnation
        if identity not in self._journal:
            self._settings[identity] = settings
            try:
                self._apply_settings()
            except ValueError as wrong:
                del self._settings[identity]
                raise VerbFailed(self.name, "proc.reconfigure", "failed", str(wrong)) from None

        def undo() -> None:
            del self._settings[identity]
            self._apply_settings()
            if self.process.running and self.process.incarnation != incarnation:
                self.process.crash()
                self.process.start()

        self._open(arguments, "proc.reconfigure", ",".join(settings), undo)
        return {}

    def keep_settings(self, settings: Mapping[str, str]) -> None:
        """Change the settings with which the node starts next, for good. Raises ValueError if the node would refuse."""
        self._settings[KEPT] = settings
        self._apply_settings()

    def _apply_settings(self) -> None:
        self._configure({key: value for settings in self._settings.values() for key, value in settings.items()})

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
        self._open(arguments, "net.drop", ",".join(map(str, sources)), lambda: self._allow(arguments, cause))
        return {}

    def _allow(self, arguments: Arguments, cause: str) -> None:
        self._network.unblock(cause)
        self._effects[str(arguments["id"])] = self._network.stalls_of(cause)

    def _shape(self, arguments: Arguments) -> Answer:
        delay, jitter, loss, rate = (arguments.get(key, 0) for key in ("delay_s", "jitter_s", "loss", "rate"))
        assert isinstance(delay, int | float) and isinstance(jitter, int | float) and isinstance(loss, int | float)
        assert isinstance(rate, int)
        distribution = str(arguments.get("distribution", "uniform"))
        times = round(delay * MICROSECONDS), round(jitter * MICROSECONDS)
        shape = Shape(*times, float(loss), rate or None, distribution)
        cause = f"{self.name}/{arguments['id']}"
        direction = arguments.get("direction", "both")
        for peer in self._addresses_of(arguments["peers"]):
            if direction in ("both", "out"):
                self._network.shape(self.address, peer, cause, shape)
            if direction in ("both", "in"):
                self._network.shape(peer, self.address, cause, shape)
        self._open(arguments, "net.shape", str(shape), lambda: self._unshape(arguments, cause, shape))
        return {}

    def _unshape(self, arguments: Arguments, cause: str, shape: Shape) -> None:
        messages, retransmissions = self._network.unshape(cause)
        self._effects[str(arguments["id"])] = retransmissions if shape.loss else messages

    def _addresses_of(self, peers: object) -> list[str]:
        """Return the addresses of these peers, without this host's own."""
        assert isinstance(peers, list | tuple)
        meant = list(self._addresses.values()) if EVERYONE in peers else [str(peer) for peer in peers]
        return [address for address in meant if address != self.address]

    # -- single messages --------------------------------------------------------------------------------------

    def _hold(self, arguments: Arguments) -> Answer:
        return self._add_rule(arguments, "rpc.hold", None)

    def _cut(self, arguments: Arguments) -> Answer:
        messages = arguments.get("messages", 1)
        assert isinstance(messages, int)
        return self._add_rule(arguments, "rpc.cut", messages)

    def _add_rule(self, arguments: Arguments, verb: str, messages: int | None) -> Answer:
        identity, sources, key = str(arguments["id"]), arguments["sources"], arguments["api_key"]
        assert isinstance(sources, list | tuple) and isinstance(key, int)
        if identity not in self._journal:
            these = None if EVERYONE in sources else frozenset(str(source) for source in sources)
            rule = RpcRule(self.address, key, arguments.get("direction") == "response", these, messages)
            self._rules[identity] = rule
            self._network.add_rule(f"{self.name}/{identity}", rule)
        detail = f"{arguments.get('api', key)} {arguments.get('direction', 'request')}"
        self._open(arguments, verb, detail, lambda: self._network.remove_rule(f"{self.name}/{identity}"))
        return {}

    def _probe_rpc(self, arguments: Arguments) -> Answer:
        identity = str(arguments["id"])
        rule = self._rules.get(identity)
        return {
            "open": identity in self._journal,
            "met": rule.met if rule is not None else 0,
            "waiting": self._network.waiting(rule) if rule is not None else 0,
        }

    # -- disks ------------------------------------------------------------------------------------------------

    def _disturb_disk(self, verb: str, arguments: Arguments) -> Answer:
        """Make disk calls fail, wait or lie. A node that stopped because of it restarts when the fault ends."""
        identity = str(arguments["id"])
        try:
            disturbance = disturbance_for(verb, arguments)
        except ValueError as reason:
            raise VerbFailed(self.name, verb, "unsupported", str(reason)) from None
        if identity not in self._journal:
            self._disturbances[identity] = disturbance
            self.process.disk.disturb(identity, disturbance)

        def undo() -> None:
            self.process.disk.undisturb(identity)
            if disturbance.error is not None:
                self.start_if_it_may()
            elif disturbance.delay:
                self.process.disk_is_fast_again()

        self._open(arguments, verb, ",".join(sorted(disturbance.calls)), undo)
        return {}

    def _probe_disk(self, arguments: Arguments) -> Answer:
        identity = str(arguments["id"])
        disturbance = self._disturbances.get(identity)
        return {
            "open": identity in self._journal,
            "met": disturbance.met if disturbance is not None else 0,
            "unsynced_bytes": self.process.disk.unsynced_bytes,
            "lost_bytes": self._losses.get(identity),
            "files": self.process.disk.files,
        }

    # -- clocks and the rest ----------------------------------------------------------------------------------

    def _set_clock(self, arguments: Arguments) -> Answer:
        offset = skew_clock(self.process.clock, arguments)
        self._open(arguments, "clock.set", f"{offset:+g} s", lambda: self.process.clock.skew(0.0))
        return {}

    async def _probe_clock(self, arguments: Arguments) -> Answer:
        """Return the wall clock's offset; with `watch_s` also how it runs during that time, as on hosts."""
        clock, watch = self.process.clock, arguments.get("watch_s", 0.0)
        if not watch:
            return {"offset_s": clock.offset_s()}
        assert isinstance(watch, int | float)
        return await watch_clock(clock, float(watch), self._kernel)

    def _info(self, arguments: Arguments) -> Answer:
        return {
            "python": "simulated",
            "architecture": "simulated",
            "capabilities": ["net", "clock", "proc", "disk", "rpc"],
        }


def _loss_mode(arguments: Arguments) -> LossMode:
    mode = arguments.get("mode", "all")
    assert mode in ("all", "torn", "none")
    return cast(LossMode, mode)


def _end(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
