"""InitProducerId: hand out globally unique producer ids from blocks that the controller allots (rule 8).

Transactions are not supported. A transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, after which no
client retries (`coordinators.py`). A producer that requests again with an id it holds gets a new id: an idempotent
producer without transactions thereby starts again, unfenced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from squall.nodes.broker.hosting.config import NEVER, BrokerConfig
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from squall.nodes.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest, ToActiveController
from squall.nodes.protocol.schema import Message

PATIENCE = 10_000_000
"""How long, in microseconds, a producer waits for a block; then the response makes it retry."""
RETRY_PAUSE = 100_000


class ProducerIds:
    """Responds to InitProducerId. The broker drains `requests`."""

    def __init__(self, config: BrokerConfig, *, broker_epoch: Callable[[], int]) -> None:
        self.requests: list[OutboundRequest] = []
        self._config = config
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._waiting: deque[tuple[int, ServerRequest]] = deque()
        self._under_way = False
        self._rest_until = 0

    def handle(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, InitProducerIdRequest)
        if body.transactional_id is not None:
            request.respond(_refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
            return
        self._waiting.append((now + PATIENCE, request))
        self._serve()
        self.tick(now)

    def _serve(self) -> None:
        while self._waiting and self._next < self._end:
            _, request = self._waiting.popleft()
            if not request.closed:
                request.respond(InitProducerIdResponse(producer_id=self._next, producer_epoch=0))
                self._next += 1

    def tick(self, now: int) -> None:
        while self._waiting and (self._waiting[0][0] <= now or self._waiting[0][1].closed):
            _, request = self._waiting.popleft()
            if not request.closed:
                request.respond(_refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        if self._waiting and not self._under_way and self._rest_until <= now and self._broker_epoch() >= 0:
            self._under_way = True
            message = AllocateProducerIdsRequest(self._config.node_id, self._broker_epoch())
            self.requests.append(
                OutboundRequest(ToActiveController(), message, self._config.request_timeout, self._allotted)
            )

    def _allotted(self, now: int, response: Message | None) -> None:
        self._under_way = False
        if isinstance(response, AllocateProducerIdsResponse) and response.error_code == ErrorCode.NONE:
            self._next = response.producer_id_start
            self._end = response.producer_id_start + response.producer_id_len
        else:
            self._rest_until = now + RETRY_PAUSE
        self._serve()

    def deadline(self) -> int:
        if not self._waiting:
            return NEVER
        return self._waiting[0][0] if self._under_way else min(self._waiting[0][0], self._rest_until)


def _refusal(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(error), producer_id=-1, producer_epoch=-1)
