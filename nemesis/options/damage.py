"""Options of faults that damage, lose or rewind files of a node."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from squall.nemesis.core.durations import Duration
from squall.nemesis.core.rates import ByteSize
from squall.nemesis.options.base import FaultOptions, Target
from squall.nemesis.options.disk import FilePattern

MOST_BYTES = 1 << 20


def _some(size: int) -> int:
    if not 1 <= size <= MOST_BYTES:
        raise ValueError(f"must be from 1 byte to {MOST_BYTES >> 20}MiB")
    return size


Bytes = Annotated[ByteSize, AfterValidator(_some)]


class _Damage(FaultOptions):
    """`file` is a pattern below the log directory; the largest file whose name matches is damaged. `node: down` kills
    the node first and restarts it at the end. With `restore: false` the damage stays.
    """

    target: Target
    file: FilePattern = "*.log"
    node: Literal["running", "down"] = "running"
    restore: bool = True


class BitFlip(_Damage):
    """Damages a byte range in a file of the target's node: flips a bit of each byte, or writes zeros or noise."""

    fault: Literal["bit-flip"]
    bytes: Bytes = 1
    where: Literal["start", "middle", "end", "random"] = "random"
    become: Literal["flip", "zeros", "noise"] = "flip"


class TruncateFile(_Damage):
    """Cuts `bytes` bytes off the end of a file of the target's node."""

    fault: Literal["truncate-file"]
    bytes: Bytes = 512


class CopyChunk(_Damage):
    """Copies a byte range of a file of the target's node over another range of the same file."""

    fault: Literal["copy-chunk"]
    bytes: Bytes = 64
    where: Literal["start", "middle", "end", "random"] = "random"


class LoseFile(_Damage):
    """Deletes or renames a file of the target's node; a node that has the file open keeps using it."""

    fault: Literal["lose-file"]
    how: Literal["delete", "rename"] = "delete"


class FileCopyRestore(FaultOptions):
    """Copies the log directory of the target's node; `age` later, kills the node and restores that copy."""

    fault: Literal["file-copy-restore"]
    target: Target
    age: Duration = 2.0
