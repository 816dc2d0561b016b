"""The workload `metadata`: what is done to a topic by whom, what is never done, and what readers are told (MD-04)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.nodes.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from squall.results.history import rows
from squall.results.history.segments import RegisterCompletion, RegisterInvocation, read_segment, segment_path
from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.native.native_metadata import KEY, READ_SECONDS, MetadataClient, barrier_of, value_of
from squall.workloads.clients.native.operator import DESCRIBE_CONFIGS_VERSION, TOPIC_RESOURCE
from squall.workloads.core.generator import Context, Generator, Pending, Writes
from squall.workloads.core.operation import (
    ABSENT,
    CAS,
    FAIL,
    INFO,
    OK,
    READ,
    REGISTER,
    UNREADABLE_VALUE,
    WRITE,
    Completion,
    Event,
    Operation,
)
from squall.workloads.log import final_states
from squall.workloads.metadata import Bursts, Lane, MetadataOptions, MetadataWorkload, topic_name

THREADS = (0, 1, 2)
DONE = Completion(OK)
LOST_RACE = Completion(INFO, error="topic_already_exists")
NO_ANSWER = Completion(INFO, error="request_timed_out")


class Hand:
    """Drives one lane: every free thread is asked, and answers are given as the test says."""

    def __init__(self, alters: int = 2) -> None:
        self.generator: Generator = Lane(0, THREADS, alters)
        self.busy: dict[int, Operation] = {}
        self.made: list[Operation] = []

    def context(self) -> Context:
        free = sum(1 << thread for thread in THREADS if thread not in self.busy)
        processes = {thread: thread + 10 * len(self.made) for thread in THREADS}
        return Context(0, free, 0b111, processes, dict.fromkeys(THREADS, 0))

    def ask(self) -> list[Operation]:
        """All that can be begun now."""
        begun: list[Operation] = []
        while True:
            answer, self.generator = self.generator.op(self.context())
            if not isinstance(answer, Operation):
                return begun
            self.busy[answer.thread] = answer
            self.made.append(answer)
            begun.append(answer)
            self.generator = self.generator.update(self.context(), Event(answer, 0))

    def answer(self, operation: Operation, completion: Completion) -> None:
        del self.busy[operation.thread]
        self.generator = self.generator.update(self.context(), Event(operation, 0, completion, 1))

    def round(self, **answers: Completion) -> list[Operation]:
        """Ask, and answer everything: `ok`, or what is said for a function."""
        begun = self.ask()
        for operation in begun:
            self.answer(operation, answers.get(operation.f, DONE))
        return begun


def shape(operations: list[Operation]) -> list[tuple[str, int]]:
    return sorted((one.f, one.thread) for one in operations)


def test_a_topic_is_raced_for_read_altered_and_deleted_by_one_then_read() -> None:
    hand = Hand(alters=1)
    everybody_reads = [(READ, 0), (READ, 1), (READ, 2)]
    assert shape(hand.round()) == [(CAS, 0), (CAS, 1), (CAS, 2)]
    assert shape(hand.round()) == everybody_reads
    altering = hand.round()
    assert shape(altering) == [(READ, 1), (READ, 2), (WRITE, 0)] and altering[0].value != ABSENT
    deleting = hand.round()
    assert shape(deleting) == [(READ, 1), (READ, 2), (WRITE, 0)] and deleting[0].value == ABSENT
    assert shape(hand.round()) == everybody_reads
    assert {one.topic for one in hand.made} == {topic_name(0, 0)}
    assert {one.topic for one in hand.round()} == {topic_name(0, 1)}


def test_everybody_in_a_lane_acts_at_the_same_moment_and_the_rate_is_kept() -> None:
    generator: Generator = Bursts(6.0, 3, Writes("idle", 0))
    context = Context(0, 0b111, 0b111, {thread: thread for thread in THREADS}, dict.fromkeys(THREADS, 0))
    due = []
    for _ in range(2):
        for _ in THREADS:
            answer, generator = generator.op(context)
            assert isinstance(answer, Operation)
            due.append(answer.at)
        answer, generator = generator.op(context)
        assert isinstance(answer, Pending) and answer.until is not None
        context = replace(context, now=answer.until)
    assert due == [0, 0, 0, 500_000_000, 500_000_000, 500_000_000]


def test_creations_expect_nothing_to_be_there_and_no_value_is_used_twice() -> None:
    hand = Hand()
    for _ in range(40):
        hand.round()
    creations = [one for one in hand.made if one.f == CAS]
    assert creations and all(one.expected == ABSENT for one in creations)
    values = [one.value for one in hand.made if one.value is not None and one.value != ABSENT]
    assert len(values) == len(set(values)) and all(value >= 0 for value in values)


def test_nobody_deletes_or_alters_while_another_change_of_the_topic_is_open() -> None:
    hand = Hand()
    first, *others = hand.ask()
    for one in others:
        hand.answer(one, DONE)
    assert hand.ask() == [], "a creation is still open"
    hand.answer(first, LOST_RACE)
    assert {one.f for one in hand.ask()} == {READ}


def test_a_lost_race_is_over_and_the_topic_lives_on() -> None:
    hand = Hand()
    begun = hand.ask()
    for one, completion in zip(begun, (LOST_RACE, DONE, LOST_RACE), strict=True):
        hand.answer(one, completion)
    hand.round()
    assert WRITE in {one.f for one in hand.ask()}


def changes_after(hand: Hand, topic: str | None, rounds: int = 12) -> list[Operation]:
    """Changes of that topic in what comes."""
    return [one for _ in range(rounds) for one in hand.round() if one.topic == topic and one.f != READ]


def test_a_topic_with_a_creation_in_doubt_is_read_and_never_changed_again() -> None:
    hand = Hand()
    begun = hand.ask()
    for one, completion in zip(begun, (DONE, NO_ANSWER, LOST_RACE), strict=True):
        hand.answer(one, completion)
    topic = begun[0].topic
    looked = hand.round()
    assert {(one.f, one.topic) for one in looked} == {(READ, topic)}
    assert changes_after(hand, topic) == []


@pytest.mark.parametrize("in_doubt", ["alter", "delete"])
def test_a_topic_with_another_change_in_doubt_is_read_and_never_changed_again(in_doubt: str) -> None:
    hand = Hand(alters=2)
    topic = topic_name(0, 0)
    for _ in range(20):
        begun = hand.ask()
        doubtful = [one for one in begun if one.f == WRITE and (one.value == ABSENT) == (in_doubt == "delete")]
        for one in begun:
            hand.answer(one, NO_ANSWER if one in doubtful else DONE)
        if doubtful:
            break
    assert changes_after(hand, topic) == []
    assert any(one.f == READ and one.topic == topic for one in hand.made[-40:])


def test_a_topic_that_nobody_could_create_is_left_alone() -> None:
    hand = Hand()
    hand.round(cas=Completion(FAIL, error="not_connected"))
    assert {one.f for one in hand.round()} == {READ}
    assert {(one.f, one.topic) for one in hand.round()} == {(CAS, topic_name(0, 1))}


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_thread_belongs_to_one_client_of_one_worker(workers: int) -> None:
    plan = MetadataWorkload(MetadataOptions.model_validate({"name": "metadata", "lanes": 3}), {"idle": 1})
    shards = [plan.shard(worker, workers) for worker in range(workers)] + [plan.final_shard()]
    clients = [client for shard in shards for client in shard.clients]
    assert sorted(thread for client in clients for thread in client.threads) == list(range(plan.total_threads))
    assert len({client.client for client in clients}) == len(clients)


def test_the_history_calls_it_by_the_same_names_and_numbers() -> None:
    assert ABSENT == rows.ABSENT
    assert set(REGISTER) == set(rows.REGISTER_FUNCTIONS)


# --- what a reader is told -------------------------------------------------------------------------------------------


class Broker:
    """One broker's answers: how many looks it takes to show a barrier, and what the register is in each of them."""

    def __init__(self, behind: int, told: list[str | None], missing: bool = False) -> None:
        self.behind = behind
        self.told = told
        self.missing = missing
        self.barrier = "7"
        self.looks = 0
        self.bootstrap = (("b1", 9092),)
        self.asked: list[list[str]] = []

    async def connection(self, address: object, purpose: object) -> None: ...

    async def ask(self, address: object, purpose: object, request: Any, *_: object) -> Any:
        if isinstance(request, IncrementalAlterConfigsRequest):
            (change,) = request.resources
            self.barrier = change.configs[0].value or ""
            return IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(0, None, 2, "barrier")])
        assert isinstance(request, DescribeConfigsRequest)
        self.looks += 1
        names = [one.resource_name for one in request.resources]
        self.asked.append(names)
        barrier = self.barrier if self.looks > self.behind else "7"
        register = self.told[min(self.looks, len(self.told)) - 1]
        return DescribeConfigsResponse(
            results=[self._result(names[0], barrier), self._result(names[1], register, self.missing)]
        )

    @staticmethod
    def _result(name: str, value: str | None, missing: bool = False) -> DescribeConfigsResult:
        if missing:
            return DescribeConfigsResult(error_code=3, resource_type=2, resource_name=name)
        told = DescribeConfigsResourceResult(name=KEY, value=value or "604800000", config_source=1 if value else 5)
        return DescribeConfigsResult(resource_type=2, resource_name=name, configs=[told])


