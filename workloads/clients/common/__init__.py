"""What clients of all libraries share."""
