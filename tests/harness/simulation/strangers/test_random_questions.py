"""A client that asks at random moments of the load, in about half of the drawn worlds, and expects nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from squall.harness.simulation.observer.rules.clients import looked_up_offsets
from squall.harness.simulation.observer.rules.clients.reasons_to_refuse import EPOCHS_SINCE
from squall.harness.simulation.run import run
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.strangers.random_questions import NO_EPOCH, VERSIONS, RandomQuestions
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.list_offsets import ListOffsetsPartitionResponse
from squall.nodes.protocol.requests.headers import decode_request, encode_request
from squall.nodes.replication.replica import TopicPartitionReplica

SUITES = Path(__file__).resolve().parents[4] / "suites"


def asked_in(monkeypatch: pytest.MonkeyPatch, seed: int, share: float) -> tuple[run.SimResult, list[RandomQuestions]]:
    monkeypatch.setattr(run, "ASKING", share)
    begun: list[RandomQuestions] = []

    class Counted(RandomQuestions):
        async def run(self) -> None:
            begun.append(self)
            await super().run()

    monkeypatch.setattr(run, "RandomQuestions", Counted)
    return simulate(find_scenario("worlds", SUITES)[0], seed, SimOptions(swarm=True)), begun


def test_it_is_answered_under_faults_and_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []
    check = looked_up_offsets._check_offset

    def counted(
        name: str, replica: TopicPartitionReplica, time: int, told: ListOffsetsPartitionResponse, committed_end: int
    ) -> None:
        judged.append(time)
        check(name, replica, time, told, committed_end)

    monkeypatch.setattr(looked_up_offsets, "_check_offset", counted)
    result, (questions,) = asked_in(monkeypatch, 3, 1.0)
    assert result.verdict == "valid", result.problem
    assert 10 < questions.answered <= questions.asked
    assert min(judged) < 0 < max(judged), "no time was asked for"


def test_only_a_share_of_the_worlds_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as within:
        assert asked_in(within, 3, 0.0)[1] == []
    assert 0 < run.ASKING < 1


def test_it_asks_in_every_version_what_clients_of_that_version_may_ask() -> None:
    """The newest version mostly; an older one cannot say which leader epoch its client knows (KIP-320)."""
    world = SimWorld(ClusterShape(), 1, topics={}, trace=NullTrace())
    questions, asked = RandomQuestions(world, {"events": 1}), Counter[tuple[int, int]]()
    for _ in range(2_000):
        message, version, _ = questions._question("events", 0, world.processes["b1"])
        key = ApiKey(message.API_KEY)
        asked[key, version] += 1
        header, body = decode_request(b"".join(encode_request(key, version, 1, "client", message)))
        assert (header.api_version, type(body)) == (version, type(message))
        if version < EPOCHS_SINCE.get(key, 0):
            assert body.topics[0].partitions[0].current_leader_epoch == NO_EPOCH  # type: ignore[attr-defined]
    world.switch_off()
    assert asked.keys() == {(key, one) for key, (low, high) in VERSIONS.items() for one in range(low, high + 1)}
    assert all(
        asked[key, high] > 0.5 * sum(asked[key, one] for one in range(low, high + 1))
        for key, (low, high) in VERSIONS.items()
    )
