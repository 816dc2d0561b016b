"""Rules about which brokers are alive, and which may stop."""
