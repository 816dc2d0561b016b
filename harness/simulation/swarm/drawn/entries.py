"""Draw the targets of one fault, and the fault as an entry of a suite's `nemesis` list, with its intensity."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log
from random import Random

from squall.harness.simulation.swarm.drawn.kinds import LINK_KINDS

BROKER_TO_BROKER = ("Fetch", "Fetch", "Fetch", "OffsetForLeaderEpoch")
BROKER_TO_CONTROLLER = ("AlterPartition", "AlterPartition", "BrokerHeartbeat", "BrokerRegistration", "Fetch")
CONTROLLER_TO_CONTROLLER = ("Fetch", "Fetch", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch")
CLIENT_TO_BROKER = ("Produce", "Produce", "Fetch", "Fetch", "Metadata", "InitProducerId", "ListOffsets")
"""Which APIs each pair of roles uses, the usual more often than the rare."""

COMMON_DISK_CALLS = ("write", "fsync", "write", "fsync", "rename")
DISK_CALLS = ("read", "write", "fsync", "truncate", "create", "rename", "remove", "fsync-directory")


def log_uniform(rng: Random, low: float, high: float) -> float:
    return exp(rng.uniform(log(low), log(high)))


def one_after_the_other(
    rng: Random, load: float, first: tuple[float, float], lengths: tuple[float, float], gaps: tuple[float, float]
) -> Iterator[tuple[float, float]]:
    """Yield beginnings and lengths in seconds; the last is over two seconds before `load` seconds have passed.

    The caller may draw from `rng` in between.
    """
    at = rng.uniform(*first)
    while at + (length := log_uniform(rng, *lengths)) < load - 2.0:
        yield at, length
        at += length + rng.uniform(*gaps)


def draw_targets(kind: str, rng: Random, brokers: tuple[str, ...], controllers: tuple[str, ...]) -> tuple[str, ...]:
    if kind in LINK_KINDS:
        first, second = rng.sample(all_nodes(brokers, controllers), 2)
        return (first, second)
    if kind.endswith("controller"):
        return (rng.choice(controllers),)
    if kind.endswith("broker") or kind in ("wipe-disk", "cut-clients"):
        return (rng.choice(brokers),)
    return (rng.choice(all_nodes(brokers, controllers)),)


def all_nodes(brokers: tuple[str, ...], controllers: tuple[str, ...]) -> tuple[str, ...]:
    """Return every node once: a combined node is in both lists."""
    return tuple(dict.fromkeys(brokers + controllers))


def draw_words(
    kind: str, hosts: tuple[str, ...], rng: Random, brokers: tuple[str, ...], controllers: tuple[str, ...]
) -> dict[str, object]:
    """Return the fault in the vocabulary of suites, with its intensity."""
    first, last = hosts[0], hosts[-1]
    match kind:
        case "crash-broker" | "crash-controller":
            return {"fault": "kill", "target": first}
        case "power-loss-broker" | "power-loss-controller":
            return {"fault": "power-loss", "target": first, "mode": rng.choice(("all", "torn", "torn"))}
        case "wipe-disk":
            return {"fault": "wipe-disk", "target": first}
        case "disk-error-broker" | "disk-error-controller":
            calls = sorted({rng.choice(COMMON_DISK_CALLS), *rng.sample(DISK_CALLS, rng.randint(0, 2))})
            probability = round(log_uniform(rng, 0.02, 1.0), 3)
            number = rng.choice(("EIO", "ENOSPC"))
            return {"fault": "disk-error", "target": first, "errno": number, "calls": calls, "probability": probability}
        case "disk-slow":
            latency = round(log_uniform(rng, 0.001, 2.0), 6)
            return {"fault": "disk-slow", "target": first, "latency": latency, "calls": rng.choice(_SLOW_CALLS)}
        case "pause-broker" | "pause-controller":
            return {"fault": "pause", "target": first}
        case "isolate-broker" | "isolate-controller":
            return {"fault": "isolate", "target": first}
        case "one-way":
            return {"fault": "one-way", "target": first, "to": last}
        case "cut-link":
            return {"fault": "isolate", "target": first, "from": last}
        case "slow-link":
            latency, jitter = (round(log_uniform(rng, 0.000_01, 0.3), 6) for _ in range(2))
            return _link(first, last, rng, fault="slow-link", latency=latency, jitter=jitter)
        case "loss":
            return _link(first, last, rng, fault="slow-link", latency=0, loss=round(log_uniform(rng, 0.01, 0.5), 3))
        case "bandwidth":
            return _link(first, last, rng, fault="bandwidth", rate=round(log_uniform(rng, 2_000, 1_000_000)))
        case "rpc-hold":
            return {"fault": "rpc-hold", **_messages(first, rng, brokers, controllers)}
        case "rpc-cut":
            messages = rng.choice((0, 0, 1, 1, 2, 5))
            return {"fault": "rpc-cut", "messages": messages, **_messages(first, rng, brokers, controllers)}
        case "clock-step":
            return {"fault": "clock", "target": first, "offset": round(rng.uniform(-3600, 3600), 3) or 1.0}
        case "clock-drift":
            rate = round(log_uniform(rng, 0.5, 2.0), 4)
            return {"fault": "clock", "target": first, "offset": 0, "rate": rate if rate != 1 else 1.0001}
    return {}


_SLOW_CALLS = (["write"], ["read", "write"], ["write", "fsync"], ["fsync", "fsync-directory", "rename"])


def _link(first: str, last: str, rng: Random, **shape: object) -> dict[str, object]:
    return {"target": first, "to": last, "direction": rng.choice(("both", "out", "in")), **shape}


def _messages(first: str, rng: Random, brokers: tuple[str, ...], controllers: tuple[str, ...]) -> dict[str, object]:
    """Choose requests that this host sends, or that all hosts send to it, or the responses."""
    direction = rng.choice(("request", "response"))
    if first in controllers:
        if rng.random() < 0.5:
            voters = ", ".join(one for one in controllers if one != first) or first
            return {"api": rng.choice(CONTROLLER_TO_CONTROLLER), "direction": direction, "from": first, "to": voters}
        return {"api": rng.choice(BROKER_TO_CONTROLLER), "direction": direction, "to": ", ".join(controllers)}
    chance = rng.random()
    if chance < 0.4:
        api = rng.choice(BROKER_TO_CONTROLLER)
        return {"api": api, "direction": direction, "from": first, "to": ", ".join(controllers)}
    if chance < 0.7:
        peers = ", ".join(one for one in brokers if one != first) or first
        return {"api": rng.choice(BROKER_TO_BROKER), "direction": direction, "from": first, "to": peers}
    return {"api": rng.choice(CLIENT_TO_BROKER), "direction": direction, "to": first}
