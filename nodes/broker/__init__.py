"""The broker: client requests, parked requests, replicas, lifecycle, ISR proposals of many topic-partitions. Pure."""
