"""Values of partition and change records, and registrations, without messages in between.

Two million topic-partitions lie on brokers in a few thousand ways. So almost every value of a PartitionRecord differs
from some value before it in nothing but the partition, the topic id and three numbers, and almost every value of a
PartitionChangeRecord in nothing but partition and topic id. What is around those is worked out once, by the codecs of
`records`, and looked up from then on:

    PartitionRecord         head | partition | topic id | LISTS | leader, leader epoch, partition epoch | REST
    PartitionChangeRecord   head | partition | topic id | TAGS

`PartitionEncoder` writes registrations that way, for a snapshot, and `change_value` what a controller decides for many
topic-partitions that lie alike. `PartitionTables` reads values that way, when a
snapshot is loaded or the log is replayed; it is also where an image's tuples are interned. Where a value ends is
decided by the codecs: bytes that were never decoded before are handed to them, so nothing malformed is accepted here.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, NewType, cast

from squall.nodes.metadata.hot_records import CHANGE_HEAD, LONGEST, PARTITION_HEAD
from squall.nodes.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    decode_record,
    encode_record,
)
from squall.nodes.metadata.topic import PartitionRegistration, Seldom
from squall.nodes.protocol.compiler import uvarint

LISTS_AT = 23
NUMBERS_SIZE = 12
KNOWN_AT_MOST = 200_000
"""Ways to lie on brokers that are remembered; then all are forgotten, and learned again."""
_HEAD = Struct(">3si16s")
_PLACE = Struct(">i16s")
_NUMBERS = Struct(">iii")


class Lists(NamedTuple):
    """What a PartitionRecord says beside its place and its three numbers."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    seldom: Seldom


class IsrChange(NamedTuple):
    """What a usual PartitionChangeRecord says beside its place. None, NO_LEADER_CHANGE: that stays as it is."""

    isr: tuple[int, ...] | None
    leader: int


class PartitionEncoder:
    """Registrations as values of PartitionRecords, exactly as `encode_record` writes them."""

    def __init__(self) -> None:
        self._known: dict[Lists, tuple[bytes, bytes]] = {}

    def value(self, topic_id: bytes, number: int, registration: PartitionRegistration) -> bytes:
        key = Lists(registration.replicas, registration.isr, registration.seldom)
        around = self._known.get(key)
        if around is None:
            around = self._known[key] = _around(topic_id, registration)
        lists, rest = around
        numbers = _NUMBERS.pack(registration.leader, registration.leader_epoch, registration.partition_epoch)
        return b"".join((_HEAD.pack(PARTITION_HEAD, number, topic_id), lists, numbers, rest))


def partition_record(topic_id: bytes, number: int, registration: PartitionRegistration) -> PartitionRecord:
    """One topic-partition as it is now."""
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(registration.replicas),
        isr=list(registration.isr),
        removing_replicas=list(registration.removing),
        adding_replicas=list(registration.adding),
        leader=registration.leader,
        leader_recovery_state=registration.recovery_state,
        leader_epoch=registration.leader_epoch,
        partition_epoch=registration.partition_epoch,
        directories=list(registration.directories),
        eligible_leader_replicas=list(registration.elr) or None,
        last_known_elr=list(registration.last_known_elr) or None,
    )


def _around(topic_id: bytes, registration: PartitionRegistration) -> tuple[bytes, bytes]:
    """What stands before and behind the three numbers."""
    value = encode_record(partition_record(topic_id, 0, registration))
    at = LISTS_AT
    for numbers in (registration.replicas, registration.isr, registration.removing, registration.adding):
        at += len(uvarint(len(numbers) + 1)) + 4 * len(numbers)
    return value[LISTS_AT:at], value[at + NUMBERS_SIZE :]


ChangeForm = NewType("ChangeForm", bytes)
"""What a PartitionChangeRecord's value says beside its place."""


def change_form(record: PartitionChangeRecord) -> ChangeForm:
    """The form of a record, of which others may differ in nothing but their places."""
    return ChangeForm(encode_record(record)[LISTS_AT:])


def change_value(form: ChangeForm, topic_id: bytes, number: int) -> bytes:
    """The value of the record of this form at this place, exactly as `encode_record` writes it."""
    return _HEAD.pack(CHANGE_HEAD, number, topic_id) + form


class PartitionTables:
    """What images that began as clones of one another have in common: every tuple once, and known values."""

    def __init__(self) -> None:
        self._tuples: dict[tuple[int, ...], tuple[int, ...]] = {(): ()}
        self._seldom: dict[Seldom, Seldom] = {}
        self._numbers: dict[int, int] = {}
        self._lists: dict[bytes, Lists] = {}
        self._changes: dict[bytes, IsrChange] = {}

    def interned(self, numbers: list[int]) -> tuple[int, ...]:
        key = tuple(numbers)
        return self._tuples.setdefault(key, key)

    def seldom(self, seldom: Seldom) -> Seldom:
        return self._seldom.setdefault(seldom, seldom)

    def number(self, number: int) -> int:
        """A partition's number as one object, of which millions of topic-partitions need a few."""
        return self._numbers.setdefault(number, number)

    def lists(self, record: PartitionRecord) -> Lists:
        seldom = Seldom(
            tuple(record.removing_replicas),
            tuple(record.adding_replicas),
            record.leader_recovery_state,
            tuple(record.directories),
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
        )
        return Lists(self.interned(record.replicas), self.interned(record.isr), self.seldom(seldom))

    def read_partition(self, value: bytes) -> tuple[bytes, int, PartitionRegistration] | None:
        """Topic id, partition and registration of a PartitionRecord's value; None if it must be decoded.

        Raises ProtocolError if that cannot be.
        """
        try:
            at = LISTS_AT
            for _ in range(4):
                size = value[at]
                if not 0 < size <= LONGEST + 1:
                    return None
                at += 4 * size - 3
        except IndexError:
            return None
        around = value[LISTS_AT:at] + value[at + NUMBERS_SIZE :]  # the four lists tell where they end
        found = self._lists.get(around)
        if found is None:
            if len(self._lists) >= KNOWN_AT_MOST:
                self._lists.clear()
            found = self._lists[around] = self.lists(cast(PartitionRecord, decode_record(value)))
        number, topic_id = _PLACE.unpack_from(value, 3)
        replicas, isr, seldom = found
        leader, leader_epoch, partition_epoch = _NUMBERS.unpack_from(value, at)
        return topic_id, number, PartitionRegistration(replicas, isr, leader, leader_epoch, partition_epoch, seldom)

    def read_change(self, value: bytes) -> tuple[bytes, int, IsrChange] | None:
        """Topic id, partition and change of a PartitionChangeRecord's value that changes ISR and leader at most."""
        tags = value[LISTS_AT:]
        found = self._changes.get(tags)
        if found is None:
            record = cast(PartitionChangeRecord, decode_record(value))
            isr = None if record.isr is None else self.interned(record.isr)
            found = IsrChange(isr, record.leader)
            if not _is_usual(record):
                return None
            if len(self._changes) >= KNOWN_AT_MOST:
                self._changes.clear()
            self._changes[tags] = found
        number, topic_id = _PLACE.unpack_from(value, 3)
        return topic_id, number, found


def _is_usual(record: PartitionChangeRecord) -> bool:
    """Whether it says nothing but ISR and leader."""
    place = (record.partition_id, record.topic_id)
    return record == PartitionChangeRecord(*place, isr=record.isr, leader=record.leader)
