"""Hand-written codecs for the two most frequent records: PartitionRecord and PartitionChangeRecord.

A broker that leaves a large cluster costs hundreds of thousands of change records, and loading a large cluster costs a
PartitionRecord for every topic-partition. These functions read and write exactly what the compiled codecs do, several
times faster, for the common form only: bytes in the newest version, lists of at most 30, no nulls and only the usual
tags. For anything else, malformed bytes included, they return None, and the compiled codec is used. So they decide
nothing: they raise no error and accept no form that the compiled codec would refuse.

Positions in a value: frame, id and version take a byte each, then partition (4) and topic id (16).
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squall.nodes.metadata.records import PartitionChangeRecord, PartitionRecord

PARTITION_HEAD = b"\x01\x03\x02"
CHANGE_HEAD = b"\x01\x05\x02"
"""Frame version, record id and record version of the supported forms."""
PLACED = (PARTITION_HEAD, CHANGE_HEAD)
TOPIC_ID = slice(7, 23)
"""Position of the topic id in values with these heads."""
LONGEST = 30
"""Longer lists would need sizes of more than one byte."""

_PLACE = Struct(">3si16s")
_PLACE_AND_TAGS = Struct(">i16sB")
_PLACE_ALONE = Struct(">i16s")
_LEADER = Struct(">iii")
_TAGGED_LEADER = Struct(">BBi")
_INT32 = Struct(">i")
_LISTS = tuple(Struct(f">B{length}i") for length in range(LONGEST + 1))
"""By length: the length plus one in a byte, then the numbers."""
_TAGGED_LISTS = tuple(Struct(f">BBB{length}i") for length in range(LONGEST + 1))
"""The same after tag and size."""
_NUMBERS = (None, *(Struct(f">{length}i") for length in range(LONGEST + 1)))
"""By the length byte, which is 0 for null."""
_ISR, _LEADER_TAG, _REPLICAS, _REMOVING, _ADDING, _ELR, _LAST_KNOWN_ELR = 0, 1, 2, 3, 4, 6, 7
_NO_LEADER_CHANGE = -2
_TROUBLE = (error, IndexError, AttributeError, TypeError)


# -- change records --------------------------------------------------------------------------------------------------


def encode_change(record: PartitionChangeRecord) -> bytes | None:
    """Return the whole value."""
    if record.directories is not None or record.leader_recovery_state != -1:
        return None
    try:
        tags, body = 0, b""
        if record.isr is not None:
            tags, body = 1, _tagged(_ISR, record.isr)
        if record.leader != _NO_LEADER_CHANGE:
            tags, body = tags + 1, body + _TAGGED_LEADER.pack(_LEADER_TAG, 4, record.leader)
        for tag, numbers in (
            (_REPLICAS, record.replicas),
            (_REMOVING, record.removing_replicas),
            (_ADDING, record.adding_replicas),
            (_ELR, record.eligible_leader_replicas),
            (_LAST_KNOWN_ELR, record.last_known_elr),
        ):
            if numbers is not None:
                tags, body = tags + 1, body + _tagged(tag, numbers)
        return b"%b%c%b" % (_PLACE.pack(CHANGE_HEAD, record.partition_id, record.topic_id), tags, body)
    except _TROUBLE:
        return None


def _tagged(tag: int, numbers: list[int]) -> bytes:
    length = len(numbers)
    return _TAGGED_LISTS[length].pack(tag, 4 * length + 1, length + 1, *numbers)


def decode_change(value: bytes) -> tuple[Any, ...] | None:
    """Return the fields in order, from a value that begins with `CHANGE_HEAD`."""
    try:
        partition, topic_id, tags = _PLACE_AND_TAGS.unpack_from(value, 3)
        position = 24
        leader = _NO_LEADER_CHANGE
        lists: list[list[int] | None] = [None] * 8
        for _ in range(tags):
            tag, size = value[position], value[position + 1]
            if tag == _LEADER_TAG:
                if size != 4:
                    return None
                (leader,) = _INT32.unpack_from(value, position + 2)
            else:
                numbers = _NUMBERS[value[position + 2]]
                if tag > 7 or tag == 5 or size != numbers.size + 1:  # type: ignore[union-attr]
                    return None
                lists[tag] = [*numbers.unpack_from(value, position + 3)]  # type: ignore[union-attr]
            position += 2 + size
    except _TROUBLE:
        return None
    if position != len(value):
        return None
    isr, _, replicas, removing, adding, _, elr, last_known_elr = lists
    return partition, topic_id, isr, leader, replicas, removing, adding, -1, elr, last_known_elr, None


# -- partition records -----------------------------------------------------------------------------------------------


def encode_partition(record: PartitionRecord) -> bytes | None:
    """Return the whole value."""
    directories = record.directories
    if (
        record.leader_recovery_state != 0
        or record.eligible_leader_replicas is not None
        or record.last_known_elr is not None
        or len(directories) > LONGEST
    ):
        return None
    for directory in directories:
        if len(directory) != 16:
            return None
    try:
        return b"".join(
            (
                _PLACE.pack(PARTITION_HEAD, record.partition_id, record.topic_id),
                _listed(record.replicas),
                _listed(record.isr),
                _listed(record.removing_replicas),
                _listed(record.adding_replicas),
                _LEADER.pack(record.leader, record.leader_epoch, record.partition_epoch),
                b"%c" % (len(directories) + 1),
                *directories,
                b"\x00",
            )
        )
    except _TROUBLE:
        return None


def _listed(numbers: list[int]) -> bytes:
    length = len(numbers)
    return _LISTS[length].pack(length + 1, *numbers)


def decode_partition(value: bytes) -> tuple[Any, ...] | None:
    """Return the fields in order, from a value that begins with `PARTITION_HEAD`."""
    try:
        partition, topic_id = _PLACE_ALONE.unpack_from(value, 3)
        position = 23
        lists = []
        for _ in range(4):
            numbers = _NUMBERS[value[position]]
            lists.append([*numbers.unpack_from(value, position + 1)])  # type: ignore[union-attr]
            position += 1 + numbers.size  # type: ignore[union-attr]
        leader, leader_epoch, partition_epoch = _LEADER.unpack_from(value, position)
        count = value[position + 12] - 1
        position += 13
        end = position + 16 * count
        if not 0 <= count <= LONGEST or value[end] != 0 or end + 1 != len(value):
            return None
        directories = [value[at : at + 16] for at in range(position, end, 16)]
    except _TROUBLE:
        return None
    replicas, isr, removing, adding = lists
    return (
        partition, topic_id, replicas, isr, removing, adding, leader, 0,
        leader_epoch, partition_epoch, directories, None, None,
    )  # fmt: skip
