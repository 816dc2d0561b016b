"""The control plane: registration, liveness, topics, ISR changes, leader elections. Pure.

`controller.QuorumController` is the entry point and the event loop. `brokers`, `isr`, `topics`, `configs`, `features`
and `leader_elections` decide over what their names say and return records. `elections` is the rule of who leads, who is
in sync and who is eligible; `changes` makes its records. `liveness` keeps sessions, `placement` places replicas.
`reassignment` moves topic-partitions to other replicas (RA), `shutdown` decides when a broker may stop (CS).
"""
