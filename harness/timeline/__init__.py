"""One order of time for logs of nodes, faults and what clients noticed."""
