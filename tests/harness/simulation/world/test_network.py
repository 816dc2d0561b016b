"""The simulated network behaves as TCP would show it: order, stalls, resets, refusals."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from squall.harness.simulation.world.connector import SimConnector, SimStream
from squall.harness.simulation.world.kernel import Kernel
from squall.harness.simulation.world.links import NetworkSpeed, RpcRule, Shape
from squall.harness.simulation.world.network import ConnectionEnd, SimNetwork

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
        self.server: Echo = Echo(self.kernel, self.network)
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


@pytest.mark.parametrize("sends", [True, False])
def test_what_is_sent_to_a_dead_process_is_reset_although_its_own_reset_waits(sends: bool) -> None:
    """`worlds` seed 987305: after a long stall a follower waited for seconds, in a whole cluster."""
    bench = Bench(seed=3)

    async def main() -> int:
        stream = await bench.connect()
        bench.network.block("server", "client", "cut")
        await stream.send(b"its echo stalls")
        await asyncio.sleep(8)  # in virtual time, as long as the stall is to be
        bench.network.abandon("server")
        bench.network.unblock("cut")
        began = bench.kernel.now
        if sends:
            await stream.send(b"nobody is there")
        with pytest.raises(ConnectionResetError):
            while True:
                await stream.receive()
        return bench.kernel.now - began

    waited = bench.kernel.run_until_complete(main())
    assert waited < SECOND // 10 if sends else waited > SECOND


def latencies(speed: NetworkSpeed, count: int = 20_000) -> list[int]:
    rng = Random(1)
    return sorted(speed.draw(rng) for _ in range(count))


def test_latencies_have_an_exponential_tail_and_rarely_a_heavy_one() -> None:
    speed = NetworkSpeed(latency=100, jitter=100, spike=3_000, spike_probability=0.001)
    drawn = latencies(speed)
    median, late, latest = drawn[len(drawn) // 2], drawn[len(drawn) * 99 // 100], drawn[-1]
    assert 150 < median < 190 and 450 < late < 700 and latest > 10_000
    assert 5 < sum(one >= 3_000 for one in drawn) < 60


def test_a_late_frame_makes_those_behind_it_late_too() -> None:
    bench = Bench()

    async def main() -> None:
        stream = await bench.connect()
        bench.network.shape("client", "server", "slow", Shape(delay=SECOND))
        await stream.send(b"1")
        bench.network.unshape("slow")
        await stream.send(b"2")
        await stream.receive()

    bench.kernel.run_until_complete(main())
    assert [frame for _, frame in bench.server.heard] == [b"1", b"2"]
    assert bench.server.heard[1][0] >= SECOND


def test_loss_stalls_by_growing_retransmission_timeouts_and_loses_nothing() -> None:
    bench = Bench()

    async def main() -> list[int]:
        stream = await bench.connect()
        bench.network.shape("client", "server", "lossy", Shape(loss=0.5))
        waits = []
        for number in range(200):
            sent = bench.kernel.now
            await stream.send(b"%d" % number)
            await stream.receive()
            waits.append(bench.kernel.now - sent)
        return waits

    waits = bench.kernel.run_until_complete(main())
    assert len(bench.server.heard) == 200
    stalls = {round(wait / 200_000) for wait in waits}
    assert {0, 1, 3, 7} <= stalls, "once 0.2 s, twice 0.2 + 0.4 s, three times 0.2 + 0.4 + 0.8 s"
    assert bench.network.unshape("lossy")[1] > 100


def test_bandwidth_is_shared_by_the_connections_of_a_direction_and_queues_up() -> None:
    bench = Bench()

    async def main() -> None:
        first, second = await bench.connect(), await bench.connect()
        bench.network.shape("client", "server", "narrow", Shape(rate=10_000))
        await first.send(bytes(10_000))
        await second.send(bytes(5_000))
        await first.receive()
        await second.receive()

    bench.kernel.run_until_complete(main())
    times = [when for when, _ in bench.server.heard]
    assert SECOND <= times[0] < 1.1 * SECOND and 1.5 * SECOND <= times[1] < 1.6 * SECOND


def test_shapes_of_several_causes_add_up_and_end_each_by_itself() -> None:
    bench = Bench()
    bench.network.shape("a", "b", "first", Shape(delay=100_000))
    bench.network.shape("a", "b", "second", Shape(delay=200_000))
    assert (bench.network.probe("a", "b", 64) or 0) > 300_000
    assert (bench.network.probe("b", "a", 64) or 0) < 100_000, "the other direction is as it was"
    bench.network.unshape("first")
    assert 200_000 < (bench.network.probe("a", "b", 64) or 0) < 300_000
    bench.network.unshape("second")
    assert (bench.network.probe("a", "b", 64) or 0) < 100_000


def request(api_key: int, correlation: int) -> bytes:
    return api_key.to_bytes(2, "big") + b"\0\x07" + correlation.to_bytes(4, "big") + b"request"


class Server(Echo):
    """Answers each request with its correlation id, as Kafka does."""

    def delivered(self, end: ConnectionEnd, frame: bytes) -> None:
        self.heard.append((self._kernel.now, frame))
        self._network.send(end, frame[4:8] + b"response")


class RpcBench(Bench):
    def __init__(self) -> None:
        super().__init__()
        self.server = Server(self.kernel, self.network)
        self.network.listen("server", 9092, self.server.accept)

    def rule(self, api_key: int, *, responses: bool = False, messages: int | None = None) -> RpcRule:
        rule = RpcRule("server", api_key, responses, frozenset(["client"]), messages)
        self.network.add_rule("rule", rule)
        return rule

    @property
    def asked(self) -> list[int]:
        """The API keys of the requests that arrived."""
        return [frame[1] for _, frame in self.server.heard]


FETCH, ALTER_PARTITION = 1, 56


def test_a_held_request_waits_and_what_is_behind_it_on_its_connection_too() -> None:
    bench = RpcBench()

    async def main() -> None:
        first, second = await bench.connect(), await bench.connect()
        rule = bench.rule(ALTER_PARTITION)
        await first.send(request(FETCH, 1))
        await first.send(request(ALTER_PARTITION, 2))
        await first.send(request(FETCH, 3))
        await second.send(request(FETCH, 4))
        await asyncio.sleep(5)
        assert bench.asked == [FETCH, FETCH], "the first of the held connection, and that of the other"
        assert rule.met == 1 == bench.network.waiting(rule)
        bench.network.remove_rule("rule")
        await asyncio.sleep(0.01)
        assert bench.asked == [FETCH, FETCH, ALTER_PARTITION, FETCH] and not bench.network.waiting(rule)

    bench.kernel.run_until_complete(main())


def test_a_held_request_arrives_late_even_if_its_sender_gave_up() -> None:
    bench = RpcBench()

    async def main() -> None:
        stream = await bench.connect()
        bench.rule(ALTER_PARTITION)
        await stream.send(request(ALTER_PARTITION, 1))
        await asyncio.sleep(1)
        stream.close()
        await asyncio.sleep(1)
        assert bench.asked == [] and bench.server.lost == 0
        bench.network.remove_rule("rule")
        await asyncio.sleep(0.01)

    bench.kernel.run_until_complete(main())
    assert bench.asked == [ALTER_PARTITION] and bench.server.lost == 1


def test_a_held_response_is_recognised_by_its_correlation_id() -> None:
    bench = RpcBench()

    async def main() -> list[bytes]:
        stream, other = await bench.connect(), await bench.connect()
        bench.rule(ALTER_PARTITION, responses=True)
        await stream.send(request(FETCH, 1))
        await stream.send(request(ALTER_PARTITION, 2))
        await other.send(request(FETCH, 2))
        answers = [await stream.receive(), await other.receive()]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.receive(), 5)
        assert bench.asked.count(ALTER_PARTITION) == 1, "the request itself arrived"
        bench.network.remove_rule("rule")
        return [*answers, await stream.receive()]

    answers = bench.kernel.run_until_complete(main())
    assert [answer[3] for answer in answers] == [1, 2, 2]


def test_a_rule_concerns_only_its_sources_and_its_server() -> None:
    bench = RpcBench()
    bench.network.listen("elsewhere", 9092, bench.server.accept)

    async def main() -> None:
        bench.rule(FETCH)
        stranger = await SimConnector(bench.network, "stranger").connect("server", 9092)
        elsewhere = await SimConnector(bench.network, "client").connect("elsewhere", 9092)
        await stranger.send(request(FETCH, 1))
        await elsewhere.send(request(FETCH, 2))
        await stranger.receive()
        await elsewhere.receive()

    bench.kernel.run_until_complete(main())


@pytest.mark.parametrize(
    ("responses", "messages", "arrived", "answered"),
    [
        (False, 0, 0, 0),  # the request is lost
        (False, 1, 1, 0),  # it arrives, and its answer is lost
        (True, 0, 1, 0),  # the answer is lost
        (True, 1, 1, 1),  # it arrives, and the connection is gone then
    ],
)
def test_a_cut_loses_the_request_or_its_answer(responses: bool, messages: int, arrived: int, answered: int) -> None:
    bench = RpcBench()

    async def main() -> int:
        stream = await bench.connect()
        rule = bench.rule(FETCH, responses=responses, messages=messages)
        await stream.send(request(FETCH, 1))
        heard = 0
        with pytest.raises(ConnectionResetError):
            while await stream.receive():
                heard += 1
        assert rule.met == 1
        return heard

    assert bench.kernel.run_until_complete(main()) == answered
    assert len(bench.asked) == arrived
    bench.kernel.run_for(SECOND)
    assert bench.server.lost == 1


def test_a_cut_after_several_messages_counts_anew_after_each_cut() -> None:
    bench = RpcBench()

    async def main() -> None:
        rule = bench.rule(FETCH, messages=3)
        for _ in range(2):
            stream = await bench.connect()
            for number in range(2):
                await stream.send(request(FETCH, number))
                await stream.receive()
            await stream.send(request(FETCH, 3))
            with pytest.raises(ConnectionResetError):
                await stream.receive()
        assert rule.met == 2

    bench.kernel.run_until_complete(main())
    assert len(bench.asked) == 6


def test_nothing_sent_after_a_reset_arrives() -> None:
    bench = RpcBench()

    async def main() -> None:
        stream = await bench.connect()
        (end,) = bench.network.connections("server", "client")
        bench.network.reset(end)
        await stream.send(request(FETCH, 1))
        with pytest.raises(ConnectionResetError):
            await stream.receive()

    bench.kernel.run_until_complete(main())
    assert bench.asked == []


def test_stalls_are_counted_for_each_cause_of_a_block() -> None:
    bench = Bench()

    async def main() -> None:
        stream = await bench.connect()
        bench.network.block("client", "server", "first")
        await stream.send(b"1")
        await stream.send(b"2")
        await asyncio.sleep(1)
        bench.network.unblock("first")
        await stream.receive()

    bench.kernel.run_until_complete(main())
    assert bench.network.stalls_of("first") == 1 and bench.network.stalls_of("other") == 0


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
