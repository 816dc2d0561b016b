"""The system under test: Kafka's broker and KRaft controllers in Python.

A deterministic core (plain synchronous state machines) in a thin asyncio shell. Nothing here depends on the testbed;
the other rooms use only `nodes.protocol`. Floors, each importing only those to its left: ports, config, mutants,
buggify < protocol < storage < raft < metadata < controller, replication < broker < node < server. The controller and
the data plane never import each other.
"""
