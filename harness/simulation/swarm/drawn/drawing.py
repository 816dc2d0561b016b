"""Draw the faults of a seed, and what operators do beside them: kinds, targets, times, intensities.

Everything is drawn before the run and does not depend on it. Operators' changes, switches and patterns come from random
streams of their own, so that the faults of a seed are the same with and without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import all_nodes, draw_targets, draw_words, log_uniform
from squall.harness.simulation.swarm.drawn.kinds import (
    ENSEMBLE_KINDS,
    KINDS,
    LINK_KINDS,
    OPERATIONS,
    ORDERS,
    QUORUM_ONLY,
    SWITCHES,
    WAITING_KINDS,
    WAITING_SECONDS,
)
from squall.nodes.metadata.topic_configs import MIN_ISR


def draw_swarm(
    seed: object,
    brokers: tuple[str, ...],
    controllers: tuple[str, ...],
    load: float,
    operated: Mapping[str, int] | None = None,
    *,
    switched: bool = False,
    has_ensemble: bool = False,
    kinds: tuple[str, ...] = (),
) -> list[SwarmFault]:
    """Draw the faults of this seed, in order of time; all end before `load` seconds have passed.

    `operated` are the topics (with their min ISR) of a cluster that operators also change. Operators' changes come from
    a separate random stream, so that the faults of a seed are the same with and without them; so do `switched` and the
    faults of a ZooKeeper ensemble.
    `kinds` are the kinds of fault to draw from; without them the seed chooses some.
    """
    faults = _draw_faults(seed, brokers, controllers, load, kinds)
    if operated:
        faults += _draw_operations(
            seed, brokers, controllers, load, operated, without=QUORUM_ONLY if has_ensemble else ()
        )
    if switched:
        faults += _draw_switches(seed, brokers, load)
    if has_ensemble:
        faults += _draw_ensemble_faults(seed, brokers, load)
    return sorted(faults, key=lambda fault: fault.at)


def draw_depositions(seed: object, brokers: tuple[str, ...], load: float) -> list[SwarmFault]:
    """Draw clean restarts of brokers, one after the other, and a deposition of the controller during each.

    A controlled shutdown is the longest work of a controller whose beginning is known.
    """
    rng = Random(f"{seed}/depositions")
    drawn: list[SwarmFault] = []
    at = rng.uniform(0.5, 1.5)
    while at < load - 3.0:
        deposed = round(at + rng.uniform(0.02, 0.4), 6)
        drawn.append(SwarmFault(round(at, 6), "restart-broker", (rng.choice(brokers),), 0.2, rng.random()))
        drawn.append(SwarmFault(deposed, "depose-controller", (brokers[0],), 0.0, rng.random()))
        at += rng.uniform(1.5, 2.5)
    return drawn


def _draw_ensemble_faults(seed: object, brokers: tuple[str, ...], load: float) -> list[SwarmFault]:
    rng = Random(f"{seed}/ensemble")
    kinds = [kind for kind in ENSEMBLE_KINDS if rng.random() < 0.7] or ["expire-session"]
    gap = log_uniform(rng, 0.7, 8.0)
    drawn: list[SwarmFault] = []
    at = rng.uniform(0.5, 3.0)
    while True:
        at += rng.expovariate(1 / gap)
        kind = rng.choice(kinds)
        duration = log_uniform(rng, 0.05, 12.0)
        if at + duration >= load - 1.0:
            return drawn
        host = rng.choice(brokers)
        words: dict[str, object] = {}
        if kind == "hold-orders":
            words = {"fault": "rpc-hold", "api": rng.choice(ORDERS), "to": host}
            words["direction"] = rng.choice(("request", "response"))
        drawn.append(SwarmFault(round(at, 6), kind, (host,), round(duration, 6), rng.random(), words))


def _draw_operations(
    seed: object,
    brokers: tuple[str, ...],
    controllers: tuple[str, ...],
    load: float,
    topics: Mapping[str, int],
    without: tuple[str, ...] = (),
) -> list[SwarmFault]:
    rng = Random(f"{seed}/operations")
    kinds = [kind for kind in OPERATIONS if rng.random() < 0.6 and kind not in without] or ["reassign"]
    gap = log_uniform(rng, 0.5, 6.0)
    drawn: list[SwarmFault] = []
    at = rng.uniform(0.5, 3.0)
    while True:
        at += rng.expovariate(1 / gap)
        kind = rng.choice(kinds)
        duration = log_uniform(rng, 0.05, 8.0)
        if at + duration >= load - 5.0:
            return drawn
        hosts = (rng.choice(controllers if kind == "remove-voter" else brokers),)
        words = operation_words(kind, hosts[0], rng, len(brokers), topics)
        drawn.append(SwarmFault(round(at, 6), kind, hosts, round(duration, 6), rng.random(), words))


def _draw_switches(seed: object, brokers: tuple[str, ...], load: float) -> list[SwarmFault]:
    """Draw switches one after the other: a feature is on again before it is switched off again."""
    rng = Random(f"{seed}/switches")
    drawn: list[SwarmFault] = []
    at = rng.uniform(0.5, 3.0)
    while True:
        duration = log_uniform(rng, 0.05, 4.0)
        if at + duration >= load - 5.0:
            return drawn
        kind = rng.choice(list(SWITCHES))
        drawn.append(SwarmFault(round(at, 6), kind, (brokers[0],), round(duration, 6), rng.random()))
        at += duration + rng.uniform(2.0, 6.0)


def operation_words(kind: str, host: str, rng: Random, brokers: int, topics: Mapping[str, int]) -> dict[str, object]:
    """Return an operators' change as an entry of a suite. `brokers` is their number, `topics` have their min ISR."""
    topic = rng.choice(list(topics))
    match kind:
        case "reassign" | "reassign-and-cancel":
            replicas = rng.randint(topics[topic], min(brokers, topics[topic] + 2))
            cancel = {"cancel": True} if kind == "reassign-and-cancel" else {}
            return {"fault": "reassign", "target": f"{topic}/*", "replicas": replicas, **cancel}
        case "elect-leaders":
            return {"fault": "elect-leaders"}
        case "alter-config":
            least = topics[topic]
            changes = {"max.message.bytes": (str(rng.randint(500_000, 2_000_000)), "1048588")}
            changes[MIN_ISR] = (str(least + 1), str(least))
            name = rng.choice(list(changes))
            value, afterwards = changes[name]
            return {"fault": "alter-config", "topic": topic, "name": name, "value": value, "afterwards": afterwards}
        case "remove-voter":
            return {"fault": "remove-voter", "target": rng.choice((host, "active controller"))}
    return {"fault": "restart", "target": "active controller"}


