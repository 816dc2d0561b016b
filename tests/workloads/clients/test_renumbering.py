"""librdkafka sends again, as new records, what it has no answer for, although no record has failed (rule 6).

A broker of our own making lets it happen: on topic-partition 1 a record is appended and its request times out; on
topic-partition 0 one request is refused, and the one behind it is out of sequence because of that. For the sake of
topic-partition 0 the producer takes a new epoch, and so the record of topic-partition 1 is sent with a new number.
Found in the lab under P04, where it looked like a duplicate of the brokers' making.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.init_producer_id import InitProducerIdResponse
from squall.nodes.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from squall.nodes.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from squall.nodes.protocol.records import BatchHeader
from squall.nodes.protocol.requests.session import ServerRequest, ServerSession, api_versions_response
from squall.nodes.protocol.schema import Message
from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.libraries.confluent import ConfluentFactory, tells_of_renumbering
from squall.workloads.core.operation import OK, SEND, Completion, Operation

VERSIONS = {
    int(ApiKey.PRODUCE): (0, 9),
    int(ApiKey.FETCH): (0, 11),
    int(ApiKey.METADATA): (4, 12),
    int(ApiKey.API_VERSIONS): (0, 3),
    int(ApiKey.INIT_PRODUCER_ID): (0, 4),
}
"""Whoever offers no fetches of today's batches is sent yesterday's."""

PATIENCE_S = 20.0


@dataclass
class Broker:
    """Holds produce requests back until the script answers them; then it serves as a broker does."""

    port: int = 0
    epoch: int = -1
    held: list[tuple[ServerRequest, asyncio.StreamWriter]] = field(default_factory=list)
    holds: bool = True
    came: asyncio.Condition = field(default_factory=asyncio.Condition)
    appended: list[tuple[int, int, int]] = field(default_factory=list)
    """(topic-partition, producer epoch, first sequence) of each batch."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = ServerSession(1, "PLAINTEXT", VERSIONS)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                request = session.received(0, await reader.readexactly(size))
                if request.answer is None and request.api_key == ApiKey.PRODUCE and self.holds:
                    async with self.came:
                        self.held.append((request, writer))
                        self.came.notify_all()
                    continue
                if request.answer is None:
                    request.respond(self._response(request))
                writer.write(framed(request))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            writer.close()

    def _response(self, request: ServerRequest) -> Message:
        if request.api_key == ApiKey.API_VERSIONS:
            return api_versions_response(VERSIONS)
        if request.api_key == ApiKey.METADATA:
            parts = [MetadataResponsePartition(0, number, 1, 0, [1], [1]) for number in (0, 1)]
            return MetadataResponse(
                brokers=[MetadataResponseBroker(1, "127.0.0.1", self.port)],
                controller_id=1,
                topics=[MetadataResponseTopic(name="events", topic_id=bytes(15) + b"\1", partitions=parts)],
            )
        if request.api_key == ApiKey.INIT_PRODUCER_ID:
            self.epoch += 1
            return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)
        return self.answered(request, 0)

    def answered(self, request: ServerRequest, error: int, *, append: bool | None = None) -> ProduceResponse:
        """Appended, unless there is an error and it is not said that it was appended all the same."""
        body = request.body
        assert isinstance(body, ProduceRequest)
        ((topic, part),) = [(topic, part) for topic in body.topic_data for part in topic.partition_data]
        assert part.records is not None
        if append if append is not None else not error:
            header = BatchHeader.read(part.records)
            self.appended.append((part.index, header.producer_epoch, header.base_sequence))
        answer = PartitionProduceResponse(index=part.index, error_code=error, base_offset=-1 if error else 50)
        return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=[answer])])

    async def until_held(self, count: int) -> None:
        async with self.came:
            await asyncio.wait_for(self.came.wait_for(lambda: len(self.held) >= count), PATIENCE_S)

    def release(self, *errors: ErrorCode) -> None:
        """Answer what is held, in its order; a request that timed out has been appended."""
        self.holds = False
        for (request, writer), error in zip(self.held, errors, strict=True):
            request.respond(self.answered(request, int(error), append=error == ErrorCode.REQUEST_TIMED_OUT))
            writer.write(framed(request))


def framed(request: ServerRequest) -> bytes:
    content = b"".join(request.chunks())
    return len(content).to_bytes(4, "big") + content


async def sends_through_a_renumbering() -> tuple[Broker, list[Completion]]:
    broker = Broker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.port = server.sockets[0].getsockname()[1]
    client = ConfluentFactory((("127.0.0.1", broker.port),)).client(
        ClientPlan(3, "producer", (0, 1), (("events", 0), ("events", 1)))
    )
    await client.open()

    def send(partition: int, value: int) -> asyncio.Task[Completion]:
        return asyncio.ensure_future(client.invoke(Operation(SEND, 0, 0, 3, 0, "events", partition, value)))

    sends = []
    for count, (partition, value) in enumerate([(1, 10), (0, 20), (0, 21)], 1):
        sends.append(send(partition, value))
        await broker.until_held(count)
    broker.release(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    completions = list(await asyncio.wait_for(asyncio.gather(*sends), PATIENCE_S))
    completions.append(await asyncio.wait_for(send(1, 11), PATIENCE_S))
    await client.close()
    server.close()
    return broker, completions


def test_a_record_resent_under_a_new_number_is_outside_idempotence() -> None:
    broker, completions = asyncio.run(sends_through_a_renumbering())
    twice = [(epoch, sequence) for partition, epoch, sequence in broker.appended if partition == 1]
    assert twice[:2] == [(0, 0), (1, 0)], f"this librdkafka did not renumber: {broker.appended}"
    assert all(one.type == OK for one in completions)
    *under_way, later = completions
    assert [one.idempotent for one in under_way] == [False, False, False]
    assert later.idempotent is None


def test_what_librdkafka_says_of_new_numbers_is_told_from_what_else_it_says() -> None:
    head = "DRAIN [squall-producer-3#producer-2] [thrd:main]: "
    drain = "Beginning partition drain in state Assigned for PID{Id:1000,Epoch:0} epoch bump for 0 partition(s) with"
    assert tells_of_renumbering(f"{head}{drain} in-flight requests: skipped sequence numbers")
    assert tells_of_renumbering(f"{head}Beginning partition drain for PID{{Id:1000,Epoch:0}} reset for 2 partition(s)")
    assert not tells_of_renumbering(f"{head}events [5] beginning partition drain: drain before retrying")
    assert not tells_of_renumbering("IDEMPSTATE [thrd:main]: Idempotent producer state change Init -> RequestPID")
