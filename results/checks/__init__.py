"""The registry of checks and their drivers over Spark or in process."""
