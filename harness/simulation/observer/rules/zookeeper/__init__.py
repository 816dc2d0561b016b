"""Rules on clusters whose metadata is in ZooKeeper."""
