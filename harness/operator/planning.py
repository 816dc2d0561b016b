"""Plan which replicas go to which brokers: balanced, rack aware and with few moves. No I/O.

    plan(partitions, brokers={1: "a", 2: "b", 3: "c"})  ->  a tuple of Move, those that change something

Rules, in this order:

1. Replicas are on the given brokers, each topic-partition's on as many racks as there are (up to its count).
2. Brokers get equal numbers of replicas, and of preferred leaders, as far as rule 1 permits.
3. Well-placed replicas stay: a replica that need not move is not copied, a preferred leader that need not change stays.

The algorithm begins with what may stay, adds replicas on the least loaded broker of the least used rack, and then moves
single replicas from the fullest to the emptiest broker until no move helps. Every such step reduces the sum of squared
loads, so it ends. It processes brokers and topic-partitions in order, so equal input gives equal plans. Without racks
the loads end at most one apart: a broker with two more than another has a topic-partition that the other lacks.

Plans are stored in the format of kafka-reassign-partitions: `{"version": 1, "partitions": [{"topic", "partition",
"replicas"}]}`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squall.harness.errors import UsageError
from squall.harness.operator.facts import PartitionFacts

Place = tuple[str, int]
"""Topic and partition."""
Racks = Mapping[int, str | None]
"""The rack of each broker that may host replicas."""


@dataclass(frozen=True)
class Move:
    """A topic-partition whose replicas, or whose preferred leader, change."""

    topic: str
    partition: int
    old: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(one for one in self.new if one not in self.old)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(one for one in self.old if one not in self.new)


def plan(
    partitions: Sequence[PartitionFacts], brokers: Racks, *, replication_factor: int | None = None
) -> tuple[Move, ...]:
    """Return moves that bring the topic-partitions onto the brokers. Raises UsageError if there are too few brokers."""
    ordered = sorted(partitions, key=lambda one: (one.topic, one.partition))
    counts = {_place(one): replication_factor or len(one.replicas) for one in ordered}
    most = max(counts.values(), default=0)
    if most > len(brokers):
        listed = ",".join(str(one) for one in sorted(brokers))
        raise UsageError(
            f"--brokers {listed}: {len(brokers)} brokers cannot hold {most} replicas of a topic-partition",
            remedy=f"name at least {most} brokers, or give a smaller --replication-factor",
        )
    placement = _Placement(brokers, counts)
    for one in ordered:
        placement.keep(_place(one), one.replicas)
    for one in ordered:
        placement.fill(_place(one))
    placement.even_out()
    chosen = placement.with_leaders({_place(one): one.replicas for one in ordered})
    moves = [Move(one.topic, one.partition, one.replicas, chosen[_place(one)]) for one in ordered]
    return tuple(move for move in moves if move.old != move.new)


def _place(one: PartitionFacts) -> Place:
    return one.topic, one.partition


class _Placement:
    """Replicas of topic-partitions, on the way from the present to the planned brokers."""

    def __init__(self, racks: Racks, counts: Mapping[Place, int]) -> None:
        self.racks = {broker: racks[broker] for broker in sorted(racks)}
        self.counts = counts
        self.load = dict.fromkeys(self.racks, 0)
        self.replicas: dict[Place, list[int]] = {}

    def keep(self, place: Place, old: Sequence[int]) -> None:
        """Keep replicas on given brokers, but not so many on one rack that other racks are left out."""
        count = self.counts[place]
        here = [broker for broker in old if broker in self.racks]
        first_of_rack = {self._rack(broker): broker for broker in reversed(here)}
        kept = [broker for broker in here if first_of_rack[self._rack(broker)] == broker][:count]
        racks_wanted = min(count, len({self._rack(broker) for broker in self.racks}))
        for broker in here:
            room = count - len(kept) - max(0, racks_wanted - len(first_of_rack))
            if broker not in kept and room > 0:
                kept.append(broker)
        self.replicas[place] = [broker for broker in here if broker in kept]
        for broker in self.replicas[place]:
            self.load[broker] += 1

    def fill(self, place: Place) -> None:
        """Add replicas, each on a rack used least by this topic-partition, on the broker with the fewest replicas."""
        chosen = self.replicas[place]
        while len(chosen) < self.counts[place]:
            used = self._used(chosen)
            free = [broker for broker in self.racks if broker not in chosen]
            best = min(free, key=lambda broker: (used[self._rack(broker)], self.load[broker], broker))
            chosen.append(best)
            self.load[best] += 1

    def even_out(self) -> None:
        """Move replicas from full to empty brokers while that makes their loads more equal."""
        while self._one_step():
            pass

    def _one_step(self) -> bool:
        by_load = sorted(self.racks, key=lambda broker: (self.load[broker], broker))
        for full in reversed(by_load):
            for empty in by_load:
                if self.load[full] - self.load[empty] < 2:
                    break
                place = self._movable(full, empty)
                if place is not None:
                    chosen = self.replicas[place]
                    chosen[chosen.index(full)] = empty
                    self.load[full] -= 1
                    self.load[empty] += 1
                    return True
        return False

    def _movable(self, full: int, empty: int) -> Place | None:
        for place, chosen in self.replicas.items():
            if full in chosen and empty not in chosen:
                others = [one for one in chosen if one != full]
                if self._fits(others, empty):
                    return place
        return None

    def _fits(self, others: Sequence[int], broker: int) -> bool:
        """Return whether a further replica there leaves as many racks in use as possible."""
        used = self._used(others)
        rack = self._rack(broker)
        return used[rack] == 0 or all(used[one] > 0 for one in {self._rack(known) for known in self.racks})

    def _used(self, replicas: Sequence[int]) -> Counter[str]:
        return Counter(self._rack(broker) for broker in replicas)

    def _rack(self, broker: int) -> str:
        """Return its rack; a broker without one counts as a separate rack, so that rule 1 has no effect on it."""
        rack = self.racks[broker]
        return f"rack {rack}" if rack is not None else f"broker {broker}"

    def with_leaders(self, old: Mapping[Place, Sequence[int]]) -> dict[Place, tuple[int, ...]]:
        """Return replicas in order: first the preferred leader, distributed evenly over the brokers."""
        led = dict.fromkeys(self.racks, 0)
        first: dict[Place, int] = {}
        for place, chosen in self.replicas.items():
            if old[place][0] in chosen:
                first[place] = old[place][0]
                led[first[place]] += 1
        for place, chosen in self.replicas.items():
            if place not in first:
                first[place] = min(chosen, key=lambda broker: (led[broker], broker))
                led[first[place]] += 1
        self._even_leaders(first, led)
        return {place: self._ordered(first[place], chosen, old[place]) for place, chosen in self.replicas.items()}

    def _even_leaders(self, first: dict[Place, int], led: dict[int, int]) -> None:
        """Move a leadership to another replica of its topic-partition that leads at least two fewer."""
        changed = True
        while changed:
            changed = False
            for place, chosen in self.replicas.items():
                leader, least = first[place], min(chosen, key=lambda broker: (led[broker], broker))
                if led[leader] - led[least] >= 2:
                    led[leader] -= 1
                    led[least] += 1
                    first[place], changed = least, True

    @staticmethod
    def _ordered(leader: int, chosen: Sequence[int], old: Sequence[int]) -> tuple[int, ...]:
        kept = [one for one in old if one in chosen and one != leader]
        return (leader, *kept, *(one for one in chosen if one != leader and one not in old))


# -- plans as files ------------------------------------------------------------------------------------------------


def plan_as_json(targets: Mapping[Place, Sequence[int]]) -> str:
    """Return the text of a plan file."""
    rows = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in sorted(targets.items())
    ]
    return json.dumps({"version": 1, "partitions": rows}, indent=2) + "\n"


def load_plan(path: Path) -> dict[Place, tuple[int, ...]]:
    """Read the targets of a plan file. Raises UsageError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as trouble:
        raise UsageError(f"{path}: {trouble.strerror or trouble}") from trouble
    except (ValueError, RecursionError) as trouble:
        raise UsageError(f"{path}: not JSON: {trouble}", remedy=_FORMAT) from trouble
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise UsageError(f"{path}: partitions: a list is missing", remedy=_FORMAT)
    if document.get("version", 1) != 1:
        raise UsageError(f"{path}: version: {document['version']!r} is not known", remedy="the format has version 1")
    targets: dict[Place, tuple[int, ...]] = {}
    for number, row in enumerate(document["partitions"]):
        place, replicas = _row(f"{path}: partitions[{number}]", row)
        if place in targets:
            raise UsageError(f"{path}: partitions[{number}]: {place[0]}-{place[1]} is given twice")
        targets[place] = replicas
    if not targets:
        raise UsageError(f"{path}: partitions: the list is empty, there is nothing to do")
    return targets


