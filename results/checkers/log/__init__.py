"""The check of one topic-partition, whole or in slices."""
