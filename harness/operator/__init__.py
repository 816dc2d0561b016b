"""The operator's tools: `squall cluster …`, for our nodes and, where the protocol allows, for any Kafka."""
