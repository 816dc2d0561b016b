"""The lake: rows about every run, in partitioned Parquet tables, for queries over thousands of runs."""