class Clock:
    """Every look at it takes a tenth of a second."""

    def __init__(self) -> None:
        self.now = 0

    def now_ns(self) -> int:
        self.now += 100_000_000
        return self.now


def read_from(broker: Broker) -> Completion:
    leaders: Any = broker
    clock: Any = Clock()
    admin: Any = None
    client = MetadataClient(ClientPlan(0, "metadata", (0,), ()), leaders, admin, clock)

    async def scenario() -> Completion:
        return await client.invoke(Operation(READ, 0, 0, 0, 0, "metadata-0-0", register="topic metadata-0-0"))

    return asyncio.run(scenario())


def test_a_reader_believes_nothing_before_the_broker_shows_its_barrier() -> None:
    broker = Broker(behind=2, told=["1", "2", "3"])
    completion = read_from(broker)
    assert (completion.type, completion.found) == (OK, 3)
    assert broker.looks == 3


def test_barrier_and_register_are_asked_for_together_the_barrier_first() -> None:
    broker = Broker(behind=0, told=["1"])
    read_from(broker)
    assert broker.asked == [[barrier_of(0), "metadata-0-0"]]


def test_a_broker_that_stays_behind_fails_the_read() -> None:
    completion = read_from(Broker(behind=10_000, told=["1"]))
    assert (completion.type, completion.found, completion.error) == (FAIL, None, "broker_is_behind")


