"""Swarm testing: each seed draws its own mix of faults, their targets, times and intensities.

Two measured lessons shape it. Durations are drawn log-uniformly, half a millisecond to many seconds, because bugs exist
at all scales. Each seed uses only some kinds of fault, because a mix of everything hides what one of them would show.

The draw is data, printed by a failing seed. Wherever suites have a word for a fault, it is an entry of a suite's
`nemesis` list with hosts by name (`SwarmFault.written`), carried out by the same fault objects. Evidence is left out:
the simulation itself carries the faults out, and counts their effects (`Swarm.effects`), so that a kind without any
effect is visible.

Whether a fault may happen at all is decided when it is due (budget.py). Everything is healed before the load ends; from
then on progress is required.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from pydantic import TypeAdapter

from squall.harness.hosts.system import CONTROLLER_PORT
from squall.harness.simulation.swarm.budget import FaultBudget
from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.kinds import OPERATIONS, RECONFIGURE_BROKER, SWITCHES, UNREGISTER_BROKER
from squall.harness.simulation.swarm.drawn.moments import Moment, Moments
from squall.harness.simulation.swarm.situations.lost_indexes import CLEAN, lose_indexes
from squall.harness.simulation.swarm.situations.moved import port_of
from squall.harness.simulation.swarm.situations.successions import Successions
from squall.harness.simulation.swarm.situations.unregistered import WITH_EMPTY_DISK
from squall.harness.simulation.swarm.voter_budget import VoterBudget
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.world import CLIENT_ADDRESS, ENSEMBLE, SimWorld
from squall.nemesis.core.apis import API_KEYS
from squall.nemesis.core.fault import Fault, FaultContext
from squall.nemesis.core.ports import EVERYONE, ClusterOperator, OperationRefused, VerbFailed
from squall.nemesis.core.selector import NoTarget
from squall.nemesis.entries import AnyFault
from squall.nemesis.options import FaultOptions
from squall.nemesis.registry import build_fault
from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.topic_configs import MIN_ISR
from squall.nodes.zookeeper.znodes import CONTROLLER

CRASHES_AT_MOMENT = ("crash-at-moment", "power-loss-at-moment")

TAKE_BACK_ATTEMPTS, TAKE_BACK_SECONDS = 20, 0.5
"""An operator's temporary change is reverted as soon as the cluster accepts the reversal."""

UNREGISTER_AGAIN_SECONDS = 0.1
STAYS_DOWN_SECONDS = 10.0
"""How much longer a kill may last than drawn, where something is done before its end that may be late."""

_OPTIONS: TypeAdapter[FaultOptions] = TypeAdapter(AnyFault)


def _between(low: float, high: float, amount: float) -> float:
    """Map a drawn amount of 0 to 1 log-uniformly between `low` and `high`."""
    return low * (high / low) ** amount


