"""The control-plane-listener experiment (P20): what is counted as stale, what is sent, and which rules decide."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree

import pytest

from squall.benchmarks.experiments import control_plane_listener as experiment
from squall.benchmarks.experiments.control_plane_listener import (
    ARMS,
    BEYOND,
    FULL,
    LISTENER,
    REJECTED,
    SHARED,
    Losses,
    Window,
    comparisons,
    figures,
    losses,
    lost_records,
    pictures,
)
from squall.benchmarks.experiments.parts.flood import MARK, VERSION, Acknowledged, FloodOptions, Requests
from squall.benchmarks.experiments.parts.stub_controller import Move
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from squall.nodes.protocol.records import crc_ok, parse_records
from squall.nodes.protocol.requests.headers import decode_request, encode_response

MOVES = [Move(2, 10.0, {1: 0.2, 2: 0.01}), Move(1, 20.0, {1: 0.01, 2: 0.01})]


def acknowledged(*rows: tuple[int, int, float]) -> Acknowledged:
    """Records of these numbers, each acknowledged by a broker at a time."""
    numbers, brokers, times = zip(*rows, strict=True)
    return Acknowledged(numbers, numbers, brokers, times)


def test_only_lost_records_of_an_earlier_leader_are_stale() -> None:
    """CL-05: a replaced leader acknowledged it, and it is not in the log at the end."""
    rows = acknowledged(
        (1, 1, 9.9),  # before the move, and no follower had it
        (2, 1, 10.1),  # stale
        (3, 2, 10.1),  # by the new leader, and lost for another reason
        (4, 1, 10.2),  # by the old one, and kept: the new one had fetched it
        (5, 2, 20.1),  # stale, in the second move
        (6, 1, 20.1),
    )
    found = losses(MOVES, rows, kept={4, 6})
    assert (found.stale, found.lost, found.acknowledged) == ([1, 1], 4, 6)


def test_two_brokers_lead_until_the_old_leader_has_obeyed() -> None:
    assert [round(one.two_leaders_s, 3) for one in MOVES] == [0.19, 0.0]


OPTIONS = FloodOptions({1: 9092}, 1, "flood", 5, 1, 1000, "outcome")


def test_each_request_of_the_flood_has_a_number_and_a_right_sum() -> None:
    requests = Requests(OPTIONS)
    for number in range(3):
        frame = requests.next()
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        _, body = decode_request(frame[4:])
        assert isinstance(body, ProduceRequest)
        (part,) = body.topic_data[0].partition_data
        assert part.records is not None and crc_ok(part.records)
        (record,) = parse_records(part.records)
        assert record.value is not None and int.from_bytes(record.value[: len(MARK)], "big") == number
        assert len(record.value) == OPTIONS.record_size


def test_the_error_of_a_response_is_where_the_flood_looks() -> None:
    response = ProduceResponse(responses=[TopicProduceResponse("flood", [PartitionProduceResponse(0, 6, 77)])])
    frame = b"".join(bytes(one) for one in encode_response(ApiKey.PRODUCE, VERSION, 1, response))
    framed = len(frame).to_bytes(4, "big") + frame
    at = Requests(OPTIONS).error_at
    assert (int.from_bytes(framed[at : at + 2], "big"), int.from_bytes(framed[at + 2 : at + 10], "big")) == (6, 77)


def test_the_options_of_a_flood_survive_its_command_line() -> None:
    assert FloodOptions.parse(OPTIONS.command()[-1]) == OPTIONS


def windows(shared: float, own: float, rejected: float, rate: float = 2500.0) -> Mapping[str, Mapping[int, Window]]:
    """Each arm with this control latency, in milliseconds, and throughput; the shared queue's is 2500 a second."""
    latencies, rates = (shared, own, rejected), (2500.0, rate, 2500.0)
    return {
        arm: {outstanding: Window([latency] * 100, [of] * 3, [0.0], [0.0]) for outstanding in (FULL, BEYOND)}
        for arm, latency, of in zip(ARMS, latencies, rates, strict=True)
    }


@pytest.mark.parametrize(
    ("measured", "missed"),
    [
        (windows(200, 2, 100), 0),
        (windows(200, 8, 300), 1),  # not fifty times faster
        (windows(200, 2, 10), 1),  # the rejected design is fast as well
        (windows(900, 2, 100), 1),  # more than what waits explains
        (windows(200, 2, 100, rate=2300), 1),  # data pay for it
        (windows(600, 12, 600), 2),  # slow in itself, and more than what waits explains
    ],
)
def test_the_rules_are_those_of_the_prototype(measured: Mapping[str, Mapping[int, Window]], missed: int) -> None:
    found = [one for one in comparisons(measured) if not one.passed]
    assert len(found) == missed, found


def test_losses_are_judged_by_arm() -> None:
    many, few = Losses(MOVES, [500, 480], 1200, 9000), Losses(MOVES, [3, 4], 700, 9000)
    none = Losses(MOVES, [0, 0], 0, 900)
    assert all(one.passed for one in lost_records({SHARED: many, LISTENER: few}, {SHARED: none, LISTENER: none}))
    failed = [one for one in lost_records({SHARED: few, LISTENER: many}, {LISTENER: few}) if not one.passed]
    assert len(failed) == 3


def test_the_chart_has_every_arm() -> None:
    drawn = pictures(list(figures(windows(200, 2, 100))))["control-plane-listener"]
    text = "".join(ElementTree.fromstring(drawn).itertext())
    assert all(f"{arm}, p99" in text for arm in (SHARED, LISTENER, REJECTED))


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.xdist_group("zookeeper")
@pytest.mark.timeout(600)
def test_the_experiment_runs_on_a_real_ensemble() -> None:
    """P20, CL-05: what does not depend on how busy this machine is."""
    found = {one.name.strip(): one for one in experiment.run(short=True)}
    assert found[f"{SHARED}, acks=1: stale records, acknowledged and lost, a move"].passed
    assert all(found[f"{arm}, acks=all: acknowledged and lost"].measured == 0 for arm in (SHARED, LISTENER))
    assert found["200 outstanding: p50, shared queue to own listener"].measured > 2
