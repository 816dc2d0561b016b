"""Brokers with a ZooKeeper ensemble, ours or Apache Kafka's: one is the controller, the ensemble has the metadata."""
