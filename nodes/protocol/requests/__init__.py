"""Headers of requests, and requests that are answered once, now or later."""
