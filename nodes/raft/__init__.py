"""One KRaft quorum replica: election, pull replication, high watermark by majority. Records are opaque. Pure.

`replica.RaftReplica` is the entry point. Under it: `transitions` (which role follows which), `roles` (one class each),
`quorum_state` (what must survive a restart), `metadata_log` (the log with the rules of a quorum), `messages` (fields of
the RPCs), `purgatory` (long polls), `snapshots`, `snapshot_file` and `snapshot_fetch` (what replaces the log's
beginning), `voters`, `voter_changes` and `bootstrap` (the voters, their changes, and the initial set).
"""
