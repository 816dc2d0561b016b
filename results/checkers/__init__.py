"""The checkers and their engines: Spark or in process."""
