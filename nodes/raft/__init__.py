"""One KRaft quorum replica: election, pull replication, high watermark by majority. Records are opaque. Pure.

`replica.RaftReplica` is the door. Beneath it: `transitions` (which role follows which), `roles` (one class each),
`quorum_state` (what must survive a restart), `metadata_log` (the log with the rules of a quorum), `messages` (how the
RPCs are filled), `purgatory` (long polls). Voters are static (`controller.quorum.voters`). Dynamic voters (rule 40),
snapshots (rule 39) and pre-vote (rule 41) belong here too and are to come: a voter set that follows the log beside
`config`, snapshot files beside `metadata_log`, a prospective role in `roles`.
"""
