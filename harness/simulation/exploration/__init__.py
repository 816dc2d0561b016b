"""Which behaviour of the nodes seeds have shown, and how much none has shown yet."""
