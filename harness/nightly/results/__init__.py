"""What a night, or a suite, leaves for people and machines."""
