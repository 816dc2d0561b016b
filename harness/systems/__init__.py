"""Systems under test beside our own nodes: what each fetches, configures, starts and lacks, one folder a system."""
