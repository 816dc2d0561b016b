"""A topic and its partitions in an image, compact enough for millions.

A registration is a plain object with slots, 80 bytes; its tuples are interned by the image, so a million
topic-partitions share a few hundred, and so is the part that hardly ever differs (`RareFields`). It is replaced and
never changed in place: a reference to one keeps the old state. (It is not declared frozen because frozen dataclasses
take five times as long to make, and a leaving broker makes hundreds of thousands.)

A topic also indexes its partitions by broker, so that a broker's joining or leaving costs in proportion to its own
partitions, not the cluster's: `of_broker` returns the partitions with a replica there, `leaderless` those without a
leader. `put`, `put_all` and `change_all` maintain the index; all changes use them.

Two images may hold the same topic (see `MetadataImage.clone`). An image takes a `copy` before it changes one, which
costs a dict of references; the index stays shared until replicas themselves change.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from squall.nodes.metadata.records import NO_LEADER, NO_LEADER_CHANGE
from squall.nodes.protocol.topic_partition import format_id


class RareFields(NamedTuple):
    """Fields that are equal for almost every topic-partition of a cluster, so that all of them share one object."""

    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    recovery_state: int = 0
    directories: tuple[bytes, ...] = ()
    elr: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966): out of the ISR, yet known to have all committed records."""
    last_known_elr: tuple[int, ...] = ()
    """While the ISR is empty: first the last leader, then those that lost their eligibility by an unclean restart."""


USUAL = RareFields()
Members = tuple[int, ...] | None
ChangedRareFields = Callable[[RareFields, Members, Members], RareFields]
"""The same with another ELR, other last known members, or both."""


@dataclass(slots=True)
class PartitionRegistration:
    """The controller's decision on one topic-partition. `leader` is -1 if there is none."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    rare: RareFields = USUAL

    @property
    def removing(self) -> tuple[int, ...]:
        return self.rare.removing

    @property
    def adding(self) -> tuple[int, ...]:
        return self.rare.adding

    @property
    def recovery_state(self) -> int:
        return self.rare.recovery_state

    @property
    def directories(self) -> tuple[bytes, ...]:
        return self.rare.directories

    @property
    def elr(self) -> tuple[int, ...]:
        return self.rare.elr

    @property
    def last_known_elr(self) -> tuple[int, ...]:
        return self.rare.last_known_elr


class IsrChange(NamedTuple):
    """The fields of a usual PartitionChangeRecord. None and NO_LEADER_CHANGE leave the field unchanged."""

    isr: tuple[int, ...] | None
    leader: int
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(slots=True)
class Topic:
    """A topic and its partitions by number. Read `partitions` freely; write by `put`, `put_all` and `change_all`."""

    name: str
    id: bytes
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)
    _hosted: dict[int, array[int]] = field(default_factory=dict, compare=False, repr=False)
    _shares_index: bool = field(default=False, compare=False, repr=False)
    _leaderless: dict[int, None] = field(default_factory=dict, compare=False, repr=False)
    _digest: bytes | None = field(default=None, compare=False, repr=False)

    def put(self, number: int, registration: PartitionRegistration) -> None:
        """Set a new or an existing partition."""
        self.put_all(((number, registration),))

    def put_all(self, registrations: Iterable[tuple[int, PartitionRegistration]]) -> None:
        """Call `put` for each."""
        partitions, leaderless = self.partitions, self._leaderless
        self._digest = None
        for number, registration in registrations:
            old = partitions.get(number)
            partitions[number] = registration
            if old is None or old.replicas is not registration.replicas:
                self._move(number, () if old is None else old.replicas, registration.replicas)
            if registration.leader == NO_LEADER:
                leaderless[number] = None
            elif leaderless:
                leaderless.pop(number, None)

    def change_all(self, changes: Iterable[tuple[int, IsrChange]], changed: ChangedRareFields) -> None:
        """Apply each of these changes (rule 23); `changed` returns a `RareFields` with another ELR.

        Raises KeyError with the first unknown partition.
        """
        partitions, leaderless = self.partitions, self._leaderless
        self._digest = None
        for number, (isr, leader, elr, last_known_elr) in changes:
            old = partitions[number]
            rare = old.rare
            if elr is not None or last_known_elr is not None:
                rare = changed(rare, elr, last_known_elr)
            if isr is None:
                isr = old.isr
            if leader == NO_LEADER_CHANGE:
                leader, leader_epoch = old.leader, old.leader_epoch
            else:
                leader_epoch = old.leader_epoch + 1
            partitions[number] = PartitionRegistration(
                old.replicas, isr, leader, leader_epoch, old.partition_epoch + 1, rare
            )
            if leader == NO_LEADER:
                leaderless[number] = None
            elif leaderless:
                leaderless.pop(number, None)

    def of_broker(self, broker: int) -> tuple[int, ...]:
        """The partitions that have a replica on this broker."""
        return tuple(self._hosted.get(broker, ()))

    def leaderless(self) -> tuple[int, ...]:
        """The partitions without a leader."""
        return tuple(self._leaderless)

    def copy(self) -> Topic:
        """A copy to change independently. Registrations stay shared, the index until it changes."""
        self._shares_index = True
        return Topic(
            self.name, self.id, dict(self.partitions), self._hosted, True, dict(self._leaderless), self._digest
        )

    def digest(self) -> bytes:
        """Equal for equal content, regardless of the order of changes; computed once for each content."""
        if self._digest is None:
            digest = blake2b(f"{self.name} {format_id(self.id)}".encode(), digest_size=16)
            for number in sorted(self.partitions):
                digest.update(f"{number} {self.partitions[number]!r}".encode())
            self._digest = digest.digest()
        return self._digest

    def _move(self, number: int, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        if self._shares_index:
            self._hosted = {broker: numbers[:] for broker, numbers in self._hosted.items()}
            self._shares_index = False
        hosted = self._hosted
        for broker in before:
            if broker not in after:
                hosted[broker].remove(number)
        for broker in after:
            if broker not in before:
                try:
                    hosted[broker].append(number)
                except KeyError:
                    hosted[broker] = array("i", (number,))
