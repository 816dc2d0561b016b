"""The benchmark of the control path, shortened: the flood is one, and heartbeats and ISR changes get through it."""

from __future__ import annotations

import pytest

from squall.benchmarks._saturation import ACKS_ALL, produce_frame
from squall.benchmarks.control_path import BAR_MS, Felt, figures, measured
from squall.nodes.protocol.headers import decode_request_body, parse_request_header
from squall.nodes.protocol.messages.produce import ProduceRequest

pytestmark = pytest.mark.xdist_group("clusters")
FELT = Felt(300, 5.0, 40.0, 70.0, 20, 10.0, 51.0, 80.0, 9000.0, fences=0, elections=0)


def test_a_request_of_the_flood_is_one_record_that_waits_for_all_replicas() -> None:
    frame = produce_frame("flooded", 0, 1000)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, body = parse_request_header(frame[4:])
    request = decode_request_body(header, body)
    assert isinstance(request, ProduceRequest)
    assert request.acks == ACKS_ALL
    assert 1000 < len(frame) < 1200


def test_each_of_the_bars_is_held_against_its_figure() -> None:
    judged = {one.name.strip(): one.passed for one in figures("a load", FELT) if one.must is not None}
    assert judged == {
        "heartbeats, p99": True,
        "AlterPartition, p99": False,
        "brokers fenced": True,
        "elections": True,
    }


@pytest.mark.full
def test_control_requests_get_through_a_flood_of_produce_requests() -> None:
    """Show 8 of issue 4, with a bar that a busy machine meets: far below a session, and nobody is fenced."""
    felt = measured(1000, duration_s=6)
    assert felt.requests_per_second > 100
    assert felt.heartbeats > 20
    assert felt.alterations >= 2
    assert felt.heartbeat_p99 < 10 * BAR_MS, felt
    assert felt.alteration_p99 < 20 * BAR_MS, felt
    assert (felt.fences, felt.elections) == (0, 0), felt
