"""The interpreter: one outstanding operation per process, info means a fresh process, times as they were."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from squall.harness.scenario.interpreter import Interpreter
from squall.harness.scenario.recording import Recorder
from squall.results.history.segments import InvocationRow, read_segment, segment_path
from squall.workloads.core.generator import (
    Answer,
    Context,
    Generator,
    GeneratorError,
    InOrder,
    Limit,
    Rate,
    Reads,
    Writes,
)
from squall.workloads.core.operation import FAIL, INFO, OK, POLL, Completion, Event, Operation

Answers = Callable[[Operation], Awaitable[Completion]]


class Clock:
    def now_ns(self) -> int:
        return time.monotonic_ns()


class FakeClient:
    """Answers as it is told to."""

    def __init__(self, answer: Answers) -> None:
        self.answer = answer

    async def open(self) -> None: ...
    async def setup(self) -> None: ...
    async def teardown(self) -> None: ...
    async def close(self) -> None: ...

    async def invoke(self, operation: Operation) -> Completion:
        return await self.answer(operation)


def interpreter(
    generator: Generator, answer: Answers, threads: int = 4, drain: float = 1.0
) -> tuple[Interpreter, list[Event]]:
    recorded: list[Event] = []
    client = FakeClient(answer)
    made = Interpreter(
        generator,
        dict.fromkeys(range(threads), client),
        dict.fromkeys(range(threads), 0),
        clock=Clock(),
        record=recorded.append,
        total_threads=100,
        drain=drain,
    )
    return made, recorded


async def at_once(operation: Operation) -> Completion:
    return Completion(OK)


async def soon(operation: Operation) -> Completion:
    await asyncio.sleep(0.002)
    return Completion(OK)


def test_every_invocation_is_recorded_before_its_completion() -> None:
    made, recorded = interpreter(Limit(50, Writes("events", 0)), soon)
    asyncio.run(made.run())
    open_operations = set()
    for event in recorded:
        if event.completion is None:
            open_operations.add(event.operation)
        else:
            assert event.operation in open_operations
            open_operations.remove(event.operation)
            assert event.completed is not None and event.completed >= event.invoked
    assert not open_operations and len(recorded) == 100


def test_a_process_has_one_operation_outstanding() -> None:
    busy: set[int] = set()

    async def exclusive(operation: Operation) -> Completion:
        assert operation.process not in busy
        busy.add(operation.process)
        await asyncio.sleep(0.001)
        busy.remove(operation.process)
        return Completion(OK)

    made, recorded = interpreter(Limit(100, Reads("events", 0)), exclusive)
    asyncio.run(made.run())
    assert all(event.completion is None or event.completion.type == OK for event in recorded)


def test_a_thread_whose_operation_is_indeterminate_goes_on_as_a_fresh_process() -> None:
    async def unknown(operation: Operation) -> Completion:
        return Completion(INFO)

    made, recorded = interpreter(Limit(4, Reads("events", 0)), unknown, threads=1)
    asyncio.run(made.run())
    assert [event.operation.process for event in recorded if event.completion is None] == [0, 100, 200, 300]


def test_a_thread_whose_operation_failed_keeps_its_process() -> None:
    async def refused(operation: Operation) -> Completion:
        return Completion(FAIL)

    made, recorded = interpreter(Limit(4, Reads("events", 0)), refused, threads=1)
    asyncio.run(made.run())
    assert {event.operation.process for event in recorded} == {0}


def test_a_client_that_raises_leaves_the_operation_indeterminate() -> None:
    async def broken(operation: Operation) -> Completion:
        raise ValueError("a bug of ours")

    made, recorded = interpreter(Limit(1, Reads("events", 0)), broken)
    asyncio.run(made.run())
    assert recorded[1].completion == Completion(INFO, error="client: ValueError: a bug of ours")


def test_operations_still_open_after_the_drain_stay_open_in_the_history() -> None:
    async def never(operation: Operation) -> Completion:
        await asyncio.Event().wait()
        return Completion(OK)

    async def scenario() -> list[Event]:
        made, recorded = interpreter(Limit(4, Reads("events", 0)), never, drain=0.05)
        asyncio.get_running_loop().call_later(0.05, made.stop)
        await made.run()
        return recorded

    recorded = asyncio.run(scenario())
    assert len(recorded) == 4 and all(event.completion is None for event in recorded)


def test_stop_ends_an_endless_generator_and_lets_open_operations_complete() -> None:
    invoked = 0

    async def until_enough(operation: Operation) -> Completion:
        nonlocal invoked
        invoked += 1
        if invoked == 30:
            made.stop()
        return await soon(operation)

    made, recorded = interpreter(Rate(500, Writes("events", 0)), until_enough)
    asyncio.run(made.run())
    completions = [event for event in recorded if event.completion is not None]
    assert len(completions) * 2 == len(recorded) and 30 <= len(completions) < 34


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Operation(POLL, 9, 9, 0, 0), "thread 9 is not free"),
        (Operation(POLL, 1, 4, 0, 0), "thread 1 is process 1"),
        (Operation(POLL, 1, 1, 0, 2**62), "meant for later than now"),
        (Operation("guess", 1, 1, 0, 0), "unknown function 'guess'"),
    ],
)
def test_a_generator_that_breaks_a_rule_stops_the_run_before_anything_is_done(broken: Operation, rule: str) -> None:
    class Broken:
        def op(self, context: Context) -> tuple[Answer, Generator]:
            return broken, self

        def update(self, context: Context, event: Event) -> Generator:
            return self

    made, recorded = interpreter(Broken(), at_once)
    with pytest.raises(GeneratorError, match=rule):
        asyncio.run(made.run())
    assert recorded == []


def test_values_made_for_every_operation_are_untracked_by_the_collector() -> None:
    made, recorded = interpreter(Limit(1, Writes("events", 0)), at_once)
    asyncio.run(made.run())
    event = recorded[1]
    assert not any(map(gc.is_tracked, (event, event.operation, event.completion)))


def test_the_generators_last_state_is_returned() -> None:
    made, _ = interpreter(InOrder((Limit(3, Writes("events", 0)), Limit(0, Reads("events", 0)))), at_once)
    last = asyncio.run(made.run())
    assert isinstance(last, InOrder)


def test_no_client_acts_before_its_invocation_is_safe_from_process_death(tmp_path: Path) -> None:
    """HX-03: what the file holds is what a killed worker leaves; others may read what was done meanwhile."""
    recorder = Recorder.open(tmp_path, "run", 0)
    missing: list[Operation] = []

    async def looks(operation: Operation) -> Completion:
        written = {row.value for _, row in read_segment(segment_path(tmp_path, 0))[1] if isinstance(row, InvocationRow)}
        if operation.value not in written:
            missing.append(operation)
        # Threads whose operations take none, one or two milliseconds.
        await asyncio.sleep(0.001 * (operation.thread % 3))
        return Completion(OK)

    made, _ = interpreter(Limit(200, Writes("events", 0)), looks, threads=70)
    made.record, made.hand_over = recorder.record, recorder.flush
    asyncio.run(made.run())
    recorder.close()
    assert recorder.rows == 200
    assert missing == []
