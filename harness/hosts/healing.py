"""`squall heal`: end every fault on every host of an inventory, each host independently.

A failure of one host, of any kind, does not stop the healing of others: it may be unreachable, its disk may be full,
its Python may be missing, one of its faults may refuse to end. What is left is reported by host and fault, and makes
the command fail.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from squall.harness.errors import UsageError
from squall.harness.hosts.agent_link import AgentHost
from squall.harness.hosts.deploy import BASE, Bundle, HostKind, HostPaths, Probe, deploy, probe
from squall.harness.hosts.network import Network
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.system import SquallNodes, agent_command
from squall.harness.scenario.inventory import Inventory
from squall.nemesis.core.ports import HostUnreachable, VerbFailed

HOST_SECONDS = 180.0
"""The time for one host: sending a bundle to a slow host takes long."""

NEWEST_AGENT = f'ls -td "$HOME"/{BASE}/bundles/*/agent/agent.py 2>/dev/null | head -n 1'


@dataclass(frozen=True)
class Healed:
    """The outcome of one host."""

    host: str
    healed: tuple[str, ...] = ()
    """The faults that were ended."""
    left: tuple[str, ...] | None = ()
    """The faults that are still open; None if the host did not respond."""
    trouble: str = ""

    @property
    def ok(self) -> bool:
        return not self.trouble and self.left == ()

    def told(self) -> str:
        """Return one line for people."""
        done = f"healed: {', '.join(self.healed)}" if self.healed else "nothing to heal"
        if self.ok:
            return done
        if self.left is None:
            return f"NOT ASKED: {self.trouble}"
        return f"NOT HEALED: {', '.join(self.left) or 'unknown faults'}: {self.trouble or 'still open'} ({done})"


class Bundles:
    """One bundle for each kind of host, made once."""

    def __init__(self) -> None:
        self._made: dict[HostKind, Bundle] = {}
        self._making = threading.Lock()

    def of(self, kind: HostKind) -> Bundle:
        """Return the bundle for this kind. Raises UsageError."""
        with self._making:
            if kind not in self._made:
                self._made[kind] = SquallNodes().bundle(kind)
            return self._made[kind]


HealOne = Callable[[Remote, Bundles], Awaitable[Healed]]


async def heal_host(remote: Remote, bundles: Bundles) -> Healed:
    """End every fault on one host. Raises UsageError, HostUnreachable."""
    place = await asyncio.to_thread(place_of_agent, remote, bundles)
    agent = AgentHost(remote, agent_command(place, remote.spec), sudo=remote.spec.sudo)
    trouble, healed = "", set[str]()
    try:
        before = _ids(await agent.call("journal"))
        try:
            healed |= set(_texts((await agent.call("heal")).get("healed")))
        except VerbFailed as failed:
            trouble = failed.error
        left = _ids(await agent.call("journal"))
        return Healed(remote.name, tuple(sorted(healed | before.keys() - left.keys())), tuple(left.values()), trouble)
    finally:
        await agent.close()


def place_of_agent(remote: Remote, bundles: Bundles) -> HostPaths:
    """Return where an agent of Squall lies on the host: this version's, or the newest there if this one cannot be sent.

    Raises UsageError.
    """
    found = probe(remote)
    try:
        return deploy(remote, found, bundles.of(found.kind)).place
    except UsageError:
        there = _newest_agent(remote, found)
        if there is None:
            raise
        return there


def _newest_agent(remote: Remote, found: Probe) -> HostPaths | None:
    program = remote.run(NEWEST_AGENT, timeout=20).stdout.strip()
    return HostPaths(found.executable, found.home, program.removesuffix("/agent/agent.py")) if program else None


async def heal_hosts(inventory: Inventory, network: Network, heal_one: HealOne = heal_host) -> list[Healed]:
    """Heal all hosts. Return their outcomes, in the inventory's order; a host's failure is an outcome, never raised."""
    bundles = Bundles()

    async def one(remote: Remote) -> Healed:
        try:
            async with asyncio.timeout(HOST_SECONDS):
                return await heal_one(remote, bundles)
        except TimeoutError:
            return Healed(remote.name, left=None, trouble=f"not done within {HOST_SECONDS:g} s")
        except (UsageError, HostUnreachable, VerbFailed) as trouble:
            return Healed(remote.name, left=None, trouble=" ".join(str(trouble).split()))
        except Exception as trouble:  # a bug that shows on one host must not leave faults on the others
            return Healed(remote.name, left=None, trouble=f"{type(trouble).__name__}: {trouble}")
        finally:
            remote.close()

    return list(await asyncio.gather(*(one(Remote(spec, network)) for spec in inventory.hosts)))


def what_is_left(outcome: Sequence[Healed]) -> str | None:
    """Describe what is not healed and what to do; None if every host is healed."""
    wrong = [one for one in outcome if not one.ok]
    if not wrong:
        return None
    lines = [f"{len(wrong)} of {len(outcome)} hosts are not healed:", *(f"  {one.host}: {one.told()}" for one in wrong)]
    lines.append("A host that could not be reached ends its faults itself when their time to live expires.")
    return "\n".join(lines)


def _ids(answer: dict[str, object]) -> dict[str, str]:
    """Return the open faults of a journal: a description by id."""
    entries = answer.get("entries")
    listed = entries if isinstance(entries, list) else []
    return {str(one["id"]): f"{one['id']} ({one['verb']})" for one in listed}


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
