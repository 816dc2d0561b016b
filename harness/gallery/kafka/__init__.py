"""Apache Kafka in the gallery: its nodes, a proxy that understands its frames, its clients, an observer."""
