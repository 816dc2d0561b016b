"""One KRaft quorum replica: election, pull replication, high watermark by majority. Records are opaque. Pure.

`replica.RaftReplica` is the door. Beneath it: `transitions` (which role follows which), `roles` (one class each),
`quorum_state` (what must survive a restart), `metadata_log` (the log with the rules of a quorum), `messages` (how the
RPCs are filled), `purgatory` (long polls), `snapshots`, `snapshot_file` and `snapshot_fetch` (what takes the place of
the log's beginning), `voters`, `voter_changes` and `bootstrap` (who votes, how that changes, and who begins).
"""
