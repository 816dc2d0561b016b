"""What every command shares: its output, its help and its options."""
