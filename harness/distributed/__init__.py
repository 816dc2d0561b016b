"""Carry out many calls of Squall's functions on the executors of a Spark cluster, with Squall shipped as an archive."""
