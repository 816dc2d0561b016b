"""Vectorised checks over Arrow tables. Imports numpy and pyarrow, nothing else."""
