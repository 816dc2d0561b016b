"""The command line of a member of etcd, and the settings that a suite may have.

arguments(Peer("m1", "10.0.0.2:9092", "10.0.0.2:2380"), peers, "/data", {"snapshot-count": "1000"})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from squall.harness.yaml_source import suggestion

SETTINGS: Final = ("heartbeat-interval", "election-timeout", "snapshot-count", "max-txn-ops", "backend-batch-limit")
"""Flags that take a whole number."""


@dataclass(frozen=True)
class Peer:
    """One member and where it listens, for clients and for the others; addresses are HOST:PORT."""

    name: str
    clients: str
    peers: str


def arguments(
    one: Peer, members: Sequence[Peer], data: str, settings: Mapping[str, str], token: str = "squall"
) -> tuple[str, ...]:
    """Return the arguments of a member of a new cluster. They hold for every later start as well."""
    clients, peers = f"http://{one.clients}", f"http://{one.peers}"
    everybody = ",".join(f"{member.name}=http://{member.peers}" for member in members)
    return (
        *(f"--name={one.name}", f"--data-dir={data}", "--log-level=info"),
        *(f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"),
        *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
        *(f"--initial-cluster={everybody}", f"--initial-cluster-token={token}"),
        *(f"--{key}={value}" for key, value in settings.items()),
    )


def wrong_with_setting(key: str, value: str, version: str) -> str | None:
    """Return why a member does not take a setting; None if it does."""
    if key not in SETTINGS:
        return f"is no setting of etcd that a suite may have{suggestion(key, SETTINGS)}"
    return None if value.isdecimal() and int(value) > 0 else "is no whole number from 1"


def wrong_with_topic(name: str, topic: Any) -> str | None:
    """Return why a topic of a suite cannot be keys of etcd; None if it can."""
    majority = topic.replication_factor // 2 + 1
    if topic.partitions != 1:
        return f"etcd is one log of all its keys; partitions must be 1, and is {topic.partitions}"
    if topic.min_insync_replicas != majority:
        return f"of {topic.replication_factor} members {majority} acknowledge; min_insync_replicas must be {majority}"
    return f"config: {next(iter(topic.config))}: topics of Kafka have settings; leave it out" if topic.config else None
