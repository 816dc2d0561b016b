"""The controller's requests to brokers: a queue for each broker, one request in flight (ZK-06, CL-20).

A request that gets no answer is sent again, until the broker is no longer among those that live. So a broker gets all
requests in the order in which the controller decided, or is gone. A new incarnation of a broker begins with an empty
queue: its controller first sends it everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from squall.nodes.ports import NullTrace, Trace
from squall.nodes.protocol.requests.session import OutboundRequest, ToBroker
from squall.nodes.protocol.schema import Message

Answered = Callable[[int, Message], None]
"""Called with (now, response)."""
RETRY_PAUSE = 100_000
STATES_OF_A_TURN = 50_000
"""States of topic-partitions after which no further request is sent in a turn."""
NOBODY = NullTrace()
NEVER = 2**63 - 1


def size_of(message: Message) -> int:
    """Return how many topic-partitions a request is about."""
    return sum(len(one.partition_states) for one in getattr(message, "topic_states", ()))


@dataclass(slots=True, eq=False)
class _Queue:
    """Requests to one incarnation of a broker, the first of them perhaps in flight."""

    broker: int
    waiting: deque[tuple[Message, Answered | None]] = field(default_factory=deque)
    is_sent: bool = False
    rest_until: int = 0
    is_removed: bool = False


class RequestQueues:
    """See the module. The node drains `requests`."""

    def __init__(self, timeout: int, node: int = -1, trace: Trace = NOBODY) -> None:
        """Traces what is sent to a broker, and each response, as `node`."""
        self.requests: list[OutboundRequest] = []
        self._node = node
        self._trace = trace
        self._timeout = timeout
        self._queues: dict[int, _Queue] = {}

    def add_broker(self, broker: int) -> None:
        """Begin an empty queue for a broker, or for its new incarnation."""
        self.remove_broker(broker)
        self._queues[broker] = _Queue(broker)

    def remove_broker(self, broker: int) -> None:
        """Drop what waits for a broker; the answer to what is in flight is ignored."""
        found = self._queues.pop(broker, None)
        if found is not None:
            found.is_removed = True

    def clear(self) -> None:
        for broker in list(self._queues):
            self.remove_broker(broker)

    def put(self, broker: int, message: Message, answered: Answered | None = None) -> None:
        """Append a request. Dropped if the broker does not live: it gets everything when it returns."""
        queue = self._queues.get(broker)
        if queue is not None:
            queue.waiting.append((message, answered))

    def waiting_for(self, broker: int) -> int:
        """The number of requests that a broker has yet to answer."""
        queue = self._queues.get(broker)
        return 0 if queue is None else len(queue.waiting)

    @property
    def brokers(self) -> list[int]:
        """The brokers that have a queue."""
        return list(self._queues)

    def advance(self, now: int) -> None:
        """Send the next request of each queue that has none in flight, as far as a turn may take.

        Requests are encoded in the turn that sends them; thirty of a hundred thousand topic-partitions take seconds.
        """
        left = STATES_OF_A_TURN
        for queue in self._queues.values():
            if left <= 0:
                break
            if queue.waiting and not queue.is_sent and queue.rest_until <= now:
                queue.is_sent = True
                message = queue.waiting[0][0]
                left -= size_of(message)
                self._trace.event("zk_request_sent", node=self._node, broker=queue.broker, api=message.API_KEY)
                self.requests.append(
                    OutboundRequest(ToBroker(queue.broker), message, self._timeout, self._completing(queue))
                )

    def _completing(self, queue: _Queue) -> Callable[[int, Message | None], None]:
        def complete(now: int, response: Message | None) -> None:
            queue.is_sent = False
            self._trace.event(
                "zk_request_answered", node=self._node, broker=queue.broker, answered=response is not None
            )
            if queue.is_removed:
                return
            if response is None:
                queue.rest_until = now + RETRY_PAUSE
                return
            _, answered = queue.waiting.popleft()
            if answered is not None:
                answered(now, response)

        return complete

    def deadline(self) -> int:
        due = [queue.rest_until for queue in self._queues.values() if queue.waiting and not queue.is_sent]
        return min(due, default=NEVER)