def test_a_topic_that_is_not_there_is_a_register_that_holds_nothing() -> None:
    assert read_from(Broker(behind=0, told=[None], missing=True)).found == ABSENT


def test_a_topic_without_its_value_is_read_again_before_it_is_believed() -> None:
    assert read_from(Broker(behind=0, told=[None, "5"])).found == 5
    lasting = Broker(behind=0, told=[None])
    assert read_from(lasting).found == UNREADABLE_VALUE
    assert lasting.looks > READ_SECONDS


# --- against a cluster -----------------------------------------------------------------------------------------------


def scenario(nemesis: list[dict[str, Any]]) -> Scenario:
    return Scenario.model_validate(
        {
            "scenario": "metadata",
            "cluster": {"topics": {"idle": {"partitions": 1, "replication_factor": 3, "min_insync_replicas": 2}}},
            "workload": {"name": "metadata", "rate": "40/s"},
            "nemesis": nemesis,
            "fault_free": not nemesis,
            "time": {"load": "15s", "settle": "20s"},
            "checks": ["registers"],
        }
    )


FAULTS = [
    {"fault": "kill", "target": "active controller", "at": "3s", "for": "3s"},
    {"fault": "isolate", "target": "b2", "at": "7s", "for": "5s"},
]


def test_without_faults_everything_is_acknowledged_but_races_that_were_lost(tmp_path: Path) -> None:
    result = simulate(scenario([]), 1, SimOptions(keep=tmp_path))
    assert (result.verdict, result.problem) == ("valid", "")
    told: Counter[tuple[str, str, str | None]] = Counter()
    begun: dict[int, RegisterInvocation] = {}
    _, segment, _ = read_segment(segment_path(tmp_path / "seed-1", 0))
    for _, row in segment:
        if isinstance(row, RegisterInvocation):
            begun[row.process] = row
        elif isinstance(row, RegisterCompletion):
            told[begun[row.process].f, row.type, row.error] += 1
    assert set(told) == {
        (CAS, "ok", None),
        (CAS, "info", "topic_already_exists"),
        (WRITE, "ok", None),
        (READ, "ok", None),
    }
    assert all(count > 20 for count in told.values()), told


@pytest.mark.parametrize("seed", [1, 2])
def test_failovers_leave_one_history(seed: int) -> None:
    result = simulate(scenario(FAULTS), seed, SimOptions())
    assert (result.verdict, result.problem) == ("valid", "")


async def without_barrier(self: MetadataClient, address: Any, operation: Operation) -> Completion:
    """What the broker says, however old it is."""
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(TOPIC_RESOURCE, operation.topic or "", [KEY])])
    answer = await self.leaders.ask(
        address, operation.thread, request, DESCRIBE_CONFIGS_VERSION, DescribeConfigsResponse, 3.0
    )
    return Completion(OK, found=value_of(answer.results[0]))


def test_readers_that_ask_without_a_barrier_see_the_past_and_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a register that showed an old value would not go unnoticed; and why reads need the barrier."""
    monkeypatch.setattr(MetadataClient, "_read", without_barrier)
    behind = [{"fault": "rpc-hold", "api": "Fetch", "from": "b2", "to": "active controller", "at": "3s", "for": "8s"}]
    result = simulate(scenario(behind), 1, SimOptions())
    assert result.verdict == "invalid", result.problem
    assert "register" in " ".join(result.broken)
    assert result.problem and any("under fault" in line or "rpc-hold" in line for line in result.witness), (
        result.witness
    )


def test_the_same_readers_with_their_barrier_are_not_fooled() -> None:
    behind = [{"fault": "rpc-hold", "api": "Fetch", "from": "b2", "to": "active controller", "at": "3s", "for": "8s"}]
    result = simulate(scenario(behind), 1, SimOptions())
    assert (result.verdict, result.problem) == ("valid", "")


def test_the_last_look_tells_how_far_it_came() -> None:
    plan = MetadataWorkload(MetadataOptions.model_validate({"name": "metadata", "lanes": 2}), {})
    shard = plan.final_shard()
    threads = shard.clients[0].threads
    processes = {thread: thread for thread in threads}
    mask = sum(1 << thread for thread in threads)
    context = Context(0, mask, mask, processes, dict.fromkeys(threads, 0))
    generator = shard.generator
    answer, generator = generator.op(context)
    assert isinstance(answer, Operation) and answer.f == READ
    generator = generator.update(context, Event(answer, 0))
    generator = generator.update(context, Event(answer, 0, Completion(OK, found=ABSENT), 1))
    assert sorted(state.complete for state in final_states(generator)) == [False, True]
