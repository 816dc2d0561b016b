"""The workload `idempotence`: which requests are cut and when, and what comes of their repetition (DP-05)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.results.history.segments import read_segment, segment_path
from squall.workloads.idempotence import CUT, Cuts, CuttingConnector, IdempotenceOptions
from squall.workloads.workload import options_from
from tests.facts import naming

PRODUCE, METADATA = b"\x00\x00rest", b"\x00\x03rest"


class Line:
    """A connection that remembers what was sent, and whose answers the test gives."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = False
        self.answer: Callable[[bytes], None] = lambda frame: None

    async def send(self, frame: bytes) -> None:
        assert not self.closed
        self.sent.append(frame)

    def listen(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        self.answer = received

    def close(self) -> None:
        self.closed = True


class Exchange:
    """Gives out lines."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    async def connect(self, host: str, port: int) -> Line:
        self.lines.append(Line())
        return self.lines[-1]


class Ears:
    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.lost: list[str] = []


async def sent(connector: CuttingConnector, *frames: bytes) -> Ears:
    """One new connection over which these go."""
    ears = Ears()
    stream = await connector.connect("b1", 9092)
    stream.listen(ears.heard.append, ears.lost.append)
    for frame in frames:
        await stream.send(frame)
    return ears


def test_produce_requests_are_cut_by_turns_before_and_instead_of_answers() -> None:
    cuts = Cuts(3)
    assert [cuts.next(PRODUCE) for _ in range(12)] == [None, None, "request", None, None, "answer"] * 2
    assert dict(cuts.made) == {"request": 2, "answer": 2}


def test_requests_of_other_kinds_are_neither_cut_nor_counted() -> None:
    cuts = Cuts(2)
    assert [cuts.next(METADATA) for _ in range(10)] == [None] * 10
    assert cuts.requests == 0


def test_a_cut_after_the_request_lets_it_leave() -> None:
    exchange = Exchange()
    ears = asyncio.run(sent(CuttingConnector(exchange, Cuts(2)), PRODUCE, PRODUCE))
    assert exchange.lines[0].sent == [PRODUCE, PRODUCE]
    assert (exchange.lines[0].closed, ears.lost) == (True, [CUT])


def test_a_cut_in_place_of_the_answer_comes_with_the_answer_and_hides_it() -> None:
    exchange, cuts = Exchange(), Cuts(2, requests=2)
    ears = asyncio.run(sent(CuttingConnector(exchange, cuts), PRODUCE, PRODUCE))
    line = exchange.lines[0]
    assert (line.closed, ears.lost) == (False, [])
    line.answer(b"acknowledged")
    assert (line.closed, ears.lost, ears.heard) == (True, [CUT], [])


def test_other_answers_are_heard() -> None:
    exchange = Exchange()
    ears = asyncio.run(sent(CuttingConnector(exchange, Cuts(2)), PRODUCE))
    exchange.lines[0].answer(b"acknowledged")
    assert (ears.heard, ears.lost) == ([b"acknowledged"], [])


def test_what_only_the_native_client_can_do_is_refused_for_others() -> None:
    plain = IdempotenceOptions.model_validate({"name": "idempotence", "client": "confluent"})
    assert options_from(plain.model_dump()) == plain, "as it travels to a load worker"
    with pytest.raises(ValidationError, match=naming("`client: native`")):
        IdempotenceOptions.model_validate({"name": "idempotence", "client": "confluent", "cut_every": 3})


def scenario(*mutants: str) -> Scenario:
    return Scenario.model_validate(
        {
            "scenario": "idempotence",
            "cluster": {
                "topics": {"events": {"partitions": 2, "replication_factor": 3, "min_insync_replicas": 2}},
                "mutants": list(mutants),
            },
            "workload": {"name": "idempotence", "rate": "100/s", "cut_every": 3, "consumers": 1},
            "fault_free": True,
            "time": {"load": "6s", "settle": "10s"},
            "min_acknowledged": 100,
        }
    )


def test_repeated_records_are_in_the_log_once_and_are_all_acknowledged(tmp_path: Path) -> None:
    result = simulate(scenario(), 1, SimOptions(keep=tmp_path))
    assert (result.verdict, result.problem) == ("valid", "")
    _, rows, _ = read_segment(segment_path(tmp_path / "seed-1", 0))
    types = [row.type for _, row in rows if hasattr(row, "type") and getattr(row, "offset", None) is not None]
    assert len(types) > 300 and set(types) == {"ok"}


def test_a_broker_that_answers_a_repetition_with_the_wrong_offset_is_caught() -> None:
    result = simulate(scenario("dedup-wrong-offset"), 1, SimOptions())
    assert result.verdict == "invalid", result.problem
