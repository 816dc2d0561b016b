"""The segmented log on a Disk: segments, index, epoch cache, producer state, recovery. Pure above Disk."""
