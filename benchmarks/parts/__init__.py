"""What benchmarks are put together from."""