class Swarm:
    """Carries out drawn faults on a simulated world.

    `counts` holds how many of each kind took place, `effects` what they did (in the units of `KINDS`), `postponed` how
    many did not fit into the budget when they were due, and `begun` the faults that did.
    """

    def __init__(
        self,
        world: SimWorld,
        faults: list[SwarmFault],
        budget: FaultBudget | None = None,
        operator: ClusterOperator | None = None,
        moments: Moments | None = None,
    ) -> None:
        """Without a `budget` no records must survive.

        `moments` are those that the traces of the world's nodes pass through; aimed faults need them."""
        self.counts: dict[str, int] = {}
        self.effects: dict[str, int] = {}
        self.postponed = 0
        self.begun: list[SwarmFault] = []
        self.on_begin: Callable[[SwarmFault], None] = lambda fault: None
        self._world = world
        self._faults = faults
        self._budget = budget or FaultBudget(world, {})
        self._voters = VoterBudget(world)
        self._operator = operator
        self._moments = moments or Moments()
        self._successions = Successions(world, self._budget.newest_image)
        for name, host in world.sim_hosts.items():
            host.may_kill = partial(self._budget.allows, "crash-broker", name, 0.0, at_once=True)

    async def run(self) -> None:
        """Run until the last fault is healed."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._in_its_time(index, fault)) for index, fault in enumerate(self._faults)]
        await asyncio.gather(*tasks)

    async def _in_its_time(self, index: int, fault: SwarmFault) -> None:
        await asyncio.sleep(fault.at)
        fault = self._successions.resolve(fault)
        if not self._allowed(fault):
            self.postponed += 1
            return
        self.begun.append(fault)
        self.on_begin(fault)
        edits, effect = is_edit(fault), 0
        if edits:
            self._budget.edit_begun()
        try:
            effect = await self._carry_out(f"swarm-{index}", fault)
        except VerbFailed:  # a process that is down cannot be killed
            return
        finally:
            self._voters.ended(fault.kind)
            if edits:
                self._budget.edit_ended(answered=effect > 0)
            elif fault.moment is None and (effect or fault.kind != UNREGISTER_BROKER):
                self._budget.ended(fault.kind, fault.hosts[0])
        self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        self.effects[fault.kind] = self.effects.get(fault.kind, 0) + effect

    def _allowed(self, fault: SwarmFault) -> bool:
        if fault.moment is not None:
            return True  # asked when the moment has come
        if is_edit(fault):
            return self._budget.allows_edit(fault.duration)
        host = fault.hosts[0]
        return self._budget.allows(fault.kind, host, fault.duration) and self._voters.allows(fault.kind, host)

    async def _carry_out(self, identity: str, fault: SwarmFault) -> int:
        """Inject the fault, wait until it is over, and return its effect."""
        if fault.moment is not None:
            return await self._at_moment(identity, fault, fault.moment)
        match fault.kind:
            case "crash-in-disk-call-broker" | "crash-in-disk-call-controller":
                return await self._crash_in_disk_call(fault)
            case "crash-with-tail-broker":
                return await self._crash_with_tail(identity, fault)
            case "restart-broker" | "restart-controller":
                return await self._restart(fault)
            case "move-voter":
                self._world.move_controller(fault.hosts[0], port_of(fault, CONTROLLER_PORT))
                return await self._restart(fault)
            case "cut-clients":
                return await self._cut_clients(identity, fault)
            case "reset":
                return self._reset(fault)
            case "cut-from-ensemble":
                return await self._cut_from_ensemble(identity, fault)
            case "expire-session" | "ensemble-without-quorum" | "depose-controller":
                return self._trouble_ensemble(fault)
            case "switch-eligible-leaders":
                return await self._switch(fault)
            case "unregister-broker":
                return await self._unregister(identity, fault)
            case "lose-indexes":
                return await self._lose_indexes(identity, fault)
        return await self._as_written(identity, fault, fault.words)

    async def _as_written(self, identity: str, fault: SwarmFault, words: Mapping[str, object]) -> int:
        """Inject an entry of a suite for the fault's duration."""
        world = self._world
        context = FaultContext(
            id=identity,
            hosts=world.hosts,
            cluster=world.cluster,
            now_ns=world.now_ns,
            sleep=world.sleep,
            rng=Random(f"{identity}/{fault.at}"),
            operator=self._operator,
            believes_answers=True,
        )
        built = build_fault(_OPTIONS.validate_python(words), context)
        if fault.kind in OPERATIONS:
            return await _operate(built, fault.duration)
        if fault.kind == RECONFIGURE_BROKER:
            return await _reconfigure(built, fault.duration)
        await built.aim()
        await built.inject(fault.duration)
        await asyncio.sleep(fault.duration)
        await built.heal()
        return sum(host.effect_of(identity) for host in world.hosts.values())

    async def _at_moment(self, identity: str, fault: SwarmFault, moment: Moment) -> int:
        """Wait for the moment and strike. The budget is asked then; a fault that does not fit is postponed."""
        reached: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def strike(host: str) -> None:
            if not self._budget.allows(self._counted_as(fault.kind, host), host, fault.duration):
                self.postponed += 1
                return
            if fault.kind in CRASHES_AT_MOMENT:
                self._crash_in_this_turn(host, fault)
            reached.set_result(host)

        watch = self._moments.watch(moment, fault.hosts, strike)
        try:
            host = await asyncio.wait_for(reached, moment.within)
        except TimeoutError:
            return 0
        finally:
            self._moments.forget(watch)
        try:
            if fault.kind not in CRASHES_AT_MOMENT:
                words = fault.words or {"fault": fault.kind.removesuffix("-at-moment"), "target": host}
                return await self._as_written(identity, fault, words)
            await asyncio.sleep(fault.duration)
            self._world.sim_hosts[host].start_if_it_may()
            return 1
        finally:
            self._budget.ended(self._counted_as(fault.kind, host), host)

    def _counted_as(self, kind: str, host: str) -> str:
        """Return the kind as the budget knows it."""
        role = "broker" if host in self._world.cluster.brokers else "controller"
        return f"{kind.removesuffix('-at-moment')}-{role}"

    def _crash_in_this_turn(self, host: str, fault: SwarmFault) -> None:
        """Crash between two of the turn's next disk calls, or after the turn and before its messages leave."""
        process, kernel = self._world.processes[host], self._world.kernel
        process.disk.crash_after, process.disk.crash_kind = int(fault.amount * 6), None

        def finish() -> None:
            process.disk.spare()
            process.crash()
            if fault.kind == "power-loss-at-moment":
                process.lose_power("all" if fault.amount * 1000 % 2 < 1 else "torn")

        kernel.at(kernel.now, finish)

    async def _crash_in_disk_call(self, fault: SwarmFault) -> int:
        """Crash between two disk calls of a later turn, and restart. Half of the crashes hit one kind of call."""
        process = self._world.processes[fault.hosts[0]]
        before = process.crashes_in_calls
        process.disk.crash_after = int(fault.amount * 20)
        process.disk.crash_kind = ("fsync", "rename", "write", None, None, None)[int(fault.amount * 1000) % 6]
        await asyncio.sleep(fault.duration)
        process.disk.spare()
        self._world.sim_hosts[fault.hosts[0]].start_if_it_may()
        return process.crashes_in_calls - before

    async def _crash_with_tail(self, identity: str, fault: SwarmFault) -> int:
        """Hold all fetches from a broker for a moment, then kill it.

        It restarts with records that no other broker has, and that its successors may have replaced.
        """
        host = self._world.sim_hosts[fault.hosts[0]]
        lag = min(fault.duration, _between(0.05, 2.0, fault.amount))
        hold = f"{identity}-hold"
        await host.call("rpc.hold", id=hold, api="Fetch", api_key=API_KEYS["Fetch"], sources=[EVERYONE], ttl=lag + 0.1)
        await asyncio.sleep(lag)
        await host.call("proc.kill", id=identity, name="node", ttl=fault.duration)
        await host.call("heal", id=hold)
        await asyncio.sleep(max(0.0, fault.duration - lag))
        await host.call("heal", id=identity)
        return host.effect_of(hold)

    async def _restart(self, fault: SwarmFault) -> int:
        """Stop cleanly (a broker by a controlled shutdown), and restart once the fault's duration has passed."""
        host = self._world.sim_hosts[fault.hosts[0]]
        stopped = host.process.running and not host.process.paused
        back_at = asyncio.get_running_loop().time() + fault.duration
        if stopped:
            await host.call("proc.stop", name="node")
        await asyncio.sleep(max(0.0, back_at - asyncio.get_running_loop().time()))
        host.start_if_it_may()
        return int(stopped)

    async def _cut_clients(self, identity: str, fault: SwarmFault) -> int:
        """Block one direction, or both, between clients and one node."""
        network, address = self._world.network, self._world.hosts[fault.hosts[0]].address
        if fault.amount < 0.7:
            network.block(CLIENT_ADDRESS, address, identity)
        if fault.amount > 0.4:
            network.block(address, CLIENT_ADDRESS, identity)
        await asyncio.sleep(fault.duration)
        network.unblock(identity)
        return network.stalls_of(identity)

    async def _cut_from_ensemble(self, identity: str, fault: SwarmFault) -> int:
        """Block one direction, or both, between one broker and all servers of the ensemble."""
        network, address = self._world.network, self._world.hosts[fault.hosts[0]].address
        for server in ENSEMBLE.values():
            if fault.amount < 0.8:
                network.block(server, address, identity)
            if fault.amount > 0.2:
                network.block(address, server, identity)
        await asyncio.sleep(fault.duration)
        network.unblock(identity)
        return network.stalls_of(identity)

    def _trouble_ensemble(self, fault: SwarmFault) -> int:
        ensemble = self._world.ensemble
        assert ensemble is not None, "these faults are drawn for clusters with an ensemble only"
        if fault.kind == "expire-session":
            return ensemble.expire_session_at(self._world.hosts[fault.hosts[0]].address)
        if fault.kind == "depose-controller":
            return ensemble.delete(CONTROLLER)
        return ensemble.lose_quorum(int(min(fault.duration, 4.0) * MICROSECONDS))

    async def _switch(self, fault: SwarmFault) -> int:
        """Switch eligible leader replicas off for a while, then on again. Return 1 if both were accepted, else 0."""
        off = await self._set_eligible_leaders(0, attempts=1)
        await asyncio.sleep(fault.duration)
        on = await self._set_eligible_leaders(1, TAKE_BACK_ATTEMPTS)
        return int(off and on)

    async def _unregister(self, identity: str, fault: SwarmFault) -> int:
        """Kill a broker, unregister it, perhaps empty its disk, and start it. Return 1 if it is known when, else 0.

        A request without an answer may be carried out at any time after, so for the budget such a broker never returns.
        """
        assert self._operator is not None, "a swarm that unregisters brokers has an operator"
        host, loop = self._world.sim_hosts[fault.hosts[0]], asyncio.get_running_loop()
        back_at = loop.time() + fault.duration
        await host.call("proc.kill", id=identity, name="node", ttl=fault.duration + STAYS_DOWN_SECONDS)
        attempts, unregistered = 0, False
        while not unregistered and loop.time() < back_at:
            attempts += 1
            try:
                await self._operator.unregister(fault.hosts[0])
                unregistered = True
            except OperationRefused:
                await asyncio.sleep(UNREGISTER_AGAIN_SECONDS)
        await asyncio.sleep(max(0.0, back_at - loop.time()))
        is_controller = fault.hosts[0] in self._world.cluster.controllers  # its votes and its log are needed
        started_meanwhile = host.process.node is not None  # by another fault that ended
        if unregistered and fault.amount < WITH_EMPTY_DISK and not is_controller and not started_meanwhile:
            host.process.wipe_disk()
        await host.call("heal", id=identity)
        return int(unregistered and attempts == 1)

    async def _lose_indexes(self, identity: str, fault: SwarmFault) -> int:
        """Stop or kill a broker, damage some of its index files, and start it. Return how many."""
        host = self._world.sim_hosts[fault.hosts[0]]
        killed = fault.amount >= CLEAN
        if killed:
            await host.call("proc.kill", id=identity, name="node", ttl=fault.duration + STAYS_DOWN_SECONDS)
        elif host.process.running and not host.process.paused:
            await host.call("proc.stop", name="node")
        await asyncio.sleep(fault.duration)
        is_down = host.process.node is None  # unless another fault that ended has started it
        lost = lose_indexes(host.process.disk, Random(f"{identity}/{fault.at}")) if is_down else 0
        if killed:
            await host.call("heal", id=identity)
        else:
            host.start_if_it_may()
        return lost

    async def _set_eligible_leaders(self, level: int, attempts: int) -> bool:
        assert self._operator is not None, "a swarm that switches features has an operator"
        for _ in range(attempts):
            try:
                await self._operator.set_feature(ELIGIBLE_LEADER_REPLICAS, level)
            except OperationRefused:
                await asyncio.sleep(TAKE_BACK_SECONDS)
            else:
                return True
        return False

    def _reset(self, fault: SwarmFault) -> int:
        """Reset the connections between two nodes, or between clients and the first node."""
        network, hosts = self._world.network, self._world.hosts
        other = CLIENT_ADDRESS if fault.amount < 0.3 else hosts[fault.hosts[1]].address
        ends = network.connections(hosts[fault.hosts[0]].address, other)
        for end in ends:
            network.reset(end)
        return len(ends)


