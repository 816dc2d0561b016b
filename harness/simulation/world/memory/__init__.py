"""A third kind of controller, beside a quorum and ZooKeeper's: one process that keeps the metadata in memory (DA-04).

There is no election, no vote, no replica of the log and no file. `memory_log.py` is the list of what was decided; it
outlives the controller's process, since it has no other copy. `controller_node.py` decides by the same rules as a
quorum's active controller, and each decision is committed at once. `broker_node.py` is an ordinary broker, whose
metadata come by polling (`polled_metadata.py`).
"""
