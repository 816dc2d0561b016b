"""Round trips until a diverged follower agrees with its new leader: push, push with a hint, and pull (PP-01).

Two real replicas with logs by choice; a link delay of 10 ms and no other. Counted are AppendEntries or Fetch up to the
first that is accepted. In the figures, `100 / 10 in one other epoch` is a leader with 100 records after the last common
one and a follower with 10 of another epoch. The random histories are drawn from a seed: one to five epochs of up to
sixty records on either side of the last common record.

The source claims that a follower that pulls truncates at once, where a leader that pushes steps back record by record.
The expected figures come from a prototype written before this one.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from squall.benchmarks.experiments.parts.pair import Exchange, Pair
from squall.benchmarks.experiments.parts.picture import bars, by_name
from squall.benchmarks.parts.measurement import Measurement
from squall.nodes.raft.config import KRAFT, Replication, Variant

ARMS = {
    "push, nextIndex - 1": Variant(Replication.PUSH),
    "push with a hint": Variant(Replication.PUSH_WITH_HINT),
    "pull": KRAFT,
}
COMMON = 5
"""Records of epoch 1 that both logs begin with."""
HISTORIES, HISTORIES_SHORT = 2_000, 60
TOLERATED = 0.2
"""How far from the expected figure a measured one may lie."""


@dataclass(frozen=True)
class Divergence:
    """The records of either side after the common ones, and the round trips expected of each arm."""

    name: str
    leader: tuple[int, ...]
    follower: tuple[int, ...]
    expected: tuple[int, int, int]


def epochs_in_turn(first: int, step: int, epochs: int, records: int) -> tuple[int, ...]:
    """So many epochs, `step` apart, with so many records each."""
    return tuple(first + step * number for number in range(epochs) for _ in range(records))


DIVERGENCES = (
    Divergence("lag of 1000, no divergence", (2,) * 1000, (), (1001, 2, 1)),
    Divergence("100 / 10 in one other epoch", (3,) * 100, (2,) * 10, (101, 3, 2)),
    Divergence("1000 / 1000 in one other epoch", (3,) * 1000, (2,) * 1000, (1001, 2, 2)),
    Divergence("5 x 20 / 5 x 20 interleaved", epochs_in_turn(3, 2, 5, 20), epochs_in_turn(2, 2, 5, 20), (101, 6, 6)),
    Divergence("100 in one epoch / 5 x 20", (20,) * 100, epochs_in_turn(2, 2, 5, 20), (101, 6, 2)),
)


def reconciled(divergence: Divergence, variant: Variant) -> Exchange:
    common = (1,) * COMMON
    return Pair(common + divergence.leader, common + divergence.follower, variant).reconcile()


def random_history(rng: Random) -> Divergence:
    """Both sides go on in epochs of their own; what they have in common is the first five records."""
    sides: tuple[list[int], list[int]] = ([], [])
    for epoch in range(2, 2 + rng.randint(1, 10)):
        sides[rng.randint(0, 1)].extend([epoch] * rng.randint(1, 60))
    leader, follower = sides if (sides[0][-1:], len(sides[0])) >= (sides[1][-1:], len(sides[1])) else sides[::-1]
    return Divergence("random", tuple(leader), tuple(follower), (0, 0, 0))


def run(short: bool = False) -> Iterator[Measurement]:
    """Run all divergences through all arms, then random histories."""
    for divergence in DIVERGENCES:
        for (arm, variant), expected in zip(ARMS.items(), divergence.expected, strict=True):
            found = reconciled(divergence, variant)
            yield _counted(f"{divergence.name}: {arm}", [found.round_trips], f"{expected} (prototype)", expected)
            yield Measurement(f"    {divergence.name}, until equal: {arm}", found.milliseconds, "ms")
    yield from random_histories(HISTORIES_SHORT if short else HISTORIES)


def random_histories(number: int) -> Iterator[Measurement]:
    """The mean and the maximum of each arm over the same histories."""
    rng = Random(21)
    histories = [random_history(rng) for _ in range(number)]
    means = []
    for arm, variant in ARMS.items():
        found = [reconciled(one, variant).round_trips for one in histories]
        expected = {"push, nextIndex - 1": "47.9 (206)", "push with a hint": "2.79 (6)", "pull": "2.14 (4)"}[arm]
        means.append(statistics.fmean(found))
        yield Measurement(
            f"{number} random histories, mean: {arm}", means[-1], "round trips",
            samples=tuple(float(one) for one in found), reference=f"{expected} (prototype, other histories)",
        )  # fmt: skip
        yield Measurement(f"    the most of any: {arm}", max(found), "round trips")
    push, hint, pull = means
    yield Measurement("pull over push with a hint, random histories", pull / hint, "times", must=1.0,
                      higher_is_better=False, reference="pull in fewer rounds (source)")  # fmt: skip
    yield Measurement("push over pull, random histories", push / pull, "times", must=2.0,
                      reference="push ping-pongs (source)")  # fmt: skip


def _counted(name: str, samples: Sequence[int], reference: str, expected: int) -> Measurement:
    within = (expected * (1 - TOLERATED), expected * (1 + TOLERATED))
    values = tuple(float(one) for one in samples)
    return Measurement(name, values[0], "round trips", samples=values, reference=reference, within=within)


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart: a bar for each arm and divergence, capped, since one record at a time takes a thousand."""
    found = by_name(measurements)
    groups = [one.name for one in DIVERGENCES]
    arms = {arm: [found[f"{group}: {arm}"].measured for group in groups] for arm in ARMS}
    short = [group.replace(" in one other epoch", "").replace(", no divergence", "") for group in groups]
    capped = {arm: [min(value, 12.0) for value in values] for arm, values in arms.items()}
    return {
        "reconciliation": bars(
            "Round trips until a diverged follower agrees (bars of 12 are 101 or 1001)",
            short, capped, "round trips", "",
        )
    }  # fmt: skip
