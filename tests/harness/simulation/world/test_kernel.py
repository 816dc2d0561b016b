"""The simulation kernel: virtual time for callbacks and coroutines on one heap."""

from __future__ import annotations

import asyncio

import pytest

from squall.harness.simulation.world.kernel import Deadlock, Kernel


def test_time_jumps_to_the_next_event_and_ties_run_in_the_order_of_scheduling() -> None:
    kernel = Kernel()
    seen: list[tuple[int, str]] = []
    kernel.at(50, lambda: seen.append((kernel.now, "second")))
    kernel.at(10, lambda: seen.append((kernel.now, "first")))
    kernel.at(50, lambda: seen.append((kernel.now, "third")))
    while kernel.step():
        pass
    assert seen == [(10, "first"), (50, "second"), (50, "third")]


def test_coroutines_sleep_in_virtual_time() -> None:
    kernel = Kernel()

    async def sleeper() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert kernel.run_until_complete(sleeper()) == 3600.0
    assert kernel.now == 3_600_000_000


def test_wait_for_gather_events_and_queues_work_as_on_the_stock_loop() -> None:
    kernel = Kernel()

    async def main() -> list[object]:
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        done = asyncio.Event()

        async def produce() -> None:
            for number in range(3):
                await queue.put(number)
            done.set()

        async def consume() -> list[int]:
            return [await queue.get() for _ in range(3)]

        _, numbers = await asyncio.gather(produce(), consume())
        await done.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.5)
        return [numbers, kernel.now]

    assert kernel.run_until_complete(main()) == [[0, 1, 2], 500_000]


def test_an_exception_in_a_callback_ends_the_run_with_that_exception() -> None:
    kernel = Kernel()

    def broken() -> None:
        raise ValueError("broken callback")

    kernel.at(5, broken)
    with pytest.raises(ValueError, match="broken callback"):
        kernel.run_for(10)


def test_waiting_for_what_can_never_happen_is_a_deadlock() -> None:
    kernel = Kernel()

    async def forever() -> None:
        await kernel.create_future()

    with pytest.raises(Deadlock):
        kernel.run_until_complete(forever())


def test_a_cancelled_event_does_not_run() -> None:
    kernel = Kernel()
    seen: list[int] = []
    kernel.at(10, seen.append, 1).cancel()
    kernel.at(20, seen.append, 2)
    kernel.run_for(100)
    assert seen == [2]


def test_a_wait_is_never_cut_short_by_a_fraction_of_a_microsecond() -> None:
    """Rates such as 12/s over 32 topic-partitions are due between two microseconds; an early waker spins for ever."""
    kernel = Kernel()

    async def main() -> int:
        due_ns = 2_666_666_666
        turns = 0
        while kernel.now * 1000 < due_ns:
            await asyncio.sleep((due_ns - kernel.now * 1000) / 1e9)
            turns += 1
            assert turns < 3, f"woken early at {kernel.now} µs"
        return kernel.now

    assert kernel.run_until_complete(main()) == 2_666_667
