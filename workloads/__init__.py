"""What clients do: operations, generators, clients, and one module per workload."""
