"""The ZooKeeper-era controller, as the baseline of the benchmarks. Empty until its issue."""
