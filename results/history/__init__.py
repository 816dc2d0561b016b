"""The history: rows, segments, Parquet, and the rules that make it well-formed."""
