"""Apache Kafka as the system under test: brokers and KRaft controllers from the jars that its project publishes."""
