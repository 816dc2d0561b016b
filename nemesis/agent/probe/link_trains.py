"""Trains of numbered datagrams: what arrives of a train, and how, measures what a link does to packets.

One host sends a train to the keepers of others (`train_probe.py`). The keeper there counts the datagrams that arrived,
arrived twice, damaged, or behind a later one, and how the missing ones are distributed: in how many runs, and how long
the longest is. Each direction is measured separately, and nothing is answered or sent again.

The datagrams carry no UDP checksum, where IPv4 allows it, so that the kernel does not drop a damaged one before it is
counted. The content is known, so damage shows. The datagram's name is sealed (`probe_auth.py`): one that is damaged
there belongs to no train and counts as missing. Memory is bounded.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field

from squall.nemesis.agent.probe.probe_auth import TRAIN, Key

FILLING = bytes(range(256)) * 3
KEPT_NONCES = 512
KEPT_TRAINS = 2048
MOST_CARS = 20_000
LONGEST_NAME = 200


def car(key: Key, nonce: str, source: str, index: int, length: int) -> bytes:
    """One datagram of a train of that length."""
    return key.seal(TRAIN, json.dumps([nonce, source, index, length]).encode(), FILLING)


@dataclass
class Train:
    """What arrived of one train."""

    length: int
    last: int = -1
    arrived: set[int] = field(default_factory=set)
    twice: int = 0
    damaged: int = 0
    overtaken: int = 0

    def take(self, index: int, whole: bool) -> None:
        self.damaged += not whole
        if index in self.arrived:
            self.twice += 1
            return
        self.arrived.add(index)
        self.overtaken += index < self.last
        self.last = max(self.last, index)

    def told(self) -> dict[str, int]:
        runs = missing_runs(self.arrived, self.length)
        return {
            "thrown": self.length,
            "arrived": len(self.arrived),
            "twice": self.twice,
            "damaged": self.damaged,
            "overtaken": self.overtaken,
            "lost": sum(runs),
            "bursts": len(runs),
            "longest": max(runs, default=0),
        }


def missing_runs(arrived: set[int], length: int) -> list[int]:
    """The lengths of the runs of missing numbers."""
    runs, run = [], 0
    for index in range(length + 1):
        if index < length and index not in arrived:
            run += 1
        elif run:
            runs.append(run)
            run = 0
    return runs


class Trains:
    """The latest trains that arrived at one host, by nonce and source."""

    def __init__(self) -> None:
        self._trains: OrderedDict[str, dict[str, Train]] = OrderedDict()

    def take(self, name: bytes, content: bytes) -> None:
        """Count a datagram whose seal is valid. Raises ValueError for a datagram that no train can contain."""
        nonce, source, index, length = json.loads(name)
        texts = all(isinstance(one, str) and len(one) <= LONGEST_NAME for one in (nonce, source))
        numbers = all(isinstance(one, int) for one in (index, length))
        if not texts or not numbers or not 0 <= index < length <= MOST_CARS:
            raise ValueError("no car of a train")
        trains = self._trains.setdefault(nonce, {})
        trains.setdefault(source, Train(length)).take(index, content == FILLING)
        while len(self._trains) > KEPT_NONCES or sum(map(len, self._trains.values())) > KEPT_TRAINS:
            self._trains.popitem(last=False)

    def told(self, nonce: str) -> dict[str, dict[str, int]]:
        return {source: train.told() for source, train in self._trains.get(nonce, {}).items()}
