"""Vectorised checks over Arrow tables. Imports numpy, numba and pyarrow, nothing else."""
