"""Take blocks of producer ids from `/latest_producer_id_block`, by compare-and-set, as Kafka did with ZooKeeper.

A broker's AllocateProducerIds request, which with a quorum would go to the controller, is answered here.
"""

from __future__ import annotations

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from squall.nodes.protocol.requests.session import OutboundRequest
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.session import GetData, SessionResponse, SetData
from squall.nodes.zookeeper.znodes import PRODUCER_IDS, decode_last_producer_id, encode_producer_ids

BLOCK = 1000


class ProducerIdBlocks:
    """See the module."""

    def __init__(self, node: int, client: ZooKeeperClient) -> None:
        self._node = node
        self._client = client

    def allocate(self, now: int, request: OutboundRequest) -> None:
        """Take the next block; refused if another broker took it first, or the answer was lost."""

        def read(now: int, responses: list[SessionResponse]) -> None:
            (found,) = responses
            if not found.ok or found.stat is None:
                request.complete(now, None)
                return
            first = decode_last_producer_id(found.data) + 1
            data = encode_producer_ids(self._node, first, first + BLOCK - 1)

            def written(now: int, responses: list[SessionResponse]) -> None:
                if responses[0].ok:
                    request.complete(now, AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK))
                else:
                    request.complete(now, AllocateProducerIdsResponse(error_code=int(ErrorCode.NOT_CONTROLLER)))

            self._client.submit(now, [SetData(PRODUCER_IDS, data, found.stat.version)], written)

        self._client.submit(now, [GetData(PRODUCER_IDS)], read)
