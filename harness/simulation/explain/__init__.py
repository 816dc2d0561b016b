"""What happened in a simulated run, in words and as a picture."""
