"""Provide the hosts of a run: those of an inventory, of a running lab, or of a lab made for the run.

A lab made for the run ends with the run, by any death; a lab that was up before stays, and the run's files are removed
from it. Hosts of a run are locked (`hosts/host_locks.py`) before anything is done to them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.hosts.host_locks import HeldLock, HostLocks
from squall.harness.hosts.network import MachineNetwork, Network
from squall.harness.lab.lab import DEFAULT_NAME, Lab, find_lab, lab_down, lab_up, standing_lab
from squall.harness.lab.reduced_lab import LACKS
from squall.harness.scenario.inventory import Inventory, load_inventory, refuse_two_places
from squall.harness.scenario.lab_topology import NO_RACKS
from squall.harness.scenario.plan import RunPlan
from squall.harness.terminal.display import Display


@dataclass(frozen=True)
class Hosts:
    """The hosts of a run."""

    inventory: Inventory
    network: Network
    lab: Lab | None = None
    standing: bool = False
    """A lab that was up before the run and stays after it."""
    lock: HeldLock | None = None
    """The lock against other runs; None where nothing is changed."""

    @property
    def keep_clean(self) -> bool:
        """Whether the run's files have to be removed, because the hosts outlive it."""
        return self.lab is None or self.standing


def standing_hosts(inventory: Path | None, lab_name: str | None = None) -> Hosts:
    """Return existing hosts: of a file, of a lab, of ./inventory.yaml, or of the running lab.

    Raises UsageError.
    """
    refuse_two_places(inventory, lab_name)
    if lab_name is not None:
        lab = standing_lab(lab_name)
        return Hosts(lab.inventory(), lab.network, lab, standing=True)
    if inventory is None and Path("inventory.yaml").exists():
        inventory = Path("inventory.yaml")
    found = load_inventory(inventory) if inventory is not None else None
    if found is not None and found.lab is None:
        return Hosts(found, MachineNetwork())
    standing = find_lab()
    if standing is None:
        raise UsageError(
            "no hosts: no inventory was given and no lab is up", remedy="squall lab up, or --inventory FILE"
        )
    return Hosts(standing.inventory(), standing.network, standing, standing=True)


@contextlib.asynccontextmanager
async def hosts_of(
    plan: RunPlan, inventory: Inventory | None, display: Display, locks: HostLocks, lab_name: str | None = None
) -> AsyncIterator[Hosts]:
    """Provide the hosts of a run, locked.

    They are the hosts of an inventory; the named lab; the default lab, if it is up and of the right shape; else a lab
    made for the run, which ends with the run, by any death. `locks` keeps hosts that stay.
    """
    if plan.scenario.cluster.system.limits.reached:
        yield Hosts(Inventory("a cluster that runs already", ()), _network_of(lab_name))
        return
    if inventory is not None and inventory.lab is None:
        network = MachineNetwork()
        yield Hosts(inventory, network, lock=await locks.take(inventory, network, plan.run_id))
        return
    cluster = plan.scenario.cluster
    described = inventory.lab if inventory is not None else None
    shape = described or cluster.lab
    racks = described.in_racks() if described is not None else NO_RACKS
    standing = await asyncio.to_thread(find_lab if lab_name is None else standing_lab, lab_name or DEFAULT_NAME)
    fits = standing is not None and _shape_of(standing) == shape.counts
    if standing is not None and described is not None:
        fits = fits and standing.racks == racks  # a suite does not mention racks, and accepts any
    if standing is not None and (lab_name or fits):
        display.stage("lab", f"{standing.name}, {_extent(standing)}, already up", _names(standing))
        _say_if_reduced(display, standing)
        lock = await locks.take(standing.inventory(), standing.network, plan.run_id)
        yield Hosts(standing.inventory(), standing.network, standing, standing=True, lock=lock)
        return
    name = f"run-{plan.run_id[:8]}"
    lab = await asyncio.to_thread(
        lambda: lab_up(
            shape.controllers,
            shape.brokers,
            shape.clients,
            zookeeper=shape.zookeeper,
            racks=racks,
            name=name,
            owner=os.getpid(),
        )
    )
    held: HeldLock | None = None
    try:
        display.stage("lab", f"{_extent(lab)} up in {lab.up_seconds:.1f} s", _names(lab))
        _say_if_reduced(display, lab)
        held = await locks.take(lab.inventory(), lab.network, plan.run_id)
        yield Hosts(lab.inventory(), lab.network, lab, lock=held)
    finally:
        if held is not None:  # its hosts stay locked until they have ended
            held.stop()
        await asyncio.shield(asyncio.to_thread(lab_down, name))
        if held is not None:
            await asyncio.to_thread(locks.release, held, hosts_remain=False)


def _network_of(lab_name: str | None) -> Network:
    """Return from where a cluster is reached: this machine, or the network of a lab that is up."""
    return MachineNetwork() if lab_name is None else standing_lab(lab_name).network


def _shape_of(lab: Lab) -> tuple[int, int, int, int]:
    found = lab.inventory()
    return len(found.controllers), len(found.brokers), len(found.zookeeper), len(found.clients)


def _extent(lab: Lab) -> str:
    racks = f" in {lab.racks.count} racks" if lab.racks.count else ""
    return f"{len(lab.hosts)} hosts{racks}"


def _say_if_reduced(display: Display, lab: Lab) -> None:
    if lab.reduced:
        display.say(f"reduced    {LACKS[0]}; {LACKS[1]}", style="yellow")
        display.say(f"{'':<11}{lab.reduced}", style="yellow")


def _names(lab: Lab) -> str:
    inventory = lab.inventory()
    kinds = ("controllers", "brokers", "zookeeper", "clients")
    named = {kind: " ".join(host.name for host in inventory.group(kind)) for kind in kinds}
    parts = [f"{kind} {hosts}" for kind, hosts in named.items() if hosts]
    return " · ".join([*parts, *(["no root"] if lab.rootless else [])])
