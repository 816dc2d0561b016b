"""Adapters that turn operations into calls of one Kafka client library, and outcomes into ok, fail or info."""
