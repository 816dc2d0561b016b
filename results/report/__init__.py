"""What a person reads: terminal, tables, plots, one HTML file."""
