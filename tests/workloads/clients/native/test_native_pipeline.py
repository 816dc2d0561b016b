"""A native idempotent producer with several batches of one topic-partition in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.records import BatchHeader, parse_records
from squall.nodes.storage.errors import LogError
from squall.nodes.storage.producers import ProducerStates
from squall.workloads.clients.common.payload import decode_value
from squall.workloads.clients.native.native_lanes import PipelinedLane
from squall.workloads.core.operation import FAIL, INFO, OK, REOPEN, SEND, Completion, Operation
from tests.workloads.clients.scripted_brokers import DELAY, NEVER, NODES, WHERE, Brokers, op, produced, told

REOPENING = Operation(REOPEN, 7, 7, 4, 0)
SLOW = 500_000
"""Microseconds after which a response comes, if several batches shall be in flight meanwhile."""


class SequencedLog:
    """A log that accepts and refuses the batches of idempotent producers by the rules of the real brokers."""

    def __init__(self) -> None:
        self.producers = ProducerStates(None, "")  # type: ignore[arg-type]
        self.values: list[int] = []

    def append(self, body: Any) -> Any:
        """The response to a Produce request."""
        header, values = sent(body)
        try:
            duplicate = self.producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.count
            )
        except LogError as refusal:
            return produced(-1, int(ErrorCode[refusal.kind]))
        if duplicate is not None:
            return produced(duplicate.first_offset)
        first = len(self.values)
        self.values += values
        last = len(self.values) - 1
        self.producers.update(header.producer_id, header.producer_epoch, header.base_sequence, first, last, 0)
        return produced(first)


def sent(body: Any) -> tuple[BatchHeader, list[int]]:
    content = bytes(body.topic_data[0].partition_data[0].records)
    return BatchHeader.read(content), [decode_value(record.value) for record in parse_records(content)]


def batches(brokers: Brokers) -> list[tuple[int, int, int]]:
    """Producer id, first sequence number and count of every batch that was sent, in order."""
    headers = [sent(body)[0] for _, body in brokers.of(ApiKey.PRODUCE)]
    return [(one.producer_id, one.base_sequence, one.count) for one in headers]


def produces(answer: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
    """A script for Produce requests, of which it gets the node and the body; others are answered as usual."""
    return lambda node, request: answer(node, request.body) if request.api_key == ApiKey.PRODUCE else None


def refused(code: ErrorCode) -> Any:
    return produced(-1, int(code))


async def several(brokers: Brokers, client: Any, count: int) -> list[asyncio.Future[Completion]]:
    """Begin so many sends, a batch each while there is room: values 70, 71, …"""
    begun = []
    for index in range(count):
        begun.append(asyncio.ensure_future(client.invoke(op(SEND, index, 70 + index))))
        await brokers.pause(0.02)
    return begun


def completed(brokers: Brokers, client: Any, count: int) -> list[Completion]:
    async def course() -> list[Completion]:
        return list(await asyncio.gather(*await several(brokers, client, count)))

    completions: list[Completion] = brokers.run(course())
    return completions


def test_as_many_batches_are_in_flight_as_the_plan_says() -> None:
    brokers, log = Brokers(), SequencedLog()
    client = brokers.client("producer", batches_in_flight=3)
    brokers.script = produces(lambda node, body: (log.append(body), SLOW))

    async def course() -> list[Completion]:
        begun = await several(brokers, client, 5)
        assert batches(brokers) == [(1, 0, 1), (1, 1, 1), (1, 2, 1)]
        return list(await asyncio.gather(*begun))

    completions = brokers.run(course())
    assert [(one.type, one.offset, one.sequence) for one in completions] == [(OK, n, n + 1) for n in range(5)]
    assert batches(brokers)[3:] == [(1, 3, 2)], "records that waited for room go together"
    assert len(brokers.streams) == 2, "one connection for metadata, and one for the topic-partition"


def test_one_batch_is_in_flight_by_default() -> None:
    brokers, log = Brokers(), SequencedLog()
    client = brokers.client("producer")
    brokers.script = produces(lambda node, body: (log.append(body), SLOW))
    completions = completed(brokers, client, 4)
    assert [(one.type, one.offset) for one in completions] == [(OK, offset) for offset in range(4)]
    assert batches(brokers) == [(1, 0, 1), (1, 1, 3)]


def test_batches_without_responses_are_sent_again_and_keep_their_offsets() -> None:
    brokers, log = Brokers(), SequencedLog()
    client = brokers.client("producer", batches_in_flight=5)

    def silent(node: int, body: Any) -> Any:
        log.append(body)
        return NEVER

    async def course() -> list[Completion]:
        brokers.script = produces(silent)
        begun = await several(brokers, client, 5)
        brokers.script = produces(lambda node, body: log.append(body))
        brokers.streams[-1].lost("gone")
        return list(await asyncio.gather(*begun))

    completions = brokers.run(course())
    assert [(one.type, one.offset) for one in completions] == [(OK, offset) for offset in range(5)]
    assert batches(brokers) == [(1, sequence, 1) for sequence in range(5)] * 2
    assert log.values == [70, 71, 72, 73, 74]


def test_a_batch_behind_a_refused_one_is_sent_again_after_it() -> None:
    brokers, log = Brokers(), SequencedLog()
    client = brokers.client("producer", batches_in_flight=5)
    brokers.script = produces(lambda node, body: log.append(body))
    completed(brokers, client, 1)
    refusals = [refused(ErrorCode.NOT_ENOUGH_REPLICAS)]
    brokers.script = produces(lambda node, body: (refusals.pop() if refusals else log.append(body), SLOW))
    completions = completed(brokers, client, 3)
    assert [(one.type, one.offset) for one in completions] == [(OK, 1), (OK, 2), (OK, 3)]
    assert [first for _, first, _ in batches(brokers)] == [0, 1, 2, 3, 1, 2, 3]
    assert log.values == [70, 70, 71, 72]


def test_a_first_batch_out_of_order_is_given_up_with_all_behind_it() -> None:
    brokers, log = Brokers(), SequencedLog()
    client = brokers.client("producer", batches_in_flight=5)
    brokers.script = produces(lambda node, body: (refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), SLOW))
    completions = completed(brokers, client, 3)
    assert [told(one) for one in completions] == [(INFO, "out_of_order_sequence_number")] * 3
    assert [one.sequence for one in completions] == [1, 2, 3]
    brokers.script = produces(lambda node, body: log.append(body))
    assert [one.offset for one in completed(brokers, client, 1)] == [0]
    assert batches(brokers) == [(1, 0, 1), (1, 1, 1), (1, 2, 1), (2, 0, 1)]


def test_a_refused_batch_is_given_up_if_the_next_was_appended() -> None:
    """A broker accepts any sequence number of a producer that it does not know."""
    brokers, log = Brokers(), SequencedLog()
    client = brokers.client("producer", batches_in_flight=5)
    refusals = [refused(ErrorCode.NOT_ENOUGH_REPLICAS)]
    brokers.script = produces(lambda node, body: (refusals.pop() if refusals else log.append(body), SLOW))
    first, second, third = completed(brokers, client, 3)
    assert told(first) == (INFO, "out_of_order_sequence_number")
    assert [(one.type, one.offset) for one in (second, third)] == [(OK, 0), (OK, 1)]
    assert log.values == [71, 72]
    assert [one.offset for one in completed(brokers, client, 1)] == [2]
    assert batches(brokers) == [(1, 0, 1), (1, 1, 1), (1, 2, 1), (1, 0, 1), (2, 0, 1)]


def test_duplicates_without_offsets_are_acknowledged() -> None:
    brokers = Brokers()
    client = brokers.client("producer", batches_in_flight=2)
    brokers.script = produces(lambda node, body: (refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), SLOW))
    completions = completed(brokers, client, 2)
    assert [(one.type, one.offset) for one in completions] == [(OK, None)] * 2
    assert len(batches(brokers)) == 2


def test_batches_follow_the_leader_with_the_same_sequence_numbers() -> None:
    brokers, log = Brokers(), SequencedLog()
    client = brokers.client("producer", batches_in_flight=5)

    def script(node: int, body: Any) -> Any:
        brokers.leader, brokers.epoch = 2, 4
        return (log.append(body), DELAY) if node == 2 else (refused(ErrorCode.NOT_LEADER_OR_FOLLOWER), SLOW)

    brokers.script = produces(script)
    completions = completed(brokers, client, 3)
    assert [(one.offset, one.node, one.leader_epoch) for one in completions] == [(n, 2, 4) for n in range(3)]
    assert [node for node, _ in brokers.of(ApiKey.PRODUCE)] == [1, 1, 1, 2, 2, 2]
    assert batches(brokers) == [(1, 0, 1), (1, 1, 1), (1, 2, 1)] * 2


def test_batches_before_one_that_is_given_up_keep_their_producer_id() -> None:
    """Records after it wait until those before it are settled: a retry may not overtake them."""
    brokers, log = Brokers(), SequencedLog()
    client = brokers.client("producer", batches_in_flight=3)
    refusals = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    brokers.script = produces(lambda node, body: (refused(refusals.pop(0)) if refusals else log.append(body), SLOW))
    completions = completed(brokers, client, 4)
    assert [told(one) for one in completions[1:3]] == [
        (INFO, "message_too_large"),
        (INFO, "out_of_order_sequence_number"),
    ]
    assert [(completions[n].type, completions[n].offset) for n in (0, 3)] == [(OK, 0), (OK, 1)]
    assert batches(brokers) == [(1, 0, 1), (1, 1, 1), (1, 2, 1), (1, 0, 1), (2, 0, 1)]
    assert log.values == [70, 73]


def test_a_success_behind_a_failure_is_settled_and_not_sent_again() -> None:
    brokers = Brokers()
    client = brokers.client("producer", batches_in_flight=5)
    answers = [refused(ErrorCode.NOT_ENOUGH_REPLICAS), produced(11), refused(ErrorCode.NOT_ENOUGH_REPLICAS)]
    brokers.script = produces(lambda node, body: (answers.pop(0) if answers else produced(20), SLOW))
    completions = completed(brokers, client, 3)
    assert [(one.type, one.offset) for one in completions] == [(OK, 20), (OK, 11), (OK, 20)]
    assert [first for _, first, _ in batches(brokers)] == [0, 1, 2, 0, 2]


def test_batches_that_time_out_are_info_and_end_the_producer_id() -> None:
    brokers, log = Brokers(), SequencedLog()
    client = brokers.client("producer", batches_in_flight=2)
    brokers.script = produces(lambda node, body: NEVER)
    completions = completed(brokers, client, 3)
    assert [told(one)[0] for one in completions] == [INFO, INFO, FAIL]
    assert told(completions[2]) == (FAIL, "never_transmitted")
    assert {one[:2] for one in batches(brokers)} == {(1, 0), (1, 1)}
    brokers.script = produces(lambda node, body: log.append(body))
    assert [one.offset for one in completed(brokers, client, 1)] == [0]
    assert batches(brokers)[-1] == (2, 0, 1)


@pytest.mark.parametrize("reopened", [False, True])
def test_closing_leaves_transmitted_batches_open_and_fails_others(reopened: bool) -> None:
    brokers = Brokers()
    client = brokers.client("producer", batches_in_flight=2)
    brokers.script = produces(lambda node, body: NEVER)

    async def course() -> list[Completion]:
        begun = await several(brokers, client, 3)
        await (client.invoke(REOPENING) if reopened else client.close())
        return list(await asyncio.gather(*begun))

    completions = brokers.run(course())
    assert [told(one) for one in completions] == [
        (INFO, "closed_in_flight"),
        (INFO, "closed_in_flight"),
        (FAIL, "closed_before_sending"),
    ]
    assert len(batches(brokers)) == 2


def test_a_closed_lane_refuses_records() -> None:
    brokers = Brokers()
    client = brokers.client("producer", batches_in_flight=2)
    brokers.run(client.close())
    assert told(brokers.run(client.invoke(op(SEND, 0, 70)))) == (FAIL, "closed_before_sending")
    assert brokers.asked == []


@pytest.mark.parametrize("broken", ["_request", "_round"])
def test_after_a_bug_of_ours_records_are_settled_and_others_follow(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    brokers, log = Brokers(), SequencedLog()
    client = brokers.client("producer", batches_in_flight=2)
    brokers.script = produces(lambda node, body: log.append(body))

    def raises(*_: Any) -> Any:
        raise RuntimeError("a bug of ours")

    with monkeypatch.context() as patched:
        patched.setattr(PipelinedLane, broken, raises)
        assert told(completed(brokers, client, 1)[0]) == (FAIL, "client: RuntimeError: a bug of ours")
    assert [one.offset for one in completed(brokers, client, 1)] == [0]


def test_sequence_numbers_wrap() -> None:
    brokers, log = Brokers(), SequencedLog()
    client: Any = brokers.client("producer", batches_in_flight=5)
    brokers.script = produces(lambda node, body: (log.append(body), SLOW))
    lane = client.instance.lanes[WHERE]
    lane.identity, lane.next_sequence = (9, 0), 2**31 - 2
    assert [one.offset for one in completed(brokers, client, 4)] == [0, 1, 2, 3]
    assert [first for _, first, _ in batches(brokers)] == [2**31 - 2, 2**31 - 1, 0, 1]


@pytest.mark.parametrize("seed", range(30))
def test_records_are_appended_once_and_in_order_whatever_fails(seed: int) -> None:
    """Leaders move, connections break, responses are late, missing or errors, before the append and after it."""
    rng = Random(seed)
    brokers, log = Brokers(), SequencedLog()
    client = brokers.client("producer", batches_in_flight=rng.randint(2, 5))
    healed = False

    def script(node: int, body: Any) -> Any:
        if rng.random() < 0.1:
            brokers.leader = rng.choice(NODES)
            brokers.epoch += 1
        if healed or rng.random() < 0.6:
            return log.append(body), rng.choice((1_000, 30_000, 30_000))
        if rng.random() < 0.5:
            return refused(rng.choice((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER)))
        if rng.random() < 0.5:
            log.append(body)
        return NEVER if rng.random() < 0.3 else refused(ErrorCode.REQUEST_TIMED_OUT)

    async def course() -> list[Completion]:
        nonlocal healed
        brokers.script = produces(script)
        begun = []
        for index in range(60):
            begun.append(asyncio.ensure_future(client.invoke(op(SEND, index % 8, index))))
            await brokers.pause(rng.choice((0.001, 0.05, 0.2)))
            if rng.random() < 0.1:
                stream = rng.choice(brokers.streams)
                stream.lost("gone")
        healed = True
        return list(await asyncio.gather(*begun))

    completions = brokers.run(course())
    assert len(set(log.values)) == len(log.values)
    acknowledged = [value for value, one in enumerate(completions) if one.type == OK]
    offsets = [completions[value].offset for value in acknowledged]
    assert len(acknowledged) > 5
    assert all(one.type != FAIL or one.error == "never_transmitted" for one in completions)
    transmitted = {value for _, body in brokers.of(ApiKey.PRODUCE) for value in sent(body)[1]}
    assert not transmitted & {value for value, one in enumerate(completions) if one.type == FAIL}
    assert [log.values[offset] for offset in offsets if offset is not None] == acknowledged
    assert offsets == sorted(offset for offset in offsets if offset is not None)


CUT_RESPONSES = {"fault": "rpc-cut", "api": "Produce", "direction": "response", "messages": 0}


def scenario(*mutants: str) -> Scenario:
    return Scenario.model_validate(
        {
            "scenario": "pipelined",
            "cluster": {
                "topics": {"events": {"partitions": 1, "replication_factor": 3, "min_insync_replicas": 2}},
                "mutants": list(mutants),
            },
            "workload": {"name": "log", "producers": 2, "consumers": 1, "rate": "200/s", "batches_in_flight": 5},
            "nemesis": [
                {"fault": "slow-link", "target": "leader of events/0", "latency": "20ms", "at": "1s", "for": "4s"},
                {**CUT_RESPONSES, "to": "leader of events/0", "at": "2s", "for": "2s"},
                {"fault": "kill", "target": "leader of events/0", "at": "4s", "for": "2s"},
            ],
            "time": {"load": "6s", "settle": "15s"},
            "min_acknowledged": 100,
        }
    )


def test_real_brokers_recognise_all_batches_that_were_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    in_flight: list[int] = []
    again: list[int] = []
    start = PipelinedLane._start

    def seen(self: PipelinedLane, batch: Any, *arguments: Any) -> None:
        in_flight.append(len(self.flight))
        if batch.transmitted:
            again.append(batch.base_sequence)
        start(self, batch, *arguments)

    monkeypatch.setattr(PipelinedLane, "_start", seen)
    result = simulate(scenario(), 1, SimOptions())
    assert (result.verdict, result.problem) == ("valid", "")
    assert max(in_flight) == 5
    assert len(set(again)) > 5


def test_wrong_offsets_of_repeated_batches_are_caught() -> None:
    result = simulate(scenario("dedup-wrong-offset"), 1, SimOptions())
    assert result.verdict == "invalid", result.problem
