"""Encode and decode partition and change records directly, without messages in between.

Two million topic-partitions have only a few thousand distinct assignments. So almost every value of a PartitionRecord
differs from an earlier value only in the partition, the topic id and three numbers, and almost every value of a
PartitionChangeRecord only in partition and topic id. The bytes around those are computed once, by the codecs of
`records`, and looked up from then on:

    PartitionRecord         head | partition | topic id | LISTS | leader, leader epoch, partition epoch | REST
    PartitionChangeRecord   head | partition | topic id | TAGS

`PartitionEncoder` writes registrations that way, for a snapshot, and `change_value` a controller's decision for many
topic-partitions with equal state. `PartitionTables` reads values that way, as many consecutive ones of one topic as
there are, when a snapshot is loaded or the log is replayed; it also interns an image's tuples. The codecs decide where
a value ends: bytes that were never decoded before are passed to them, so nothing malformed is accepted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import NamedTuple, NewType, cast

from squall.nodes.metadata.hot_records import CHANGE_HEAD, LONGEST, PARTITION_HEAD, TOPIC_ID
from squall.nodes.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    decode_record,
    encode_record,
)
from squall.nodes.metadata.topic import IsrChange, PartitionRegistration, RareFields
from squall.nodes.protocol.compiler import uvarint

LISTS_AT = 23
NUMBERS_SIZE = 12
KNOWN_AT_MOST = 200_000
"""Assignments to remember; beyond that, all are forgotten and collected again."""
_HEAD = Struct(">3si16s")
_INT32 = Struct(">i")
_NUMBERS = Struct(">iii")


class Lists(NamedTuple):
    """The fields of a PartitionRecord except partition, topic id and the three numbers."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    rare: RareFields


class PartitionEncoder:
    """Encodes registrations as values of PartitionRecords, exactly as `encode_record` does."""

    def __init__(self) -> None:
        self._known: dict[Lists, tuple[bytes, bytes]] = {}

    def value(self, topic_id: bytes, number: int, registration: PartitionRegistration) -> bytes:
        key = Lists(registration.replicas, registration.isr, registration.rare)
        around = self._known.get(key)
        if around is None:
            around = self._known[key] = _around(topic_id, registration)
        lists, rest = around
        numbers = _NUMBERS.pack(registration.leader, registration.leader_epoch, registration.partition_epoch)
        return b"".join((_HEAD.pack(PARTITION_HEAD, number, topic_id), lists, numbers, rest))


def partition_record(topic_id: bytes, number: int, registration: PartitionRegistration) -> PartitionRecord:
    """The record of one topic-partition's current state."""
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
    """The bytes before and after the three numbers."""
    value = encode_record(partition_record(topic_id, 0, registration))
    at = LISTS_AT
    for numbers in (registration.replicas, registration.isr, registration.removing, registration.adding):
        at += len(uvarint(len(numbers) + 1)) + 4 * len(numbers)
    return value[LISTS_AT:at], value[at + NUMBERS_SIZE :]


ChangeForm = NewType("ChangeForm", bytes)
"""A PartitionChangeRecord's value without partition and topic id."""


def change_form(record: PartitionChangeRecord) -> ChangeForm:
    """The form of a record, which other topic-partitions' records may share."""
    return ChangeForm(encode_record(record)[LISTS_AT:])


def change_value(form: ChangeForm, topic_id: bytes, number: int) -> bytes:
    """The value of a record of this form for one topic-partition, exactly as `encode_record` writes it."""
    return _HEAD.pack(CHANGE_HEAD, number, topic_id) + form


