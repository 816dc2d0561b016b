"""Kafka's wire protocol: schemas as data, compiled codecs, record batches, sessions. Pure."""
