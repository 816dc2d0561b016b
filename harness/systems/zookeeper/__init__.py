"""Our own brokers with a ZooKeeper ensemble: one of the brokers is the controller, the ensemble keeps the metadata."""
