"""What the rules about index files share: the form of their entries, and which hosts can be judged by them."""

from __future__ import annotations

import struct

from squall.harness.simulation.world.disk import SimDisk

LOG = ".log"
OFFSET_ENTRY, TIME_ENTRY = struct.Struct(">II"), struct.Struct(">qI")
"""Offset after the segment's first one, and position; timestamp, and offset after the segment's first one."""


def entries(form: struct.Struct, content: bytes | None) -> list[tuple[int, int]]:
    """Return the whole entries of an index file."""
    whole = (content or b"")[: len(content or b"") // form.size * form.size]
    return [(int(first), int(second)) for first, second in form.iter_unpack(whole)]


def has_kept_all(disk: SimDisk) -> bool:
    """Return whether a disk has lost nothing, failed at nothing and kept every promise: nobody syncs index files."""
    return not disk.bytes_lost and not disk.errors and disk.keeps_promises
