"""What a broker of a ZooKeeper-era cluster does instead of asking a quorum. Pure."""
