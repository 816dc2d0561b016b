"""One topic-partition: leader and follower, ISR, high watermark, fencing; the fetcher. Pure."""