_FORMAT = 'a plan is {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}'


def _row(where: str, row: Any) -> tuple[Place, tuple[int, ...]]:
    if not isinstance(row, dict):
        raise UsageError(f"{where}: {row!r} is not an object", remedy=_FORMAT)
    topic, partition, replicas = row.get("topic"), row.get("partition"), row.get("replicas")
    if not isinstance(topic, str) or not topic:
        raise UsageError(f"{where}.topic: {topic!r} is not the name of a topic", remedy=_FORMAT)
    if not isinstance(partition, int) or not _is_number(partition):
        raise UsageError(f"{where}.partition: {partition!r} is not a number of 0 or more", remedy=_FORMAT)
    if not isinstance(replicas, list) or not replicas or not all(_is_number(one) for one in replicas):
        raise UsageError(f"{where}.replicas: {replicas!r} is not a list of broker ids", remedy=_FORMAT)
    if len(set(replicas)) < len(replicas):
        raise UsageError(f"{where}.replicas: {replicas} names a broker twice", remedy="name each broker once")
    directories = row.get("log_dirs")
    if directories is not None and any(one != "any" for one in directories):
        said = f"{where}.log_dirs: {directories!r} asks for directories, which are not chosen here"
        raise UsageError(said, remedy='leave log_dirs out, or give "any" for each replica')
    return (topic, partition), tuple(replicas)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
