"""A topic and its partitions as an image holds them, made for millions.

A registration is a plain object with slots, 80 bytes; its tuples are interned by the image, so a million
topic-partitions share a few hundred, and so is the part that hardly ever differs (`Seldom`). It is replaced and never
changed in place: whoever keeps one keeps what was true. (It is not declared frozen because frozen dataclasses take five
times as long to make, and a leaving broker makes hundreds of thousands.)

Beside the registrations a topic keeps an index of what concerns one broker, so that a broker's coming or going costs
what it has, not what the cluster has: `of_broker` gives the partitions with a replica there, `leaderless` those that
wait for a leader. `put`, `put_all` and `change_all` keep the index right, and everything goes through them.

Two images may hold the same topic (see `MetadataImage.clone`). Whoever is to change it takes a `copy` first, which
costs a dict of references; the index is shared further, until replicas themselves change.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from squall.nodes.metadata.records import NO_LEADER, NO_LEADER_CHANGE
from squall.nodes.protocol.topic_partition import format_id


class Seldom(NamedTuple):
    """What is the same for almost every topic-partition of a cluster, so that all of them share one."""

    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    recovery_state: int = 0
    directories: tuple[bytes, ...] = ()
    elr: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966): out of the ISR, yet known to have all that is committed."""
    last_known_elr: tuple[int, ...] = ()
    """Once nobody is in the ISR: who led last, first; then those that lost their eligibility by an unclean restart."""


USUAL = Seldom()
Members = tuple[int, ...] | None
ChangedSeldom = Callable[[Seldom, Members, Members], Seldom]
"""The same with another ELR, other last known members, or both."""


@dataclass(slots=True)
class PartitionRegistration:
    """One topic-partition as the controller has decided it. `leader` is -1 where there is none."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    seldom: Seldom = USUAL

    @property
    def removing(self) -> tuple[int, ...]:
        return self.seldom.removing

    @property
    def adding(self) -> tuple[int, ...]:
        return self.seldom.adding

    @property
    def recovery_state(self) -> int:
        return self.seldom.recovery_state

    @property
    def directories(self) -> tuple[bytes, ...]:
        return self.seldom.directories

    @property
    def elr(self) -> tuple[int, ...]:
        return self.seldom.elr

    @property
    def last_known_elr(self) -> tuple[int, ...]:
        return self.seldom.last_known_elr


class IsrChange(NamedTuple):
    """What a usual PartitionChangeRecord says beside its place. None, NO_LEADER_CHANGE: that stays as it is."""

    isr: tuple[int, ...] | None
    leader: int
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(slots=True)
class Topic:
    """A topic and its partitions by number; `partitions` is to be read; it is written by `put` and its like."""

    name: str
    id: bytes
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)
    _hosted: dict[int, array[int]] = field(default_factory=dict, compare=False, repr=False)
    _shares_index: bool = field(default=False, compare=False, repr=False)
    _leaderless: dict[int, None] = field(default_factory=dict, compare=False, repr=False)
    _digest: bytes | None = field(default=None, compare=False, repr=False)

    def put(self, number: int, registration: PartitionRegistration) -> None:
        """Set a partition, a new one or one that is there."""
        self.put_all(((number, registration),))

    def put_all(self, registrations: Iterable[tuple[int, PartitionRegistration]]) -> None:
        """`put` each of them."""
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

    def change_all(self, changes: Iterable[tuple[int, IsrChange]], changed: ChangedSeldom) -> None:
        """Apply each of these changes (rule 23); `changed` gives what a `Seldom` is with another ELR.

        Raises KeyError with the first partition that is not there.
        """
        partitions, leaderless = self.partitions, self._leaderless
        self._digest = None
        for number, (isr, leader, elr, last_known_elr) in changes:
            old = partitions[number]
            seldom = old.seldom
            if elr is not None or last_known_elr is not None:
                seldom = changed(seldom, elr, last_known_elr)
            if isr is None:
                isr = old.isr
            if leader == NO_LEADER_CHANGE:
                leader, leader_epoch = old.leader, old.leader_epoch
            else:
                leader_epoch = old.leader_epoch + 1
            partitions[number] = PartitionRegistration(
                old.replicas, isr, leader, leader_epoch, old.partition_epoch + 1, seldom
            )
            if leader == NO_LEADER:
                leaderless[number] = None
            elif leaderless:
                leaderless.pop(number, None)

    def of_broker(self, broker: int) -> tuple[int, ...]:
        """The partitions that have a replica on this broker."""
        return tuple(self._hosted.get(broker, ()))

    def leaderless(self) -> tuple[int, ...]:
        """The partitions that nobody leads."""
        return tuple(self._leaderless)

    def copy(self) -> Topic:
        """The same topic, to be changed on its own. Registrations are shared for good, the index until it changes."""
        self._shares_index = True
        return Topic(
            self.name, self.id, dict(self.partitions), self._hosted, True, dict(self._leaderless), self._digest
        )

    def digest(self) -> bytes:
        """Equal for equal content, whatever the order in which it came to be; worked out once for each content."""
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
