"""Draw patterns of messages that are held or lost between certain nodes, so that some know less than others.

A leader of the quorum is *unfollowed* while no controller's fetch reaches another one: whoever leads appends what
brokers ask for, commits nothing of it, and gives way to another leader, so that logs diverge. A change of an ISR is
*undecided* while the controller's answers to the leader are held or lost, often while the leader gets no metadata
either, and meanwhile members fall behind or come back. An administrator's write is *unanswered* if the answer is lost
on its way to the broker that has forwarded it. A download of a snapshot *halts* if its pieces come late:
one by more than a voter waits for its leader, or each by less, so that all of it takes longer than that.

Each seed draws whether it has any of each, from a random stream of its own (`patterns.py`).
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import draw_words, log_uniform
from squall.harness.simulation.swarm.drawn.kinds import REMOVE_VOTER
from squall.harness.simulation.swarm.drawn.moments import Moment

UNFOLLOWED_SHARE: Final = 0.3
"""The share of seeds in which controllers do not hear one another's fetches now and then."""
UNDECIDED_SHARE: Final = 0.4
"""The share of seeds in which leaders do not hear, now and then, how their changes of the ISR ended."""
UNANSWERED_SHARE: Final = 0.3
"""The share of seeds in which brokers lose the controller's answers to what they forward, now and then."""
HALTED_SHARE: Final = 0.3
"""The share of seeds in which downloads of snapshots halt."""
STOPS: Final = ("crash-broker", "pause-broker", "pause-broker", "isolate-broker")
"""What makes followers fall behind while their leader's changes of the ISR are undecided."""
ALTER: Final = "alter-config"
FORWARDED: Final = (
    "CreateTopics", "DeleteTopics", "CreatePartitions", "IncrementalAlterConfigs", "ElectLeaders",
    "AlterPartitionReassignments",
)  # fmt: skip
"""Administrators' writes, which brokers forward."""


def unfollowed_leaders(rng: Random, controllers: tuple[str, ...], load: float, *, changed: bool) -> list[SwarmFault]:
    """Hold the controllers' fetches from one another, now and then, for about as long as a leader stands that.

    Where voters can be `changed`, one is removed about when that begins.
    """
    faults: list[SwarmFault] = []
    if len(controllers) < 2 or rng.random() > UNFOLLOWED_SHARE:
        return faults
    everyone = ", ".join(controllers)
    words: dict[str, object] = {
        "fault": "rpc-hold", "api": "Fetch", "direction": "request", "from": everyone, "to": everyone,
    }  # fmt: skip
    at = rng.uniform(0.3, 4.0)
    while (length := log_uniform(rng, 0.3, 4.0)) + at < load - 1.0:
        faults.append(SwarmFault(round(at, 6), "rpc-hold", controllers, round(length, 6), rng.random(), words))
        begin, out = max(0.1, at + rng.uniform(-0.3, 0.6)), log_uniform(rng, 0.05, 3.0)
        if changed and rng.random() < 0.7 and begin + out < load - 1.0:
            removal: dict[str, object] = {
                "fault": REMOVE_VOTER,
                "target": rng.choice((*controllers, "active controller")),
            }
            host = (rng.choice(controllers),)
            faults.append(SwarmFault(round(begin, 6), REMOVE_VOTER, host, round(out, 6), rng.random(), removal))
        at += length + rng.expovariate(1 / 3.0)
    return faults


