"""The operator's tools: `squall cluster …`, for Squall's nodes and, where the protocol allows, for any Kafka."""