def _draw_faults(
    seed: object, brokers: tuple[str, ...], controllers: tuple[str, ...], load: float, chosen: tuple[str, ...] = ()
) -> list[SwarmFault]:
    rng = Random(f"{seed}/swarm")
    share = rng.choice((0.1, 0.25, 0.5))
    kinds = [kind for kind in KINDS if rng.random() < share] or [rng.choice(list(KINDS))]
    kinds = list(chosen) or kinds
    weights = [rng.random() + 0.1 for _ in kinds]
    gap = log_uniform(rng, 0.3, 8.0)
    longest = log_uniform(rng, 0.5, 15.0)
    faults = []
    at = rng.uniform(0.5, 3.0)
    while True:
        at += rng.expovariate(1 / gap)
        kind = rng.choices(kinds, weights)[0]
        shortest, possible = WAITING_SECONDS if kind.startswith(WAITING_KINDS) else (0.0005, 0.0)
        duration = log_uniform(rng, shortest, max(longest, possible))
        if at + duration >= load - 1.0:
            break
        if kind in LINK_KINDS and len(all_nodes(brokers, controllers)) == 1:
            continue
        hosts = draw_targets(kind, rng, brokers, controllers)
        words = draw_words(kind, hosts, rng, brokers, controllers)
        faults.append(SwarmFault(round(at, 6), kind, hosts, round(duration, 6), rng.random(), words))
    return faults
