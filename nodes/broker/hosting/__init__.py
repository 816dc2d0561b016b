"""The topic-partitions that a broker hosts, their logs, and the requests that wait for them."""
