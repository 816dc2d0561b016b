"""The last thing in a swarm's run: a client checks that the whole cluster responds as the protocol promises.

It comes after the final reads, so no operation of the load is affected. What a client sees here, it would see on hosts
too, so a breach is found with and without the observer. `harness/conformance` says what is asked. Clusters without a
quorum are left out: a ZooKeeper-era broker knows no settings of topics, and its controller no features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from squall.harness.conformance.check import PARTS, Part, check_conformance
from squall.harness.conformance.client import Address, ConformanceClient, Patience
from squall.harness.simulation.observer.rules.rule import node_of_quorum
from squall.harness.simulation.world.voter_places import leading
from squall.harness.simulation.world.world import SimWorld

SHARE = 0.5
"""The probability of each part. All of them take a tenth of a seed's processor time."""
SEGMENT_BYTES = (200, 1000, 100_000)
STREAM = "conformance"
PATIENCE = Patience(settling=3.0, prompt=0.02)
"""In virtual time. In healthy worlds changes are shown within half a second, and medians are below 4 ms."""


async def check_world(
    world: SimWorld, on_send: Callable[[int], None], share: float = SHARE, parts: Sequence[Part] = PARTS
) -> tuple[str, ...]:
    """Return the names of the parts that were asked, of `parts`. Raises NotConforming.

    `on_send` is called with each value that a broker should append, before it is sent.
    """
    rng = world.streams.stream(STREAM)
    clock = next(iter(world.processes.values())).clock
    client = ConformanceClient(
        world.connector(),
        world.bootstrap(),
        rng,
        lambda: int(clock.true_s() * 1000),
        _controllers(world),
        on_send,
        PATIENCE,
        knows_all=True,
    )
    try:
        return await check_conformance(client, {"segment.bytes": str(rng.choice(SEGMENT_BYTES))}, share, parts)
    finally:
        await client.close()


def _controllers(world: SimWorld) -> list[Address]:
    """Where the voters listen by now; a quorum's voters may have moved."""
    leader = leading({name: node_of_quorum(process.node) for name, process in world.processes.items()})
    return [] if leader is None else [(one.host, one.port) for one in leader.raft.voters.voters]
