"""Draw faults in patterns that independent faults rarely form: bursts, combinations, and faults aimed at moments.

A *burst* is several faults of a few kinds within half a second. A *combination* is two or more faults that belong
together, such as the power loss of two brokers, or a slow disk on a host whose link is cut. An *aimed* fault waits for
an event that a node traces, and strikes in that turn (`moments.py`). A *stale node* gets no metadata for some seconds
and acts on what it knows, while its peers stop, and in the end stops itself. Others hold or lose messages
(`lost_messages.py`). An aimed fault waits for some seconds, and rare events, such as the truncation of a
metadata log, seldom happen in these; so some faults wait for a *rare* event from the start of the load to its end.

Each seed draws whether it has any of each, from a random stream of its own. The budget decides about each part when it
is due, so that a combination may lose a part that Kafka's promises do not cover.
"""

from __future__ import annotations

from random import Random
from typing import Final

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.entries import all_nodes, draw_targets, draw_words, log_uniform
from squall.harness.simulation.swarm.drawn.kinds import KINDS, LINK_KINDS, MOMENT_KINDS, WAITING_KINDS
from squall.harness.simulation.swarm.drawn.moments import Moment
from squall.harness.simulation.swarm.situations.lost_messages import (
    halted_downloads,
    unanswered_writes,
    undecided_changes,
    unfollowed_leaders,
)

COMBINATIONS: Final = (
    ("power-loss-broker", "power-loss-broker"),
    ("power-loss-controller", "power-loss-controller"),
    ("power-loss-broker", "power-loss-controller"),
    ("crash-controller", "crash-controller", "crash-controller"),
    ("crash-broker", "crash-broker", "crash-broker"),
    ("crash-broker", "isolate-controller"),
    ("disk-slow", "cut-link"),
    ("disk-slow", "one-way", "crash-broker"),
    ("disk-error-broker", "slow-link"),
    ("clock-step", "pause-controller"),
    ("clock-step", "isolate-broker"),
    ("pause-broker", "crash-broker", "restart-broker"),
    ("rpc-hold", "power-loss-broker"),
    ("rpc-cut", "rpc-cut", "crash-broker"),
    ("restart-broker", "restart-controller"),
    ("restart-broker", "power-loss-broker"),
    ("cut-clients", "crash-with-tail-broker"),
    ("isolate-controller", "isolate-controller"),
)
"""Kinds of fault that begin within a third of a second of each other."""

STOPS_OF_BROKERS: Final = ("crash-broker", "pause-broker", "pause-broker", "isolate-broker", "power-loss-broker")
STOPS_OF_VOTERS: Final = ("crash-controller", "pause-controller", "isolate-controller", "power-loss-controller")
"""What stops the peers of a stale node, and the node itself."""

BROKER_MOMENTS: Final = {
    "append": 60,
    "broker_registered": 1,
    "broker_stopping": 1,
    "broker_unfenced": 1,
    "epoch": 4,
    "follower": 4,
    "high_watermark": 60,
    "isr_proposed": 3,
    "leader": 4,
    "log_opened": 8,
    "log_start": 3,
    "metadata_applied": 40,
    "recovery_cut": 1,
    "segment": 12,
    "snapshot": 2,
    "snapshot_loaded": 1,
    "truncate": 2,
}
CONTROLLER_MOMENTS: Final = {
    "admin_write": 4,
    "append": 40,
    "broker_let_go": 1,
    "controller": 1,
    "fsync": 40,
    "high_watermark": 40,
    "log_opened": 1,
    "log_reset": 1,
    "recovery_cut": 1,
    "segment": 3,
    "snapshot": 2,
    "snapshot_begun": 2,
    "state": 6,
    "truncate": 1,
    "vote": 3,
    "voters": 1,
}
"""The traced events that faults are aimed at, and how many of them may pass before the fault strikes."""

RARE_MOMENTS: Final = (
    "broker_let_go",
    "controller",
    "deletion_asked",
    "log_reset",
    "log_without_id",
    "recovery_cut",
    "snapshot_fetch",
    "snapshot_loaded",
    "stray",
    "truncate",
    "voters",
)
"""Events that most worlds have a few times or never, for which a fault waits from the start."""
RARE: Final = 0.15
"""The share of seeds in which a fault waits for one of these events, for each of them."""


def draw_patterns(
    seed: object,
    brokers: tuple[str, ...],
    controllers: tuple[str, ...],
    load: float,
    *,
    dynamic_voters: bool = False,
    topics: tuple[str, ...] = (),
    fetch_timeout: float = 2.0,
) -> list[SwarmFault]:
    """Draw the patterns of this seed, in order of time; all end before `load` seconds have passed.

    `dynamic_voters`: the voters are in the metadata log, so that an operator can remove one. An operator may alter
    settings of the `topics`. `fetch_timeout` is that of the quorum, in seconds.
    """
    rng = Random(f"{seed}/patterns")
    chances = [rng.random() < share for share in (0.35, 0.35, 0.6, 0.4)]
    faults: list[SwarmFault] = []
    for wanted, draw in zip(chances, (_burst, _combination, _aimed, _stale_node), strict=True):
        at = rng.uniform(0.3, 2.0)
        gap = log_uniform(rng, 0.6, 6.0)
        while wanted and at < load:
            faults += [one for one in draw(rng, at, brokers, controllers) if one.latest_end < load - 1.0]
            at += rng.expovariate(1 / gap)
    faults += unfollowed_leaders(Random(f"{seed}/unfollowed"), controllers, load, changed=dynamic_voters)
    faults += undecided_changes(Random(f"{seed}/undecided"), brokers, controllers, load, topics)
    faults += unanswered_writes(Random(f"{seed}/unanswered"), brokers, controllers, load)
    everyone = all_nodes(brokers, controllers)
    faults += halted_downloads(Random(f"{seed}/halted"), everyone, controllers, load, fetch_timeout)
    faults += _rare_moments(Random(f"{seed}/rare moments"), everyone, load)
    return sorted(faults, key=lambda fault: fault.at)