class PartitionTables:
    """Shared by images that began as clones of one another: interned tuples and known values."""

    def __init__(self) -> None:
        self._tuples: dict[tuple[int, ...], tuple[int, ...]] = {(): ()}
        self._seldom: dict[RareFields, RareFields] = {}
        self._changed: dict[tuple[object, ...], RareFields] = {}
        self._numbers: dict[int, int] = {}
        self._lists: dict[bytes, tuple[Lists, int]] = {}
        """By the bytes around the three numbers: the decoded lists, and where the four lists end."""
        self._changes: dict[bytes, IsrChange] = {}

    def interned(self, numbers: list[int]) -> tuple[int, ...]:
        key = tuple(numbers)
        return self._tuples.setdefault(key, key)

    def rare(self, rare: RareFields) -> RareFields:
        return self._seldom.setdefault(rare, rare)

    def changed(
        self, rare: RareFields, elr: tuple[int, ...] | None, last_known_elr: tuple[int, ...] | None
    ) -> RareFields:
        """The same with another ELR, other last known members, or both; None keeps the old ones."""
        key = (rare, elr, last_known_elr)
        after = self._changed.get(key)
        if after is None:
            if len(self._changed) >= KNOWN_AT_MOST:
                self._changed.clear()
            after = rare._replace(
                elr=rare.elr if elr is None else elr,
                last_known_elr=rare.last_known_elr if last_known_elr is None else last_known_elr,
            )
            self._changed[key] = after = self.rare(after)
        return after

    def number(self, number: int) -> int:
        """A partition's number as one object, which millions of topic-partitions share."""
        return self._numbers.setdefault(number, number)

    def lists(self, record: PartitionRecord) -> Lists:
        rare = RareFields(
            tuple(record.removing_replicas),
            tuple(record.adding_replicas),
            record.leader_recovery_state,
            tuple(record.directories),
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
        )
        return Lists(self.interned(record.replicas), self.interned(record.isr), self.rare(rare))

    def partitions(self, values: Sequence[bytes], at: int) -> tuple[bytes, list[tuple[int, PartitionRegistration]]]:
        """Decode PartitionRecord values of one topic from `at` on: topic id, and (partition, registration) pairs.

        Stops at another topic or at a new form, which only the first value may have. Empty if the first must be
        decoded. Raises ProtocolError if that is impossible.
        """
        found: list[tuple[int, PartitionRegistration]] = []
        topic_id, known, numbers = values[at][TOPIC_ID], self._lists, self._numbers
        end, read = LISTS_AT, _place_and_numbers(LISTS_AT).unpack_from
        for position in range(at, len(values)):
            value = values[position]
            if value[TOPIC_ID] != topic_id or not value.startswith(PARTITION_HEAD):
                break
            # Many values end their lists where the one before did. Lists contain their own lengths: if these bytes are
            # known to end there, they do.
            lists_to = known.get(value[LISTS_AT:end] + value[end + NUMBERS_SIZE :])
            if lists_to is None or lists_to[1] != end:
                end = _end_of_lists(value)
                lists_to = known.get(value[LISTS_AT:end] + value[end + NUMBERS_SIZE :]) if end else None
                if lists_to is None:
                    if found or not end:
                        break
                    lists_to = self._learnt(value, end)
                read = _place_and_numbers(end).unpack_from
            number, leader, leader_epoch, partition_epoch = read(value)
            replicas, isr, rare = lists_to[0]
            registration = PartitionRegistration(replicas, isr, leader, leader_epoch, partition_epoch, rare)
            found.append((numbers.setdefault(number, number), registration))
        return topic_id, found

    def _learnt(self, value: bytes, end: int) -> tuple[Lists, int]:
        """Decode and remember the lists around the numbers at `end`. Raises ProtocolError."""
        lists = self.lists(cast(PartitionRecord, decode_record(value)))
        if len(self._lists) >= KNOWN_AT_MOST:
            self._lists.clear()
        found = self._lists[value[LISTS_AT:end] + value[end + NUMBERS_SIZE :]] = lists, end
        return found

    def changes(self, values: Sequence[bytes], at: int) -> tuple[bytes, list[tuple[int, IsrChange]]]:
        """The same for PartitionChangeRecord values that change nothing but the fields of an `IsrChange`."""
        found: list[tuple[int, IsrChange]] = []
        topic_id, known, numbers = values[at][TOPIC_ID], self._changes, self._numbers
        for position in range(at, len(values)):
            value = values[position]
            if value[TOPIC_ID] != topic_id or not value.startswith(CHANGE_HEAD):
                break
            change = known.get(value[LISTS_AT:])
            if change is None:
                change = None if found else self._change_of(value)
                if change is None:
                    break
            number = _INT32.unpack_from(value, 3)[0]
            found.append((numbers.setdefault(number, number), change))
        return topic_id, found

    def _change_of(self, value: bytes) -> IsrChange | None:
        """Decode and remember the change of a value; None if it has more than the fields of an `IsrChange`.

        Raises ProtocolError.
        """
        record = cast(PartitionChangeRecord, decode_record(value))
        if not _is_usual(record):
            return None
        if len(self._changes) >= KNOWN_AT_MOST:
            self._changes.clear()
        elr, last_known_elr = record.eligible_leader_replicas, record.last_known_elr
        found = IsrChange(
            None if record.isr is None else self.interned(record.isr),
            record.leader,
            None if elr is None else tuple(elr),
            None if last_known_elr is None else tuple(last_known_elr),
        )
        self._changes[value[LISTS_AT:]] = found
        return found


@cache
def _place_and_numbers(end: int) -> Struct:
    """Reads partition, leader and the two epochs from a value whose lists end at `end`."""
    return Struct(f">3xi{end - 7}xiii")


def _end_of_lists(value: bytes) -> int:
    """Where the four length-prefixed lists end; 0 if that requires the codec."""
    try:
        at = LISTS_AT
        for _ in range(4):
            size = value[at]
            if not 0 < size <= LONGEST + 1:
                return 0
            at += 4 * size - 3
    except IndexError:
        return 0
    return at


def _is_usual(record: PartitionChangeRecord) -> bool:
    """Whether the record changes nothing but the fields of an `IsrChange`."""
    others = (record.replicas, record.removing_replicas, record.adding_replicas, record.directories)
    return record.leader_recovery_state < 0 and all(one is None for one in others)
