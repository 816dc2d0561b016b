"""Options of disk faults: disks that lose data, fail or delay."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from squall.nemesis.core.durations import Duration
from squall.nemesis.core.rates import ByteSize
from squall.nemesis.options.base import DiskCall, FaultOptions, Probability, Target


class PowerLoss(FaultOptions):
    """Kills the process and discards data that was not fsynced: all of it, a part (`torn`), or nothing (`none`)."""

    fault: Literal["power-loss"]
    target: Target
    mode: Literal["all", "torn", "none"] = "all"


class WipeDisk(FaultOptions):
    """Kills the process and empties its log directory; after `for` it starts with an empty disk."""

    fault: Literal["wipe-disk"]
    target: Target


def _below_the_log_directory(pattern: str) -> str:
    if not pattern or pattern.startswith("/"):
        raise ValueError("must be a pattern below the log directory, such as *.log or events-0/*")
    return pattern


FilePattern = Annotated[str, AfterValidator(_below_the_log_directory)]
ErrorName = Literal["EIO", "ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EMFILE", "ENFILE", "ENOMEM", "EFBIG"]
Fsync = Literal["fsync", "fsync-directory"]
LEAST_LOAD = 64 << 10
MOST_LOAD = 1 << 30


class DiskError(FaultOptions):
    """Fails the disk calls `calls` of the target's node with `errno`, each with `probability`."""

    fault: Literal["disk-error"]
    target: Target
    errno: ErrorName = "EIO"
    calls: tuple[DiskCall, ...] = Field(default=("write", "fsync"), min_length=1)
    path: FilePattern = "*"
    probability: Probability = 1.0


class DiskSlow(FaultOptions):
    """Delays each of the disk calls `calls` of the target's node by `latency`."""

    fault: Literal["disk-slow"]
    target: Target
    latency: Duration = 0.05
    calls: tuple[DiskCall, ...] = Field(default=("write", "fsync"), min_length=1)
    path: FilePattern = "*"


class DiskStall(FaultOptions):
    """Blocks the disk calls `calls` of the target's node until the fault ends."""

    fault: Literal["disk-stall"]
    target: Target
    calls: tuple[DiskCall, ...] = Field(default=("fsync",), min_length=1)
    path: FilePattern = "*"


class DiskFull(FaultOptions):
    """Fills the disk of the target's node, except for `leave` bytes."""

    fault: Literal["disk-full"]
    target: Target
    leave: ByteSize = 0


class ReadOnlyDisk(FaultOptions):
    """Fails every call that would change the log directory of the target's node with EROFS."""

    fault: Literal["read-only-disk"]
    target: Target


class LyingFsync(FaultOptions):
    """Makes fsyncs of the target's node return success without effect; a power loss then loses the data."""

    fault: Literal["lying-fsync"]
    target: Target
    calls: tuple[Fsync, ...] = Field(default=("fsync",), min_length=1)
    path: FilePattern = "*"


def _enough_to_write(size: int) -> int:
    if not LEAST_LOAD <= size <= MOST_LOAD:
        raise ValueError(f"must be from {LEAST_LOAD >> 10}KiB to {MOST_LOAD >> 30}GiB")
    return size


class DiskLoad(FaultOptions):
    """Has `writers` writers write and fsync a file of `size` on the disk of the target's node, as fast as they can."""

    fault: Literal["disk-load"]
    target: Target
    size: Annotated[ByteSize, AfterValidator(_enough_to_write)] = 64 << 20
    writers: int = Field(default=2, ge=1, le=16)
