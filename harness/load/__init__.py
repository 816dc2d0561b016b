"""Load workers: here, on client hosts, and the pipes that command them."""
