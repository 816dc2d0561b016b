"""What is recorded of a producer that many processes share, whatever its library: the library is the test itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

import pytest

from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.common.shared_producer import Delivered, SharedProducer
from squall.workloads.core.operation import DELETE_RECORDS, FAIL, INFO, OK, REOPEN, SEND, Completion, Operation

PLAN = ClientPlan(3, "producer", (0,), (("events", 0),))


class Library:
    """A producer instance whose delivery reports the test hands out."""

    def __init__(self) -> None:
        self.dead = False
        self.renumberings = 0
        self.retired = False
        self.abandoned = False
        self.remains = True
        self.reports: list[asyncio.Future[Delivered]] = []

    async def send(self, topic: str, partition: int, payload: bytes) -> Delivered:
        self.reports.append(asyncio.get_running_loop().create_future())
        return await self.reports[-1]

    def retire(self) -> None:
        self.retired = True

    def abandon(self) -> None:
        self.abandoned = True
        self.retire()

    def gone(self) -> bool:
        return not self.remains

    async def ended(self) -> None:
        assert self.retired
        self.remains = False


class Producer(SharedProducer):
    def __init__(self, plan: ClientPlan = PLAN) -> None:
        super().__init__(plan)
        self.libraries: list[Library] = []

    def start(self, loop: asyncio.AbstractEventLoop) -> Library:
        self.libraries.append(Library())
        return self.libraries[-1]


def sending(client: Producer, *values: int) -> list[asyncio.Task[Completion]]:
    return [asyncio.ensure_future(client.invoke(Operation(SEND, 0, 0, 3, 0, "events", 0, one))) for one in values]


def carried_out(
    scenario: Callable[[Producer], Awaitable[list[Completion]]], plan: ClientPlan = PLAN
) -> list[Completion]:
    async def whole() -> list[Completion]:
        client = Producer(plan)
        await client.open()
        told = await scenario(client)
        await client.close()
        return told

    return asyncio.run(whole())


def test_all_under_way_when_a_record_fails_leaves_the_idempotence_promise() -> None:
    """Rule 6: the library goes on under a new producer epoch; a broker cannot know second attempts from new records."""

    async def scenario(client: Producer) -> list[Completion]:
        sends = sending(client, 0, 1, 2)
        await asyncio.sleep(0)
        reports = client.libraries[0].reports
        reports[0].set_result(Delivered(offset=10))
        reports[1].set_result(Delivered(error="not_enough_replicas"))
        reports[2].set_result(Delivered(offset=12))
        completions = list(await asyncio.gather(*sends))
        later = sending(client, 3)
        await asyncio.sleep(0)
        reports[3].set_result(Delivered(offset=13))
        return [*completions, await later[0]]

    answered, failed, under_way, later = carried_out(scenario)
    assert (answered.type, answered.offset, answered.idempotent) == (OK, 10, None)
    assert (failed.type, failed.error, failed.idempotent) == (INFO, "not_enough_replicas", False)
    assert (under_way.type, under_way.idempotent) == (OK, False)
    assert (later.type, later.idempotent) == (OK, None)
    assert [one.sequence for one in (answered, failed, under_way, later)] == [1, 2, 3, 4]


def test_a_dead_instance_is_replaced_under_a_new_client_number() -> None:
    async def scenario(client: Producer) -> list[Completion]:
        sends = sending(client, 1)
        await asyncio.sleep(0)
        client.libraries[0].dead = True
        sends += sending(client, 2)
        await asyncio.sleep(0)
        client.libraries[0].reports[0].set_result(Delivered(offset=2))
        client.libraries[1].reports[0].set_result(Delivered(offset=3))
        assert client.libraries[0].retired and not client.libraries[1].retired
        return list(await asyncio.gather(*sends))

    before, after = carried_out(scenario)
    assert (before.client, before.sequence) == (3, 1)
    assert (after.client, after.sequence) == (10_003, 1)


def test_a_late_failure_of_a_replaced_instance_counts_for_its_own_only() -> None:
    async def scenario(client: Producer) -> list[Completion]:
        sends = sending(client, 1, 2, 3)
        await asyncio.sleep(0)
        client.libraries[0].dead = True
        sends += sending(client, 4)
        await asyncio.sleep(0)
        old, new = client.libraries[0].reports, client.libraries[1].reports
        old[0].set_result(Delivered(error="timed_out"))
        await sends[0]
        new[0].set_result(Delivered(offset=7))
        old[1].set_result(Delivered(offset=5))
        old[2].set_result(Delivered(offset=6))
        return list(await asyncio.gather(*sends))

    failed, second, third, fresh = carried_out(scenario)
    assert (failed.type, failed.idempotent) == (INFO, False)
    assert second.idempotent is False and third.idempotent is False
    assert fresh.idempotent is None


def test_what_the_library_turned_away_has_failed_for_certain_and_casts_no_doubt() -> None:
    async def scenario(client: Producer) -> list[Completion]:
        sends = sending(client, 1, 2)
        await asyncio.sleep(0)
        client.libraries[0].reports[1].set_result(Delivered(error="queue_full", refused=True))
        await sends[1]
        client.libraries[0].reports[0].set_result(Delivered(offset=0))
        return list(await asyncio.gather(*sends))

    answered, refused = carried_out(scenario)
    assert (refused.type, refused.error) == (FAIL, "queue_full")
    assert answered.idempotent is None


def test_all_under_way_at_a_renumbering_leaves_the_idempotence_promise() -> None:
    """Rule 6: no record has failed, and yet the library sends some again as new ones."""

    async def scenario(client: Producer) -> list[Completion]:
        sends = sending(client, 0, 1)
        await asyncio.sleep(0)
        library = client.libraries[0]
        library.reports[0].set_result(Delivered(offset=10))
        before = await sends[0]
        library.renumberings += 1
        library.reports[1].set_result(Delivered(offset=12))
        under_way = await sends[1]
        later = sending(client, 2)
        await asyncio.sleep(0)
        library.reports[2].set_result(Delivered(offset=13))
        return [before, under_way, await later[0]]

    assert [one.idempotent for one in carried_out(scenario)] == [None, False, None]


@pytest.mark.parametrize(
    ("acks", "expected"), [("all", (INFO, "acknowledged_without_offset")), ("1", (OK, None)), ("0", (OK, None))]
)
def test_an_acknowledgement_of_all_replicas_without_an_offset_is_none(
    acks: Literal["all", "1", "0"], expected: tuple[str, str | None]
) -> None:
    """DUPLICATE_SEQUENCE_NUMBER is answered before the first attempt is replicated."""

    async def scenario(client: Producer) -> list[Completion]:
        sends = sending(client, 1)
        await asyncio.sleep(0)
        client.libraries[0].reports[0].set_result(Delivered(offset=None))
        return [await sends[0]]

    (told,) = carried_out(scenario, ClientPlan(3, "producer", (0,), (("events", 0),), acks=acks))
    assert (told.type, told.error) == expected
    assert (told.offset, told.sequence, told.idempotent) == (None, 1, None)


def test_a_reopen_abandons_the_instance_and_another_takes_its_place() -> None:
    async def scenario(client: Producer) -> list[Completion]:
        sends = sending(client, 1)
        await asyncio.sleep(0)
        reopened = await client.invoke(Operation(REOPEN, 0, 0, 3, 0))
        old, new = client.libraries
        assert old.abandoned and not new.retired
        sends += sending(client, 2)
        await asyncio.sleep(0)
        old.reports[0].set_result(Delivered(error="closed_in_flight"))
        new.reports[0].set_result(Delivered(offset=0))
        return [reopened, *await asyncio.gather(*sends)]

    reopened, under_way, later = carried_out(scenario)
    assert (reopened.type, reopened.client) == (OK, 10_003)
    assert (under_way.type, under_way.error, under_way.client) == (INFO, "closed_in_flight", 3)
    assert (later.type, later.client, later.sequence, later.idempotent) == (OK, 10_003, 1, None)


def test_closing_waits_for_what_is_left_of_instances_that_were_replaced() -> None:
    async def scenario() -> list[bool]:
        client = Producer()
        await client.open()
        await client.invoke(Operation(REOPEN, 0, 0, 3, 0))
        client.libraries[1].dead = True
        sends = sending(client, 1)
        await asyncio.sleep(0)
        client.libraries[2].reports[0].set_result(Delivered(offset=0))
        await asyncio.gather(*sends)
        await client.close()
        return [one.gone() for one in client.libraries]

    assert asyncio.run(scenario()) == [True, True, True]


def test_what_a_producer_does_not_know_is_refused() -> None:
    async def scenario(client: Producer) -> list[Completion]:
        return [await client.invoke(Operation(DELETE_RECORDS, 0, 0, 3, 0, "events", 0, 1))]

    (told,) = carried_out(scenario)
    assert (told.type, told.error) == (FAIL, "not_offered")
