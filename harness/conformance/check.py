"""One check of a cluster: a topic of its own, some of the parts in some order, and the topic's end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from squall.harness.conformance import (
    api_versions,
    descriptions,
    effects,
    offsets,
    placement,
    promptness,
    quorum,
    records,
    settings,
    topics,
)
from squall.harness.conformance.client import ConformanceClient, expect
from squall.harness.conformance.topic import CheckedPartition, CheckedTopic, all_brokers

PARTITIONS, LARGEST_FACTOR = 3, 3
SETTINGS = {"max.message.bytes": "100000", "retention.ms": "-1", "retention.bytes": "-1", "min.insync.replicas": "1"}

Part = Callable[[ConformanceClient, CheckedTopic], Awaitable[None]]
PARTS: tuple[Part, ...] = (
    descriptions.cluster,
    descriptions.pages,
    descriptions.quorum,
    descriptions.log_directories,
    descriptions.coordinators,
    descriptions.pipelined,
    quorum.strangers,
    topics.refused_creations,
    topics.legal_names,
    topics.default_sizes,
    topics.more_partitions,
    settings.described,
    settings.altered,
    settings.of_nobody,
    settings.defaulted,
    effects.stamped,
    effects.retained,
    settings.features,
    records.refused_batches,
    records.unacknowledged,
    records.idempotence,
    records.in_order,
    records.refused_fetches,
    records.limits,
    records.sessions,
    promptness.sends,
    promptness.parked_fetches,
    offsets.listed,
    offsets.epochs,
    offsets.deleted_records,
    placement.moved,
    placement.reconsidered,
    api_versions.announced,
)


async def check_conformance(
    client: ConformanceClient,
    more_settings: Mapping[str, str] | None = None,
    share: float = 1.0,
    parts: Sequence[Part] = PARTS,
) -> tuple[str, ...]:
    """Check a cluster without faults. Return the names of the parts, in their order. Raises NotConforming.

    Each of `parts` is left out with a probability of one minus `share`. The topic has `more_settings` beside its own.
    """
    rng = client.rng
    brokers = await all_brokers(client)
    ids = sorted(brokers)
    factor = rng.randint(1, min(LARGEST_FACTOR, len(ids)))
    placed = [tuple(rng.sample(ids, factor)) for _ in range(PARTITIONS)]
    topic = CheckedTopic(
        f"conformance-{rng.getrandbits(40):010x}",
        brokers,
        [CheckedPartition(replicas, replicas[0]) for replicas in placed],
        {**SETTINGS, **(more_settings or {})},
    )
    await topics.create(client, topic)
    chosen = [part for part in parts if rng.random() < share]
    rng.shuffle(chosen)
    for part in chosen:
        await records.append(client, topic, rng.randrange(len(topic.partitions)))
        await part(client, topic)
    await topics.delete(client, topic)
    await _created_again(client, topic)
    return tuple(part.__name__ for part in chosen)


async def _created_again(client: ConformanceClient, old: CheckedTopic) -> None:
    """A topic of the same name begins empty and without the settings of the first, as another topic.

    It has fewer replicas than it wants in sync; all of them are enough, since no more can be.
    """
    partitions = [CheckedPartition(one.replicas, one.replicas[0]) for one in old.partitions]
    factor = len(partitions[0].replicas)
    partitions = [one for one in partitions if len(one.replicas) == factor]
    topic = CheckedTopic(old.name, old.brokers, partitions, {"min.insync.replicas": str(factor + 1)})
    await topics.create(client, topic)
    await settings.await_settings(client, topic)
    address = client.any_broker()
    expect(address, "whether a topic that is created again is another one", topic.topic_id != old.topic_id, True)
    await records.append(client, topic, client.rng.randrange(len(partitions)))
    await topics.delete(client, topic)
