"""The simulated network behaves as TCP would show it: order, stalls, resets, refusals."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from squall.harness.simulation.connector import SimConnector, SimStream
from squall.harness.simulation.kernel import Kernel
from squall.harness.simulation.network import ConnectionEnd, SimNetwork

SECOND = 1_000_000


class Echo:
    """A server that answers every frame with itself and remembers what it heard and when."""

    def __init__(self, kernel: Kernel, network: SimNetwork) -> None:
        self.heard: list[tuple[int, bytes]] = []
        self.lost = 0
        self._kernel = kernel
        self._network = network

    def accept(self, end: ConnectionEnd) -> Echo:
        return self

    def connected(self, end: ConnectionEnd) -> None:
        return None

    def delivered(self, end: ConnectionEnd, frame: bytes) -> None:
        self.heard.append((self._kernel.now, frame))
        self._network.send(end, frame)

    def disconnected(self, end: ConnectionEnd) -> None:
        self.lost += 1


class Bench:
    def __init__(self, seed: int = 1) -> None:
        self.kernel = Kernel()
        self.network = SimNetwork(self.kernel, Random(seed))
        self.server = Echo(self.kernel, self.network)
        self.network.listen("server", 9092, self.server.accept)

    async def connect(self) -> SimStream:
        return await SimConnector(self.network, "client").connect("server", 9092)


@pytest.mark.parametrize("seed", range(5))
def test_frames_arrive_in_the_order_they_were_sent(seed: int) -> None:
    bench = Bench(seed)

    async def main() -> list[bytes]:
        stream = await bench.connect()
        for number in range(50):
            await stream.send(b"%d" % number)
        return [await stream.receive() for _ in range(50)]

    assert bench.kernel.run_until_complete(main()) == [b"%d" % number for number in range(50)]


def test_a_block_stalls_frames_and_lifting_it_lets_them_through_in_order() -> None:
    bench = Bench()

    async def main() -> list[bytes]:
        stream = await bench.connect()
        bench.network.block("client", "server", "cut")
        await stream.send(b"1")
        await stream.send(b"2")
        await asyncio.sleep(3)
        assert not bench.server.heard
        bench.network.unblock("cut")
        return [await stream.receive(), await stream.receive()]

    assert bench.kernel.run_until_complete(main()) == [b"1", b"2"]
    assert 3 * SECOND < bench.server.heard[0][0] <= 7 * SECOND


def test_a_one_way_block_holds_answers_but_not_requests() -> None:
    bench = Bench()

    async def main() -> None:
        stream = await bench.connect()
        bench.network.block("server", "client", "deaf")
        await stream.send(b"request")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.receive(), 2)

    bench.kernel.run_until_complete(main())
    assert [frame for _, frame in bench.server.heard] == [b"request"]


def test_a_connection_stalled_beyond_the_user_timeout_is_reset_at_both_ends() -> None:
    bench = Bench()

    async def main() -> None:
        stream = await bench.connect()
        bench.network.block("client", "server", "cut")
        await stream.send(b"never heard")
        with pytest.raises(ConnectionResetError):
            await stream.receive()

    bench.kernel.run_until_complete(main())
    bench.kernel.run_for(SECOND)
    assert bench.server.lost == 1 and bench.network.resets == 1


def test_a_block_with_two_causes_lasts_until_both_are_lifted() -> None:
    bench = Bench()
    bench.network.block("a", "b", "first")
    bench.network.block("a", "b", "second")
    bench.network.unblock("first")
    assert bench.network.blocked("a", "b")
    bench.network.unblock("second")
    assert not bench.network.blocked("a", "b")


def test_connecting_is_refused_without_a_listener_and_times_out_through_a_block() -> None:
    bench = Bench()

    async def main() -> tuple[int, int]:
        with pytest.raises(ConnectionRefusedError):
            await SimConnector(bench.network, "client").connect("server", 1)
        refused = bench.kernel.now
        bench.network.block("server", "client", "cut")
        with pytest.raises(ConnectionRefusedError):
            await bench.connect()
        return refused, bench.kernel.now - refused

    refused, timed_out = bench.kernel.run_until_complete(main())
    assert refused < 100_000 < 2 * SECOND < timed_out


def test_the_peer_of_a_dead_process_hears_of_it() -> None:
    bench = Bench()

    async def main() -> None:
        stream = await bench.connect()
        bench.network.abandon("server")
        with pytest.raises(ConnectionResetError):
            await stream.receive()

    bench.kernel.run_until_complete(main())


def test_equal_seeds_give_equal_digests_and_others_do_not() -> None:
    def digest(seed: int) -> str:
        bench = Bench(seed)

        async def main() -> None:
            stream = await bench.connect()
            for number in range(20):
                await stream.send(b"%d" % number)
                await stream.receive()

        bench.kernel.run_until_complete(main())
        return bench.network.digest

    assert digest(7) == digest(7)
    assert digest(7) != digest(8)
