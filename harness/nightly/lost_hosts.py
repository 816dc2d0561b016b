"""Find hosts that are gone for good, such as spot machines that were taken back, and go on without them.

A host is missing if its SSH port refuses or ignores connections for a while. With a hook (`--gone`), which gets the
missing hosts as JSON on standard input, only those that it names are gone; the others may come back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from squall.harness.errors import UsageError
from squall.harness.hosts.network import MachineNetwork
from squall.harness.nightly.conduct import Cluster
from squall.harness.nightly.hooks import run_hook
from squall.harness.nightly.plan.night_file import Hooks
from squall.harness.nightly.provisioned import inventory_of
from squall.harness.scenario.inventory import HostSpec, load_inventory
from squall.results.history.whole_file import write_whole

LOOKS: Final = 4
LOOK_SECONDS: Final = 5.0
BETWEEN_SECONDS: Final = 10.0
"""With these a host that does not answer at all is given up after about a minute."""


@dataclass(frozen=True)
class LostHosts:
    """Looks at the hosts of inventories. Labs lose no hosts."""

    directory: Path
    hooks: Hooks
    environment: Mapping[str, str]
    between_s: float = BETWEEN_SECONDS

    async def missing(self, cluster: Cluster) -> tuple[str, ...]:
        """Return the names of the hosts of a cluster that are gone."""
        if cluster.inventory is None:
            return ()
        hosts = load_inventory(cluster.inventory).hosts
        for look in range(LOOKS):
            if look:
                await asyncio.sleep(self.between_s)
            answers = await asyncio.gather(*(asyncio.to_thread(answers_at_all, host) for host in hosts))
            hosts = tuple(host for host, answered in zip(hosts, answers, strict=True) if not answered)
            if not hosts:
                return ()
        return await asyncio.to_thread(self._named_by_the_hook, hosts)

    def _named_by_the_hook(self, hosts: Sequence[HostSpec]) -> tuple[str, ...]:
        names = tuple(host.name for host in hosts)
        if not self.hooks.gone:
            return names
        given = json.dumps({"hosts": [{"name": host.name, "address": host.address} for host in hosts]})
        log = self.directory / "gone.log"
        said = run_hook(
            "--gone",
            self.hooks.gone,
            environment=self.environment,
            timeout_s=self.hooks.timeout_s,
            given=given,
            log=log,
        )
        gone = set(said.split())
        return tuple(name for name in names if name in gone)

    def without(self, cluster: Cluster, hosts: Sequence[str]) -> Cluster | None:
        """Return the cluster without these hosts, with an inventory of its own; None if it lacks a group now."""
        assert cluster.inventory is not None
        inventory = load_inventory(cluster.inventory)
        left = tuple(host for host in inventory.hosts if host.name not in hosts)
        for group in ("controllers", "brokers"):
            if not any(group in host.groups for host in left):
                return None
        number = len(list(self.directory.glob("without-*.yaml"))) + 1
        path = self.directory / f"without-{number}.yaml"
        write_whole(path, json.dumps(inventory_of(left), indent=2))
        return Cluster(cluster.name, inventory=path)


def answers_at_all(host: HostSpec) -> bool:
    """Whether something accepts connections at a host's SSH port."""
    try:
        with MachineNetwork().socket() as one:
            one.settimeout(LOOK_SECONDS)
            one.connect((host.address, host.port))
    except OSError:
        return False
    return True


async def await_hosts(inventory: Path, seconds: float) -> None:
    """Wait until every host of an inventory answers; rented machines need a while to start. Raises UsageError."""
    hosts = load_inventory(inventory).hosts
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while hosts:
        answers = await asyncio.gather(*(asyncio.to_thread(answers_at_all, host) for host in hosts))
        hosts = tuple(host for host, answered in zip(hosts, answers, strict=True) if not answered)
        if hosts and loop.time() >= until:
            names = ", ".join(host.described() for host in hosts)
            raise UsageError(f"no connection within {seconds:.0f} s after provisioning: {names}")
        if hosts:
            await asyncio.sleep(1.0)
