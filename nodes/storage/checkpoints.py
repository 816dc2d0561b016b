"""Read and write Kafka's small text files beside the logs. A crash leaves the old file or the new one, whole.

    replication-offset-checkpoint        high watermarks
    recovery-point-offset-checkpoint     up to where each log is known to be on the disk
    log-start-offset-checkpoint          log start offsets, where they are not a first segment's base offset
    leader-epoch-checkpoint              one in each log's directory
    meta.properties                      the owner of this directory
    .kafka_cleanshutdown                 the last stop was a clean one

A checkpoint file is a version, a count, and that many lines of space-separated fields. Writing is: a temporary file,
fsync, rename, fsync of the directory. An unreadable file is reported with its path and line; contents are never
guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from squall.nodes.ports import Disk
from squall.nodes.storage.errors import CorruptFile, on_disk

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

TopicPartition = tuple[str, int]


def join(directory: str, name: str) -> str:
    """Return a path under a directory; the root of the disk is the empty string."""
    return f"{directory}/{name}" if directory else name


def write_atomically(disk: Disk, path: str, *chunks: bytes | bytearray | memoryview) -> None:
    """Replace a file in one step that survives a crash at any point. Raises DiskFailure."""
    temporary = f"{path}.tmp"
    with on_disk(path, "replace the file"):
        file = disk.open(temporary, create=True)
        try:
            file.truncate(0)
            file.append(*chunks)
            file.sync()
        finally:
            file.close()
        disk.rename(temporary, path)
        disk.sync_directory(path.rpartition("/")[0])


def read_whole(disk: Disk, path: str) -> bytes | None:
    """Return the content of a file, None if the file does not exist."""
    if not disk.exists(path):
        return None
    with on_disk(path, "read the file"):
        file = disk.open(path)
        try:
            return file.read(0, file.size())
        finally:
            file.close()


def remove_if_there(disk: Disk, path: str) -> bool:
    """Remove a file; return whether it existed. Its absence is durable once the directory is synced."""
    if not disk.exists(path):
        return False
    with on_disk(path, "remove the file"):
        disk.remove(path)
    return True


# -- checkpoint files ----------------------------------------------------------------------------------------------


def write_lines(disk: Disk, path: str, lines: Iterable[str]) -> None:
    """Write a version 0 checkpoint file."""
    entries = list(lines)
    write_atomically(disk, path, "\n".join(["0", str(len(entries)), *entries, ""]).encode())


def read_lines(disk: Disk, path: str, fields: int) -> list[list[str]]:
    """Return the entries of a checkpoint file, empty if the file does not exist. Raises CorruptFile."""
    content = read_whole(disk, path)
    if content is None:
        return []
    lines = content.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0] != "0" or not lines[1].isdecimal():
        raise CorruptFile(f"{path}: line 1 must be the version 0 and line 2 a count; remove the file to rebuild it")
    entries = [line.split(" ") for line in lines[2:]]
    if len(entries) != int(lines[1]):
        raise CorruptFile(f"{path}: line 2 promises {lines[1]} entries, there are {len(entries)}; remove the file")
    for number, entry in enumerate(entries, start=3):
        if len(entry) != fields:
            raise CorruptFile(f"{path}: line {number} has {len(entry)} fields, expected {fields}; remove the file")
    return entries


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Write an offset per topic-partition: high watermarks or recovery points."""
    write_lines(disk, path, (f"{topic} {number} {offsets[topic, number]}" for topic, number in sorted(offsets)))


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint file, empty if the file does not exist. Raises CorruptFile."""
    offsets: dict[TopicPartition, int] = {}
    for topic, number, offset in read_lines(disk, path, 3):
        try:
            offsets[topic, int(number)] = int(offset)
        except ValueError:
            raise CorruptFile(f"{path}: {topic} {number} {offset!r} is not an offset; remove the file") from None
    return offsets


class OffsetCheckpoint:
    """One checkpoint file of offsets and its current content. Every change is durable when its method returns.

    The file may lag but is never ahead: an offset is written only when it holds, and lowered *before* it ceases to
    hold. A log that is truncated, or created again under an old name, must not find an offset that held for its
    predecessor.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._offsets = read_offsets(disk, path)

    def of(self, name: TopicPartition, default: int = 0) -> int:
        return self._offsets.get(name, default)

    def replace(self, offsets: dict[TopicPartition, int]) -> None:
        """Replace the content."""
        if offsets != self._offsets:
            write_offsets(self._disk, self._path, offsets)
            self._offsets = offsets

    def lower(self, name: TopicPartition, offset: int) -> None:
        """Lower the entry of one log to at most `offset`."""
        if self._offsets.get(name, offset) > offset:
            self.replace(self._offsets | {name: offset})

    def lift(self, name: TopicPartition, offset: int) -> None:
        """Raise the entry of one log to at least `offset`, which holds already."""
        if self._offsets.get(name, 0) < offset:
            self.replace(self._offsets | {name: offset})

    def forget(self, names: Collection[TopicPartition]) -> None:
        """Remove the entries of some logs."""
        going = frozenset(names)
        self.replace({name: offset for name, offset in self._offsets.items() if name not in going})


# -- properties and the clean-shutdown marker ----------------------------------------------------------------------


def write_properties(disk: Disk, path: str, properties: Mapping[str, str]) -> None:
    write_atomically(disk, path, "".join(f"{name}={properties[name]}\n" for name in sorted(properties)).encode())


def read_properties(disk: Disk, path: str) -> dict[str, str] | None:
    """Return the properties of a file, None if the file does not exist. Raises CorruptFile."""
    content = read_whole(disk, path)
    if content is None:
        return None
    properties: dict[str, str] = {}
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, separator, value = text.partition("=")
        if not separator:
            raise CorruptFile(f"{path}: line {number} {text!r} has no '='; write name=value")
        properties[name.strip()] = value.strip()
    return properties


def mark_clean_shutdown(disk: Disk, directory: str, content: str = "") -> None:
    """Record that every log under the directory was closed. `content` may carry the broker's last epoch."""
    write_atomically(disk, join(directory, CLEAN_SHUTDOWN), content.encode())


def take_clean_shutdown(disk: Disk, directory: str) -> str | None:
    """Consume the marker, durably. Return its content if the last stop was clean, None if not.

    The directory is synced in both cases. A process may have died after it removed the marker and before it synced the
    directory; a later power loss would bring the marker back, and an unclean stop would pass for a clean one.
    """
    path = join(directory, CLEAN_SHUTDOWN)
    content = read_whole(disk, path)
    with on_disk(path, "remove the file"):
        if content is not None:
            disk.remove(path)
        disk.sync_directory(directory)
    return None if content is None else content.decode("utf-8", "replace")
