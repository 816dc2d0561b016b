"""NATS JetStream in the gallery: its servers, a publisher in Go, an observer. A topic is a stream of one partition."""
