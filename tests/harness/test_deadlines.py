"""A deadline neither loses a cancellation nor leaves work behind."""

from __future__ import annotations

import asyncio

import pytest

from squall.harness.deadlines import raise_if_cancelled, within


async def _returned(result: int) -> int:
    return result


def test_work_within_its_time_gives_its_result() -> None:
    assert asyncio.run(within(1, _returned(7))) == 7


def test_an_error_of_the_work_is_raised() -> None:
    async def failing() -> None:
        raise OSError("refused")

    with pytest.raises(OSError, match="refused"):
        asyncio.run(within(1, failing()))


def test_work_that_takes_longer_is_cancelled_and_has_ended() -> None:
    ended = []

    async def long() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def body() -> None:
        with pytest.raises(TimeoutError):
            await within(0.01, long())
        assert ended == [True]

    asyncio.run(body())


@pytest.mark.parametrize("together", [False, True])
def test_a_cancellation_in_the_moment_in_which_the_work_ends_is_not_lost(together: bool) -> None:
    """With `asyncio.wait_for` of Python 3.11 the task below goes on when both come together."""

    async def body() -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[int] = loop.create_future()
        went_on = []

        async def asks() -> None:
            await within(5, answer)
            went_on.append(True)

        task = loop.create_task(asks())
        await asyncio.sleep(0.01)
        if together:
            answer.set_result(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert went_on == []

    asyncio.run(body())


def test_a_loop_can_notice_a_cancellation_that_was_swallowed() -> None:
    async def body() -> None:
        async def swallows() -> None:
            while True:
                raise_if_cancelled()
                try:
                    # Longer than the test: only a cancellation ends it.
                    await asyncio.sleep(5)
                except asyncio.CancelledError:
                    continue  # as `wait_for` may do

        task = asyncio.get_running_loop().create_task(swallows())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(body())
