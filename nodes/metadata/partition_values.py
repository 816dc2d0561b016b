"""Values of partition and change records, and registrations, without messages in between.

Two million topic-partitions lie on brokers in a few thousand ways. So almost every value of a PartitionRecord differs
from some value before it in nothing but the partition, the topic id and three numbers, and almost every value of a
PartitionChangeRecord in nothing but partition and topic id. What is around those is worked out once, by the codecs of
`records`, and looked up from then on:

    PartitionRecord         head | partition | topic id | LISTS | leader, leader epoch, partition epoch | REST
    PartitionChangeRecord   head | partition | topic id | TAGS

`PartitionEncoder` writes registrations that way, for a snapshot, and `change_value` what a controller decides for many
topic-partitions that lie alike. `PartitionTables` reads values that way, as many of one topic in a row as there are,
when a snapshot is loaded or the log is replayed; it is also where an image's tuples are interned. Where a value ends is
decided by the codecs: bytes that were never decoded before are handed to them, so nothing malformed is accepted here.
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
from squall.nodes.metadata.topic import IsrChange, PartitionRegistration, Seldom
from squall.nodes.protocol.compiler import uvarint

LISTS_AT = 23
NUMBERS_SIZE = 12
KNOWN_AT_MOST = 200_000
"""Ways to lie on brokers that are remembered; then all are forgotten, and learned again."""
_HEAD = Struct(">3si16s")
_INT32 = Struct(">i")
_NUMBERS = Struct(">iii")


class Lists(NamedTuple):
    """What a PartitionRecord says beside its place and its three numbers."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    seldom: Seldom


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
        self._changed: dict[tuple[object, ...], Seldom] = {}
        self._numbers: dict[int, int] = {}
        self._lists: dict[bytes, tuple[Lists, int]] = {}
        """By what stands around the three numbers: what it says, and where its four lists end."""
        self._changes: dict[bytes, IsrChange] = {}

    def interned(self, numbers: list[int]) -> tuple[int, ...]:
        key = tuple(numbers)
        return self._tuples.setdefault(key, key)

    def seldom(self, seldom: Seldom) -> Seldom:
        return self._seldom.setdefault(seldom, seldom)

    def changed(self, seldom: Seldom, elr: tuple[int, ...] | None, last_known_elr: tuple[int, ...] | None) -> Seldom:
        """The same with another ELR, other last known members, or both; None is no other."""
        key = (seldom, elr, last_known_elr)
        after = self._changed.get(key)
        if after is None:
            if len(self._changed) >= KNOWN_AT_MOST:
                self._changed.clear()
            after = seldom._replace(
                elr=seldom.elr if elr is None else elr,
                last_known_elr=seldom.last_known_elr if last_known_elr is None else last_known_elr,
            )
            self._changed[key] = after = self.seldom(after)
        return after

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

    def partitions(self, values: Sequence[bytes], at: int) -> tuple[bytes, list[tuple[int, PartitionRegistration]]]:
        """Topic id, and partition and registration of each PartitionRecord's value from `at` on, as long as they are
        of one topic and not of a new form, which only the first may have. Empty if the first must be decoded.

        Raises ProtocolError if that cannot be.
        """
        found: list[tuple[int, PartitionRegistration]] = []
        topic_id, known, numbers = values[at][TOPIC_ID], self._lists, self._numbers
        end, read = LISTS_AT, _place_and_numbers(LISTS_AT).unpack_from
        for position in range(at, len(values)):
            value = values[position]
            if value[TOPIC_ID] != topic_id or not value.startswith(PARTITION_HEAD):
                break
            # Many end their lists where the one before did. Lists tell their own lengths: if these are known to end
            # there, they do.
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
            replicas, isr, seldom = lists_to[0]
            registration = PartitionRegistration(replicas, isr, leader, leader_epoch, partition_epoch, seldom)
            found.append((numbers.setdefault(number, number), registration))
        return topic_id, found

    def _learnt(self, value: bytes, end: int) -> tuple[Lists, int]:
        """What the value says around the numbers at `end`; it is known from then on. Raises ProtocolError."""
        lists = self.lists(cast(PartitionRecord, decode_record(value)))
        if len(self._lists) >= KNOWN_AT_MOST:
            self._lists.clear()
        found = self._lists[value[LISTS_AT:end] + value[end + NUMBERS_SIZE :]] = lists, end
        return found

    def changes(self, values: Sequence[bytes], at: int) -> tuple[bytes, list[tuple[int, IsrChange]]]:
        """The same for values of PartitionChangeRecords that change what an `IsrChange` tells, and no more."""
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
        """What the value changes, which is known from then on; None if that is more than an `IsrChange` tells.

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
    """Partition, leader and the two epochs, of a value whose lists end there; nothing else is looked at."""
    return Struct(f">3xi{end - 7}xiii")


def _end_of_lists(value: bytes) -> int:
    """Where the four lists end that tell their own lengths; 0 if that is not to be seen at once."""
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
    """Whether it says no more than an `IsrChange` tells."""
    others = (record.replicas, record.removing_replicas, record.adding_replicas, record.directories)
    return record.leader_recovery_state < 0 and all(one is None for one in others)
