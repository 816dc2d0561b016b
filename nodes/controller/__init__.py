"""The control plane: registration, liveness, topics, ISR changes, leader elections. Pure.

`controller.QuorumController` is the door and the event loop. `brokers`, `isr` and `topics` decide over what their names
say and return records; `elections` makes change records, `liveness` keeps sessions, `placement` places replicas.
Reassignment (RA), eligible leader replicas (EL) and controlled shutdown in steps (CS) will be further modules here.
"""
