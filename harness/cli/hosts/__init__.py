"""Commands about hosts and the clusters on them: inventory, heal, lab, cluster, faults."""
