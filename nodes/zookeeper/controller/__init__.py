"""The ZooKeeper-era controller: a part of every broker, active in the one that ZooKeeper elects. Pure."""
