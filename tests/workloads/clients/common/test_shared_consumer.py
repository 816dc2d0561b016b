"""What the consumers of all real libraries have in common, on an instance that does as the test says."""

from __future__ import annotations

import asyncio
from collections import deque

from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.common.inbox import Run
from squall.workloads.clients.common.shared_consumer import ConsumerInstance, Sessions, SharedConsumer
from squall.workloads.core.operation import FAIL, FINAL_POLL, OK, POLL, Completion, Operation

PLACE = ("events", 0)


class ScriptedInstance(ConsumerInstance):
    """Answers `list_offsets` with what the test has put into `listed`."""

    def __init__(self, sessions: Sessions) -> None:
        super().__init__(sessions)
        self.listed: deque[Completion] = deque()

    async def seek(self, place: tuple[str, int], offset: int) -> Completion:
        raise NotImplementedError

    async def list_offsets(self, place: tuple[str, int]) -> Completion:
        return self.listed.popleft()

    def retire(self) -> None:
        self.finish()

    def gone(self) -> bool:
        return True

    async def ended(self) -> None:
        return None


class ScriptedConsumer(SharedConsumer):
    def start(self, sessions: Sessions) -> ConsumerInstance:
        return ScriptedInstance(sessions)


def answers(f: str, runs: list[Run], listed: list[Completion], polls: int) -> tuple[list[Completion], int]:
    """Of so many polls while `runs` lie in the inbox; and how often where the log starts was not asked for."""

    async def scenario() -> tuple[list[Completion], int]:
        client = ScriptedConsumer(ClientPlan(4, "consumer", (0,), (PLACE,)))
        await client.open()
        instance = client.instance
        assert isinstance(instance, ScriptedInstance)
        instance.listed.extend(listed)
        for run in runs:
            instance.inboxes[PLACE].deliver(run)
        found = [await client.invoke(Operation(f, 0, 0, 4, 0, *PLACE)) for _ in range(polls)]
        await client.close()
        return found, len(instance.listed)

    return asyncio.run(scenario())


def test_the_final_read_asks_once_a_session_where_the_log_starts() -> None:
    """DP-07."""
    runs = [Run(0, [5], [50]), Run(0, error="offset_out_of_range"), Run(1, [9], [90])]
    starts = [Completion(OK, log_start=5), Completion(OK, log_start=9)]
    (first, failed, second), unasked = answers(FINAL_POLL, runs, starts, 3)
    assert (first.offsets, first.session, first.log_start) == ((5,), 0, 5)
    assert failed.type == FAIL
    assert (second.offsets, second.session, second.log_start) == ((9,), 1, 9)
    assert unasked == 0


def test_a_final_poll_that_cannot_learn_the_log_start_fails_and_takes_nothing() -> None:
    listed = [Completion(FAIL, error="timed_out"), Completion(OK, log_start=5)]
    (failed, first), _ = answers(FINAL_POLL, [Run(0, [5, 6], [50, 60])], listed, 2)
    assert (failed.type, failed.error, failed.offsets) == (FAIL, "timed_out", ())
    assert (first.offsets, first.log_start) == ((5, 6), 5)


def test_polls_under_load_do_not_ask_where_the_log_starts() -> None:
    (first,), unasked = answers(POLL, [Run(0, [5], [50])], [Completion(OK, log_start=5)], 1)
    assert (first.offsets, first.log_start, unasked) == ((5,), None, 1)
