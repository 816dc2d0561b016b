"""Many topic-partitions: client requests, purgatory, replicas, lifecycle, ISR proposals. Pure."""
