"""Trains of numbered datagrams: by what arrives of them, and how, it is measured what a link does to packets.

One host throws a train at the keepers of others (`train_probe.py`); the keeper there counts what arrived, what came
twice, damaged, or behind a later one, and how what is missing is spread: in how many runs, and how long the longest is.
Each direction stands by itself, and nobody answers anything, so nothing is sent again.

The datagrams carry no UDP checksum, where IPv4 lets them, so that a damaged one is not thrown away by the kernel before
it can be counted; the content is known, so damage shows. What names the datagram has a checksum of ours: one that is
damaged there is nobody's, and is missing.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field

BEGINNING = b"train "
FILLING = bytes(range(256)) * 3
KEPT_TRAINS = 512


def car(nonce: str, source: str, index: int, length: int) -> bytes:
    """One datagram of a train of that length."""
    name = json.dumps([nonce, source, index, length]).encode()
    return BEGINNING + b"%08x " % zlib.crc32(name) + name + b"\n" + FILLING


@dataclass
class Train:
    """What arrived of one."""

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
    """How long each run of numbers is that are missing."""
    runs, run = [], 0
    for index in range(length + 1):
        if index < length and index not in arrived:
            run += 1
        elif run:
            runs.append(run)
            run = 0
    return runs


class Trains:
    """The trains that came to one host, by nonce and by where they came from; the latest of them."""

    def __init__(self) -> None:
        self._trains: OrderedDict[str, dict[str, Train]] = OrderedDict()

    def take(self, data: bytes) -> bool:
        """Whether it was a car of a train."""
        if not data.startswith(BEGINNING):
            return False
        head, _, rest = data[len(BEGINNING) :].partition(b"\n")
        checksum, _, name = head.partition(b" ")
        with contextlib.suppress(ValueError):  # damaged where nobody can say what it was
            if int(checksum, 16) == zlib.crc32(name):
                nonce, source, index, length = json.loads(name)
                trains = self._trains.setdefault(nonce, {})
                trains.setdefault(source, Train(length)).take(index, rest == FILLING)
        while len(self._trains) > KEPT_TRAINS:
            self._trains.popitem(last=False)
        return True

    def told(self, nonce: str) -> dict[str, dict[str, int]]:
        return {source: train.told() for source, train in self._trains.get(nonce, {}).items()}
