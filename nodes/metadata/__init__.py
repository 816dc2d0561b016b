"""Metadata records, the image they build, and the deltas between images. Pure."""
