"""The design that KIP-291 rejected: one queue, in which the controller's requests overtake those of clients (CL-23).

It is here to be measured, beside the shared queue and the separate listener. A request can overtake only in the queue.
When the queue is full, Kafka's network threads stop with the request that they have read, and whatever arrives behind
it waits for them: nobody has looked at it yet. So a controller's request waits until all that was read before it has
found a place, as long as in a shared queue less the queue's length, and that wait has no bound.
"""

from __future__ import annotations

from collections import deque

from squall.nodes.node.channels import NO_LIMIT, Inbound, RequestChannel
from squall.nodes.node.dispatch import CONTROLLER_REQUESTS
from squall.nodes.node.memory_budget import MemoryBudget

_FIRST = frozenset(key.to_bytes(2, "big") for key in CONTROLLER_REQUESTS)


def is_controller_request(inbound: Inbound) -> bool:
    """Whether a frame that was not decoded yet is LeaderAndIsr, UpdateMetadata or StopReplica."""
    return inbound.frame is not None and bytes(inbound.frame[:2]) in _FIRST


class ControllerFirstChannel(RequestChannel):
    """See the module."""

    def __init__(self, name: str, capacity: int, bytes_max: int = NO_LIMIT, budget: MemoryBudget | None = None) -> None:
        super().__init__(name, capacity, bytes_max, budget)
        self._first: deque[Inbound] = deque()
        """A controller's requests in the queue, ahead of all others."""
        self._unread: deque[Inbound] = deque()
        """What the network threads are stopped with, in order of arrival."""

    def __len__(self) -> int:
        return len(self._first) + len(self._queue)

    @property
    def unread(self) -> int:
        """Requests that have no place in the queue yet."""
        return len(self._unread)

    def put(self, inbound: Inbound) -> None:
        if self._unread or len(self) >= self.capacity:
            self._unread.append(inbound)
        else:
            self._place(inbound)
        self._count(inbound)

    def take(self) -> Inbound | None:
        """Take the next request out of the queue, and give its place to the first unread one."""
        while self._first or self._queue:
            inbound = self._served(self._first.popleft() if self._first else self._queue.popleft())
            if self._unread:
                self._place(self._unread.popleft())
            if inbound is not None:
                return inbound
        return None

    def _place(self, inbound: Inbound) -> None:
        (self._first if is_controller_request(inbound) else self._queue).append(inbound)
