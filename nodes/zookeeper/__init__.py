"""The ZooKeeper-era controller: a broker that ZooKeeper elects, and the session through which it works. Pure."""
