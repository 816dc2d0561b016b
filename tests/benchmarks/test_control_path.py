"""The benchmark of the control path, shortened: the flood is one, and heartbeats and ISR changes get through it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from squall.benchmarks.control_path import BAR_MS, Felt, figures, measured
from squall.benchmarks.parts.saturation import ACKS_ALL, produce_frame
from squall.benchmarks.parts.sleeper import longest_stall_ms
from squall.nodes.protocol.messages.produce import ProduceRequest
from squall.nodes.protocol.requests.headers import decode_request_body, parse_request_header

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
    judged = {one.name.strip(): one.passed for one in figures("a load", [FELT]) if one.must is not None}
    assert judged == {
        "heartbeats, p99": True,
        "AlterPartition, p99": False,
        "brokers fenced": True,
        "elections": True,
    }


def test_over_rounds_times_are_medians_and_forbidden_events_are_summed() -> None:
    rounds = [
        replace(FELT, alteration_p99=20.0),
        replace(FELT, alteration_p99=49.0, alteration_longest=90.0),
        replace(FELT, fences=1),
    ]
    found = {one.name.strip(): one for one in figures("a load", rounds)}
    assert found["AlterPartition, p99"].measured == 49.0 and found["AlterPartition, p99"].passed
    assert found["AlterPartition, p99"].samples == (20.0, 49.0, 51.0)
    assert found["AlterPartition, the longest"].measured == 90.0
    assert found["brokers fenced"].measured == 1 and not found["brokers fenced"].passed


def test_a_sleeping_process_tells_how_long_it_was_kept_waiting() -> None:
    began = time.monotonic()
    stall = longest_stall_ms(0.2)
    assert 0 <= stall < (time.monotonic() - began) * 1000 and time.monotonic() - began >= 0.2


@pytest.mark.full
def test_control_requests_get_through_a_flood_of_produce_requests() -> None:
    """With a bar that a busy machine meets: far below a session, and nobody is fenced."""
    felt = measured(1000, duration_s=6)
    assert felt.requests_per_second > 100
    assert felt.heartbeats > 20
    assert felt.alterations >= 2
    assert felt.heartbeat_p99 < 10 * BAR_MS, felt
    assert felt.alteration_p99 < 20 * BAR_MS, felt
    assert (felt.fences, felt.elections) == (0, 0), felt
