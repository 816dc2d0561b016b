"""Records as every client library can write and read them, and samples of them from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

WORDS = ("partition", "epoch", "leader", "offset", "fence", "quorum", "watermark", "ключ", "記録")


@dataclass(frozen=True)
class Record:
    """What a producer gives and a consumer must get back. A value of None is a tombstone."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Delivered:
    """A record as a consumer received it."""

    offset: int
    record: Record


def sample(seed: str, count: int = 120) -> list[Record]:
    """Lines of text without tabs, so that kcat can take them from its input; some without a key, sizes 0 to 4 KB."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        words = rng.choices(WORDS, k=rng.choice((1, 5, 40, 400)))
        key = None if number % 5 == 0 else f"k{rng.randrange(10)}".encode()
        made.append(Record(key, f"{number} {' '.join(words)}".encode()))
    return made


def numbered(records: list[Record], first: int = 0) -> list[Delivered]:
    """What a consumer must be given for records that were written one after the other."""
    return [Delivered(first + place, record) for place, record in enumerate(records)]
