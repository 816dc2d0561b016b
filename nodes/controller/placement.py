"""Place replicas: striped over brokers from a random start, so that leaders and followers spread evenly.

The first replicas of successive partitions go to successive brokers; the followers' distance from them grows by one
each time round, so that the load of a failed broker spreads over all others instead of moving to its neighbour. Racks
are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from squall.nodes.ports import Rng


def place(
    active: Sequence[int], fenced: Sequence[int], partitions: int, replication_factor: int, rng: Rng
) -> list[tuple[int, ...]]:
    """Replicas of each partition. Fenced brokers are used only where there are too few active ones, and come last.

    There must be an active broker, and no fewer brokers than replicas.
    """
    from_active = min(replication_factor, len(active))
    start, shift = rng.randrange(0, len(active)), rng.randrange(0, len(active))
    spare = rng.randrange(0, len(fenced)) if fenced else 0
    assignments = []
    for number in range(partitions):
        replicas = _striped(active, start + number, shift + number // len(active), from_active)
        for extra in range(replication_factor - from_active):
            replicas.append(fenced[(spare + number + extra) % len(fenced)])
        assignments.append(tuple(replicas))
    return assignments


def _striped(brokers: Sequence[int], first: int, shift: int, count: int) -> list[int]:
    total = len(brokers)
    chosen = [brokers[first % total]]
    for follower in range(count - 1):
        distance = 1 + (shift + follower) % (total - 1)
        chosen.append(brokers[(first + distance) % total])
    return chosen
