"""etcd as a system under test, with keys as registers."""
