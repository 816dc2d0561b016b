"""The native client of the workload `metadata`: topics as registers (see `workloads/metadata.py` for the model).

Every thread has its own connection, and stays with one broker until that broker fails. A change is one request, whose
response is classified by `errors.THROUGH_A_BROKER`. A read is several: it changes its thread's barrier, waits until the
broker shows that change, and takes the register's value from the same response. Barrier and register are in one
request, in this order, so that the register is never from an older copy than the barrier. A topic without its value is
read again, since a broker may look up topic and configuration one after the other while the topic is being deleted;
only a topic that stays so for the whole time has lost its value.
"""

from __future__ import annotations

import asyncio
from typing import Final

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from squall.nodes.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from squall.workloads.clients.common import errors
from squall.workloads.clients.common.client import ClientPlan, Topic
from squall.workloads.clients.native.admin import CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION, NativeAdmin
from squall.workloads.clients.native.leaders import Address, Leaders
from squall.workloads.clients.native.native_consumer import short
from squall.workloads.clients.native.operator import (
    CONFIGS_VERSION,
    DESCRIBE_CONFIGS_VERSION,
    SET,
    SET_FOR_THE_TOPIC,
    TOPIC_RESOURCE,
)
from squall.workloads.core.operation import (
    ABSENT,
    CAS,
    OK,
    READ,
    UNREADABLE_VALUE,
    Completion,
    Operation,
    unique_value,
)
from squall.workloads.core.ports import Clock

KEY: Final = "retention.ms"
"""The configuration that holds a register's value: any integer is allowed, and nothing else here depends on it."""

AS_THE_CLUSTER_SAYS: Final = -1
"""Replication factor of topics: stands for `default.replication.factor`."""

REQUEST_SECONDS: Final = 3.0
BROKER_TIMEOUT_MS: Final = 2000
READ_SECONDS: Final = 6.0
LOOK_SECONDS: Final = 0.05
SETUP_SECONDS: Final = 30.0
SETUP_AGAIN_SECONDS: Final = 0.2


