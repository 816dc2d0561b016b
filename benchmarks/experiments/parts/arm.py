"""The results of one system in the two-million experiment, and the words about progress."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field


@dataclass
class Arm:
    """The results of one system with one number of topic-partitions, in seconds."""

    system: str
    partitions: int
    has_quorum: bool = False
    """Whether a quorum keeps the metadata; else ZooKeeper does."""
    is_away: bool = False
    """Whether the round trip between controller and ZooKeeper is lengthened."""
    load: float = 0.0
    round_trips: list[float] = field(default_factory=list)
    """Of a request from where the controller is to ZooKeeper; empty without ZooKeeper."""
    answered: list[float] = field(default_factory=list)
    applied: list[float] = field(default_factory=list)
    detected: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    """Of the failover, each since the one before."""
    failover: float = 0.0
    """SIGKILL until another controller serves."""
    failover_applied: float = 0.0
    broker_failure_detected: float = 0.0
    """SIGKILL of a broker until the controller acts, or the quorum has fenced it."""
    broker_failure: float = 0.0
    """SIGKILL of a broker until every other broker has the changes."""
    failovers: list[float] = field(default_factory=list)
    """Each of them, where there were several; `detected`, `stages`, `failover` and `failover_applied` are medians."""
    memory: dict[str, int] = field(default_factory=dict)
    """Resident bytes of each kind of process, at the end."""


def say(what: str) -> None:
    """Report progress: large numbers take minutes."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)
