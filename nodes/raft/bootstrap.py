"""Write the initial voters as `kafka-storage format` does: the snapshot `0-0` (KIP-853).

A quorum of dynamic voters needs initial voters. They cannot be a setting that every start reads again: a controller
whose disk was lost would take itself for the voter it was, vote a second time, and found a second quorum. So they are
written once, before the first start, into the directory itself: the *bootstrap snapshot*, which represents no record
(end offset 0, epoch 0) and holds a KRaftVersionRecord and a VotersRecord. It is lost with the directory; a node that
restarts with an empty directory is an observer that finds the quorum by `controller.quorum.bootstrap.servers`.

The first leader writes both records into the log, after the record that opens its epoch; from then on the log counts
everywhere. Other replicas never fetch the bootstrap snapshot (`MetadataLog.snapshot_for`).
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
    """Write the initial voters; durable on return. The directory must not hold a log yet."""
    disk.make_directory(directory)
    control = [ControlRecord(KRAFT_VERSION, kraft_version_record()), ControlRecord(KRAFT_VOTERS, voters_record(voters))]
    Snapshots(disk, directory, node_id=node_id, trace=trace).create(BOOTSTRAP, now_ms, control).finish()