def is_edit(fault: SwarmFault) -> bool:
    """Return whether a fault is a change that empties the list of eligible leader replicas."""
    return fault.words.get("name") == MIN_ISR or fault.kind in SWITCHES


async def _reconfigure(change: Fault, duration: float) -> int:
    """Restart a broker with other settings, and back again. Return 1 if it reported them meanwhile, else 0."""
    await change.aim()
    before = await change.observe()
    await change.inject(duration)
    await asyncio.sleep(duration)
    effect = change.check_effect(before, await change.observe()) is None
    await change.heal()
    return int(effect)


async def _operate(operation: Fault, duration: float) -> int:
    """Start an operator's change, wait for `duration`, revert it. Return 1 if it took effect, else 0.

    Returns 0 also if it finds no target, which is normal under faults.
    """
    try:
        await operation.aim()
    except NoTarget:
        return 0
    before = await operation.observe()
    await operation.inject(duration)
    effect = operation.check_effect(before, await operation.observe()) is None
    await asyncio.sleep(duration)
    await operation.heal()
    for _ in range(TAKE_BACK_ATTEMPTS):
        if operation.shows_end(before, await operation.observe()) is None:
            break
        await asyncio.sleep(TAKE_BACK_SECONDS)
        await operation.heal()
    return int(effect)
