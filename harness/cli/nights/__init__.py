"""`squall nightly` and `squall bundle`."""