def _burst(rng: Random, at: float, brokers: tuple[str, ...], controllers: tuple[str, ...]) -> list[SwarmFault]:
    kinds = rng.sample(list(KINDS), rng.randint(1, 3))
    window = log_uniform(rng, 0.001, 0.5)
    starts = [at + rng.uniform(0, window) for _ in range(rng.randint(3, 8))]
    return [one for start in starts for one in _fault(rng, start, rng.choice(kinds), brokers, controllers)]


def _combination(rng: Random, at: float, brokers: tuple[str, ...], controllers: tuple[str, ...]) -> list[SwarmFault]:
    """The parts fall on one host where they can, or on different ones."""
    together = rng.random() < 0.5
    faults: list[SwarmFault] = []
    for kind in rng.choice(COMBINATIONS):
        begun = tuple(one.hosts[0] for one in faults)
        faults += _fault(rng, at, kind, brokers, controllers, known=begun, same=together)
        at += rng.choice((0.0, log_uniform(rng, 0.0001, 0.3)))
    return faults


def _fault(
    rng: Random,
    at: float,
    kind: str,
    brokers: tuple[str, ...],
    controllers: tuple[str, ...],
    known: tuple[str, ...] = (),
    same: bool = False,
) -> list[SwarmFault]:
    """Draw one fault on one of the `known` hosts, or on another one, where that can be; no link fault on one node."""
    if kind in LINK_KINDS and len(all_nodes(brokers, controllers)) == 1:
        return []
    hosts = draw_targets(kind, rng, brokers, controllers)
    for _ in range(8):
        if not known or (hosts[0] in known) == same:
            break
        hosts = draw_targets(kind, rng, brokers, controllers)
    words = draw_words(kind, hosts, rng, brokers, controllers)
    duration = log_uniform(rng, 0.2 if kind.startswith(WAITING_KINDS) else 0.001, 4.0)
    return [SwarmFault(round(at, 6), kind, hosts, round(duration, 6), rng.random(), words)]


def _stale_node(rng: Random, at: float, brokers: tuple[str, ...], controllers: tuple[str, ...]) -> list[SwarmFault]:
    role, kinds = rng.choice(((brokers, STOPS_OF_BROKERS), (brokers, STOPS_OF_BROKERS), (controllers, STOPS_OF_VOTERS)))
    host = rng.choice(role)
    length = log_uniform(rng, 1.5, 8.0)
    sources = ", ".join(one for one in controllers if one != host) or host
    hold: dict[str, object] = {"fault": "rpc-hold", "api": "Fetch", "direction": "request", "from": host, "to": sources}
    faults = [SwarmFault(round(at, 6), "rpc-hold", (host,), round(length, 6), rng.random(), hold)]
    stopped = [(one, rng.uniform(0.05, 0.6)) for one in role if one != host and rng.random() < 0.6]
    if rng.random() < 0.7:
        stopped.append((host, rng.uniform(0.4, 1.0)))
    for one, part in stopped:
        kind = rng.choice(kinds)
        words = draw_words(kind, (one,), rng, brokers, controllers)
        duration = round(log_uniform(rng, 0.3, length), 6)
        faults.append(SwarmFault(round(at + part * length, 6), kind, (one,), duration, rng.random(), words))
    return faults


def _aimed(rng: Random, at: float, brokers: tuple[str, ...], controllers: tuple[str, ...]) -> list[SwarmFault]:
    role, events = rng.choice(((brokers, BROKER_MOMENTS), (controllers, CONTROLLER_MOMENTS)))
    event = rng.choice(list(events))
    occurrence = round(log_uniform(rng, 1, events[event]))
    moment = Moment(event, occurrence, round(rng.uniform(0.5, 6.0), 6))
    hosts = role if rng.random() < 0.6 else (rng.choice(role),)
    duration = log_uniform(rng, 0.01, 4.0)
    return [
        SwarmFault(round(at, 6), rng.choice(list(MOMENT_KINDS)), hosts, round(duration, 6), rng.random(), moment=moment)
    ]


def _rare_moments(rng: Random, nodes: tuple[str, ...], load: float) -> list[SwarmFault]:
    """Draw faults that wait for rare events. Most are crashes: at these events a node makes several disk calls."""
    faults: list[SwarmFault] = []
    for event in RARE_MOMENTS:
        if rng.random() >= RARE:
            continue
        kind = rng.choice(("crash-at-moment", "crash-at-moment", *MOMENT_KINDS))
        at = rng.uniform(0.2, 1.0)
        duration = log_uniform(rng, 0.01, 2.0)
        moment = Moment(event, rng.choice((1, 1, 1, 2, 3)), round(load - 1.5 - at - duration, 6))
        faults.append(SwarmFault(round(at, 6), kind, nodes, round(duration, 6), rng.random(), moment=moment))
    return faults
