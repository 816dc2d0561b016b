"""A producer that sends to every topic-partition of a topic all the time, and remembers when it was acknowledged."""

from __future__ import annotations

import threading
import time
from itertools import pairwise

import confluent_kafka

from tests.clusters import Cluster

QUIET = {"log_level": 0, "log.connection.close": False}


class Load:
    """A producer with acks=all that never stops: when each topic-partition was acknowledged, and what failed."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, *, every_s: float = 0.005) -> None:
        settings = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0} | QUIET
        self._producer = confluent_kafka.Producer(settings)
        self._topic = topic
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: dict[int, list[float]] = {number: [] for number in range(partitions)}
        self.failed: list[str] = []

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            for number in self.acknowledged:
                self._producer.produce(self._topic, b"v", partition=number, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(10)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition()].append(time.monotonic())

    def runs(self) -> bool:
        return all(len(times) > 20 for times in self.acknowledged.values())

    def gaps(self, since: float, until: float) -> dict[int, float]:
        """The longest time without an acknowledgement, by topic-partition."""
        longest = {}
        for number, times in self.acknowledged.items():
            within = [since, *(one for one in times if since <= one <= until), until]
            longest[number] = max(after - before for before, after in pairwise(within))
        return longest
