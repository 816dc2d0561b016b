"""What public TLA+ specifications of Kafka allow, as small state machines that a simulated trace is checked against."""
