"""Operations, generators, and the ports that workloads need."""
