"""One KRaft quorum replica: election, pull replication, high watermark by majority. Records are opaque. Pure."""
