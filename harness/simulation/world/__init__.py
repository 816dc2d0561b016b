"""The simulated world: time, network, disks, processes and the agent's verbs."""
