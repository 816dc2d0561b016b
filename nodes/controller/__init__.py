"""The control plane: registration, liveness, topics, ISR changes, leader elections. Pure."""