class MetadataClient:
    """One client of the workload `metadata`."""

    def __init__(self, plan: ClientPlan, leaders: Leaders, admin: NativeAdmin, clock: Clock) -> None:
        self.plan = plan
        self.leaders = leaders
        self.admin = admin
        self.clock = clock
        self.counter = 0
        self.moves = dict.fromkeys(plan.threads, 0)
        """How often each thread has moved to the next broker."""

    async def open(self) -> None:
        return None

    async def setup(self) -> None:
        """Create the barriers. Raises OSError if that fails for a while."""
        barriers = [Topic(barrier_of(thread), 1, AS_THE_CLUSTER_SAYS) for thread in self.plan.threads]
        deadline = self.clock.now_ns() + int(SETUP_SECONDS * 1e9)
        while True:
            try:
                await self.admin.create_topics(barriers)
            except OSError:
                if self.clock.now_ns() > deadline:
                    raise
                await asyncio.sleep(SETUP_AGAIN_SECONDS)
            else:
                return

    async def invoke(self, operation: Operation) -> Completion:
        assert operation.topic is not None
        address = self._address(operation.thread)
        try:
            await self.leaders.connection(address, operation.thread)
        except OSError:
            self.moves[operation.thread] += 1
            await asyncio.sleep(SETUP_AGAIN_SECONDS)
            return errors.refused("not_connected")
        try:
            if operation.f == READ:
                return await self._read(address, operation)
            return errors.answered(errors.THROUGH_A_BROKER, operation.f, await self._change(address, operation))
        except OSError as trouble:
            self.moves[operation.thread] += 1
            return errors.lost(operation.f, short(trouble))

    async def teardown(self) -> None:
        return None

    async def close(self) -> None:
        self.leaders.close()
        await self.admin.close()

    def _address(self, thread: int) -> Address:
        brokers = self.leaders.bootstrap
        return brokers[(thread + self.moves[thread]) % len(brokers)]

    # -- changes ----------------------------------------------------------------------------------------------------

    async def _change(self, address: Address, operation: Operation) -> int:
        """Send a change and return the error code of the response. Raises OSError."""
        assert operation.topic is not None and operation.value is not None
        if operation.f == CAS:
            return await self._create(address, operation.thread, operation.topic, operation.value)
        if operation.value == ABSENT:
            return await self._delete(address, operation.thread, operation.topic)
        return await self._alter(address, operation.thread, operation.topic, operation.value)

    async def _create(self, address: Address, thread: int, topic: str, value: int) -> int:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=1,
            replication_factor=AS_THE_CLUSTER_SAYS,
            configs=[CreatableTopicConfig(name=KEY, value=str(value))],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=BROKER_TIMEOUT_MS)
        answer = await self.leaders.ask(
            address, thread, request, CREATE_TOPICS_VERSION, CreateTopicsResponse, REQUEST_SECONDS
        )
        return _only([one.error_code for one in answer.topics])

    async def _delete(self, address: Address, thread: int, topic: str) -> int:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=BROKER_TIMEOUT_MS)
        answer = await self.leaders.ask(
            address, thread, request, DELETE_TOPICS_VERSION, DeleteTopicsResponse, REQUEST_SECONDS
        )
        return _only([one.error_code for one in answer.responses])

    async def _alter(self, address: Address, thread: int, topic: str, value: int) -> int:
        change = AlterConfigsResource(TOPIC_RESOURCE, topic, [AlterableConfig(KEY, SET, str(value))])
        answer = await self.leaders.ask(
            address,
            thread,
            IncrementalAlterConfigsRequest([change]),
            CONFIGS_VERSION,
            IncrementalAlterConfigsResponse,
            REQUEST_SECONDS,
        )
        return _only([one.error_code for one in answer.responses])

    # -- reads ------------------------------------------------------------------------------------------------------

    async def _read(self, address: Address, operation: Operation) -> Completion:
        """Read the register as it was at some time since this call. Raises OSError."""
        assert operation.topic is not None
        barrier = barrier_of(operation.thread)
        self.counter += 1
        mark = unique_value(operation.process, self.counter)
        code = await self._alter(address, operation.thread, barrier, mark)
        if code != 0:
            return errors.answered(errors.THROUGH_A_BROKER, READ, code)
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(TOPIC_RESOURCE, name, [KEY]) for name in (barrier, operation.topic)]
        )
        deadline = self.clock.now_ns() + int(READ_SECONDS * 1e9)
        behind = True
        while self.clock.now_ns() < deadline:
            answer = await self.leaders.ask(
                address, operation.thread, request, DESCRIBE_CONFIGS_VERSION, DescribeConfigsResponse, REQUEST_SECONDS
            )
            told = {one.resource_name: one for one in answer.results}
            if barrier in told and value_of(told[barrier]) == mark:
                behind = False
                judged = _judged(told.get(operation.topic))
                if judged.found != UNREADABLE_VALUE:
                    return judged
            await asyncio.sleep(LOOK_SECONDS)
        if not behind:
            return Completion(OK, found=UNREADABLE_VALUE)
        self.moves[operation.thread] += 1
        return errors.refused("broker_is_behind")


def barrier_of(thread: int) -> str:
    """The topic whose configuration shows a thread how current a broker's copy is."""
    return f"metadata-barrier-{thread}"


def value_of(result: DescribeConfigsResult) -> int | None:
    """The register's value in this response: ABSENT without a topic, None if the response does not show it."""
    if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ABSENT
    if result.error_code != 0:
        return None
    for one in result.configs:
        if one.name == KEY and one.config_source == SET_FOR_THE_TOPIC:
            return _number(one.value)
    return UNREADABLE_VALUE


def _judged(result: DescribeConfigsResult | None) -> Completion:
    if result is None:
        return errors.refused("not_described")
    value = value_of(result)
    if value is None:
        return errors.answered(errors.THROUGH_A_BROKER, READ, result.error_code)
    return Completion(OK, found=value)


def _number(text: str | None) -> int:
    """The integer in a topic's configuration; a topic without one has lost its value."""
    try:
        return int(text or "")
    except ValueError:
        return UNREADABLE_VALUE


def _only(codes: list[int]) -> int:
    """The response's only code; a response without one is an unknown error."""
    return codes[0] if len(codes) == 1 else int(ErrorCode.UNKNOWN_SERVER_ERROR)
