"""The voters to begin with, as `kafka-storage format` writes them down: the snapshot `0-0` (KIP-853).

A quorum of dynamic voters must begin with somebody. Who that is cannot be a setting that every start reads again: a
controller whose disk was lost would take itself for the voter it was, vote a second time, and found a quorum anew. So
it is written once, before the first start, into the directory itself: the *bootstrap snapshot*, which stands for no
record (end offset 0, epoch 0) and holds a KRaftVersionRecord and a VotersRecord. With the directory it is gone, and who
comes back with an empty one is an observer that finds the quorum by `controller.quorum.bootstrap.servers`.

The first leader writes both records into the log, behind the record that opens its epoch; from then on that is what
counts, everywhere. The bootstrap snapshot is never fetched by others (`MetadataLog.snapshot_for`).
"""

from __future__ import annotations

from squall.nodes.ports import Disk, Trace
from squall.nodes.raft.snapshot_file import ControlRecord
from squall.nodes.raft.snapshots import SnapshotId, Snapshots
from squall.nodes.raft.voters import KRAFT_VERSION, KRAFT_VOTERS, VoterSet, kraft_version_record, voters_record

BOOTSTRAP = SnapshotId(0, 0)


def write_bootstrap_snapshot(
    disk: Disk, directory: str, voters: VoterSet, *, node_id: int, now_ms: int, trace: Trace
) -> None:
    """Write down the voters to begin with; durable on return. The directory must hold no log yet."""
    disk.make_directory(directory)
    control = [ControlRecord(KRAFT_VERSION, kraft_version_record()), ControlRecord(KRAFT_VOTERS, voters_record(voters))]
    Snapshots(disk, directory, node_id=node_id, trace=trace).create(BOOTSTRAP, now_ms, control).finish()
