"""What the rules of the observer share: logs, images, replayed metadata, tracked writes, what clients know."""