def undecided_changes(
    rng: Random,
    brokers: tuple[str, ...],
    controllers: tuple[str, ...],
    load: float,
    topics: tuple[str, ...] = (),
) -> list[SwarmFault]:
    """Keep a broker's AlterPartition from the controllers, or their answers from it, while its followers stop.

    Meanwhile another setting of one of the `topics` is altered now and then. The leader is told of that by metadata
    with the partition epoch that it knows, which say nothing of its change of the ISR.
    """
    faults: list[SwarmFault] = []
    if len(brokers) < 2 or rng.random() > UNDECIDED_SHARE:
        return faults
    at = rng.uniform(0.3, 4.0)
    while (length := log_uniform(rng, 0.3, 4.0)) + at < load - 1.0:
        host = rng.choice(brokers)
        to = ", ".join(one for one in controllers if one != host) or host
        asked: dict[str, object] = {"api": "AlterPartition", "from": host, "to": to}
        if rng.random() < 0.5:  # the metadata that say how it ended come before the answer
            kept, until_answer, until_metadata = "rpc-hold", length, length * rng.uniform(0.1, 0.9)
            asked["direction"] = rng.choice(("request", "response"))
        else:  # the answer is lost, and asked for again before the metadata come
            kept, until_answer, until_metadata = "rpc-cut", length * rng.uniform(0.2, 0.9), length
            asked |= {"direction": "response", "messages": 0}
        parts = [(at, until_answer, {"fault": kept, **asked})]
        if rng.random() < 0.75:
            begin = max(0.1, at - rng.uniform(0.0, 2.5))
            deaf: dict[str, object] = {
                "fault": "rpc-hold",
                "api": "Fetch",
                "direction": "request",
                "from": host,
                "to": to,
            }
            parts.append((begin, at - begin + until_metadata, deaf))
        for begin, lasting, what in parts:
            kind = str(what["fault"])
            faults.append(SwarmFault(round(begin, 6), kind, (host,), round(lasting, 6), rng.random(), what))
        for begin in [at + until_answer * rng.random() for _ in range(3)] if topics and rng.random() < 0.7 else ():
            altered: dict[str, object] = {"fault": ALTER, "topic": rng.choice(topics), **_setting(rng)}
            faults.append(SwarmFault(round(begin, 6), ALTER, (host,), round(rng.random(), 6), rng.random(), altered))
        for other in rng.sample(brokers, rng.randint(1, len(brokers))):
            kind, begin = rng.choice(STOPS), max(0.1, at + rng.uniform(-3.0, 0.5 * length))
            if other != host:
                words = draw_words(kind, (other,), rng, brokers, controllers)
                stopped = round(log_uniform(rng, 0.2, 3.0), 6)
                faults.append(SwarmFault(round(begin, 6), kind, (other,), stopped, rng.random(), words))
        at += length + rng.expovariate(1 / 3.0)
    return [one for one in faults if one.latest_end < load - 1.0]


def _setting(rng: Random) -> dict[str, object]:
    return {"name": "max.message.bytes", "value": str(rng.randint(500_000, 2_000_000)), "afterwards": "1048588"}


def unanswered_writes(
    rng: Random, brokers: tuple[str, ...], controllers: tuple[str, ...], load: float
) -> list[SwarmFault]:
    """Lose the answers to administrators' writes on their way from the controllers to the brokers that forwarded them.

    Nobody knows then whether such a write was carried out, and it must not be carried out again.
    """
    faults: list[SwarmFault] = []
    if not set(brokers) - set(controllers) or rng.random() > UNANSWERED_SHARE:
        return faults
    at = rng.uniform(0.1, 4.0)
    while (length := log_uniform(rng, 0.3, 4.0)) + at < load - 1.0:
        for api in rng.sample(FORWARDED, 2):
            words: dict[str, object] = {
                "fault": "rpc-cut", "api": api, "direction": "response", "from": ", ".join(brokers),
                "to": ", ".join(controllers), "messages": rng.choice((0, 0, 1)),
            }  # fmt: skip
            faults.append(SwarmFault(round(at, 6), "rpc-cut", brokers, round(length, 6), rng.random(), words))
        at += length + rng.expovariate(1 / 3.0)
    return faults


def halted_downloads(
    rng: Random, nodes: tuple[str, ...], controllers: tuple[str, ...], load: float, fetch_timeout: float
) -> list[SwarmFault]:
    """Delay what a node is sent by controllers from when it begins to download a snapshot: each piece, or the next.

    `fetch_timeout` is how long a voter waits for its leader, in seconds.
    """
    faults: list[SwarmFault] = []
    if len(nodes) < 2 or rng.random() > HALTED_SHARE:
        return faults
    for host in nodes:
        leaders = ", ".join(one for one in controllers if one != host)
        at, latency, length = rng.uniform(0.2, 1.0), fetch_timeout * rng.uniform(0.1, 0.8), rng.uniform(2.0, 8.0)
        if rng.random() < 0.5:
            latency, length = fetch_timeout * rng.uniform(1.0, 1.6), 0.1
        within = load - 1.5 - at - length - latency
        if not leaders or within <= 0:
            continue
        shape = {"direction": "in", "latency": round(latency, 6), "jitter": 0.0}
        words: dict[str, object] = {"fault": "slow-link", "target": host, "to": leaders, **shape}
        moment = Moment("snapshot_fetch", rng.choice((1, 1, 2, 3)), round(within, 6))
        faults.append(SwarmFault(round(at, 6), "slow-link", (host,), round(length, 6), rng.random(), words, moment))
    return faults
