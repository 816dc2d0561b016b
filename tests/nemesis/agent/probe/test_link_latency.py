"""Round trips between agents, over loopback: what is told of those who answer, answer late, and never."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from squall.nemesis.agent.probe.probe_auth import REPLY, Key, parsed
from tests.nemesis.agent.conftest import PROBE_PORT, SESSION_KEY

KEY = Key(bytes.fromhex(SESSION_KEY))
NOBODY = "127.0.7.254"


@pytest.fixture
def peer(start_agent: Callable[..., Any]) -> Any:
    return start_agent(name="h2")


@pytest.fixture
def slow() -> Iterator[str]:
    """The address of an echo that takes 50 ms, and never sees every fourth datagram."""
    address = f"127.9.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"  # workers run these tests side by side
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
        echo.bind((address, PROBE_PORT))

        def serve() -> None:
            timers: list[threading.Timer] = []
            for seen in itertools.count(1):
                data, sender = echo.recvfrom(2048)
                if data == b"end":
                    break
                if seen % 4:
                    asked = parsed(data)
                    assert asked is not None and KEY.opens(asked)
                    timers.append(threading.Timer(0.05, echo.sendto, (KEY.seal(REPLY, asked.body), sender)))
                    timers[-1].start()
            for timer in timers:
                timer.join()

        thread = threading.Thread(target=serve)
        thread.start()
        yield address
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"end", (address, PROBE_PORT))
        thread.join()


def test_a_round_trip_takes_time_and_who_does_not_answer_has_none(agent: Any, peer: Any) -> None:
    told = agent.call("probe.latency", targets={"h2": peer.address, "nobody": NOBODY}, timeout=0.5)
    assert told["nobody"] is None and 0 < told["h2"] < 0.5


def test_the_median_shows_lateness_and_the_worst_shows_loss(agent: Any, slow: str) -> None:
    asked = {"targets": {"slow": slow}, "rounds": 9}
    assert 0.05 <= agent.call("probe.latency", **asked)["slow"] < 0.1
    assert agent.call("probe.latency", **asked, statistic="worst")["slow"] >= 0.2, "sent again after 200 ms"


def test_what_is_not_back_in_time_counts_as_late_as_it_is(agent: Any, slow: str) -> None:
    told = agent.call("probe.latency", targets={"slow": slow}, rounds=9, statistic="worst", timeout=0.15)
    assert 0.1 <= told["slow"] < 0.2


def test_many_bytes_go_and_come_back_in_full(agent: Any, peer: Any) -> None:
    assert 0 < agent.call("probe.latency", targets={"h2": peer.address}, size=500_000)["h2"] < 5


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"targets": "h2"}, "targets: 'h2' must be a mapping"),
        ({"size": 0}, "size: 0 must be from 1"),
        ({"rounds": 0}, "rounds: 0 must be from 1"),
        ({"statistic": "mean"}, "statistic: 'mean' must be one of median, worst"),
    ],
)
def test_what_makes_no_sense_is_refused(agent: Any, refused: Any, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(refused) as trouble:
        agent.call("probe.latency", **{"targets": {}, **wrong})
    assert trouble.value.kind == "bad_argument" and said in trouble.value.error
