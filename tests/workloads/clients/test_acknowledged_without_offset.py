"""DUPLICATE_SEQUENCE_NUMBER, answered to a producer of each library by a leader that need not have replicated.

The answer has no offset. All libraries call it a success; librdkafka and aiokafka make offsets up for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from squall.nodes.protocol.requests.session import ServerRequest
from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.kits import Library, factory_of
from squall.workloads.clients.libraries.confluent import Offsets
from squall.workloads.core.operation import INFO, OK, SEND, Completion, Operation
from tests.workloads.clients.test_renumbering import PATIENCE_S, Broker


@dataclass
class Duplicated(Broker):
    """Says of what is sent that it was there already, until it is told otherwise."""

    holds: bool = False
    duplicates: bool = True

    def answered(self, request: ServerRequest, error: int, *, append: bool | None = None) -> ProduceResponse:
        body = request.body
        assert isinstance(body, ProduceRequest)
        ((topic, part),) = [(topic, part) for topic in body.topic_data for part in topic.partition_data]
        answer = PartitionProduceResponse(index=part.index, base_offset=50, log_start_offset=0)
        if self.duplicates:
            code = int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
            answer = PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1, log_start_offset=-1)
        return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=[answer])])


async def sends(library: Library) -> tuple[list[Completion], list[Completion]]:
    broker = Duplicated()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.port = server.sockets[0].getsockname()[1]
    plan = ClientPlan(3, "producer", (0,), (("events", 0),))
    client = factory_of(library, (("127.0.0.1", broker.port),)).client(plan)
    await client.open()

    async def four() -> list[Completion]:
        operations = [Operation(SEND, 0, 0, 3, 0, "events", 0, value) for value in range(4)]
        sending = asyncio.gather(*(client.invoke(one) for one in operations))
        return list(await asyncio.wait_for(sending, PATIENCE_S))

    doubtful = await four()
    broker.duplicates = False
    certain = await four()
    await client.close()
    server.close()
    return doubtful, certain


@pytest.mark.parametrize("library", ["confluent", "kafka-python", "aiokafka"])
def test_an_ack_without_an_offset_is_in_doubt_for_its_whole_batch(library: Library) -> None:
    doubtful, certain = asyncio.run(sends(library))
    assert [(one.type, one.error, one.offset) for one in doubtful] == [(INFO, "acknowledged_without_offset", None)] * 4
    assert [(one.type, one.offset) for one in certain] == [(OK, 50), (OK, 51), (OK, 52), (OK, 53)]


def test_offsets_that_librdkafka_makes_up_are_told_from_those_of_the_broker() -> None:
    offsets = Offsets()
    here = [offsets.answered("events", 0, one) for one in (None, 0, 1, 7, 8, None, None, 0, 3)]
    assert here == [None, None, None, 7, 8, None, None, None, 3]
    assert offsets.answered("events", 1, 0) == 0, "of another topic-partition"
