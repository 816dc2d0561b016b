"""FD-01 as the observer asserts it: b1 is the active controller; the session timeout is two seconds."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from squall.harness.simulation.observer.rules.brokers.silent_brokers import SilentBrokers
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.records import BrokerRegistrationChangeRecord
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest
from squall.nodes.protocol.requests.session import Answer, ClientSession, ServerRequest
from squall.nodes.protocol.schema import Message
from tests.harness.simulation.observer.observed import Cluster

SECOND = 1_000_000


def received(now: int, connection: int, frame: bytes) -> None:
    """The input of a node that this test gives; the observer knows it by its name."""


def led_by_b1() -> Cluster:
    cluster = Cluster()
    process = cluster.processes["b1"]
    process.is_active = process.raft.is_leader = True
    return cluster


def turn(cluster: Cluster, seconds: float, *heard: int, connection: int = 7) -> None:
    """B1 takes a turn in which heartbeats of these brokers arrive."""
    process = cluster.processes["b1"]
    process.now = round(seconds * SECOND)
    process.last_inputs = [(received, (connection, heartbeat(broker))) for broker in heard]
    cluster.observer.look(process)  # type: ignore[arg-type]


def heartbeat(broker: int) -> bytes:
    return b"".join(ClientSession("broker-2").send_only(BrokerHeartbeatRequest(broker, 5), 1))


def test_a_broker_that_is_silent_for_longer_than_its_session_must_be_fenced() -> None:
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    turn(cluster, 3.3, 1, 2)
    with pytest.raises(InvariantBroken, match=r"^FD-01: controller b1 has heard nothing of broker 3 for 2\.600 s"):
        turn(cluster, 3.6)


def test_a_heartbeat_that_waits_for_its_answer_is_heard() -> None:
    """Undecoded, and decoded; the session lasts from when the controller takes it."""
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    undecoded = SimpleNamespace(request=None, frame=heartbeat(3))
    decoded = SimpleNamespace(request=SimpleNamespace(body=BrokerHeartbeatRequest(3, 5)), frame=None)
    for second, waiting in ((3, undecoded), (5, decoded)):
        cluster.processes["b1"].requests = [waiting]
        turn(cluster, second, 1, 2)
    cluster.processes["b1"].requests = [SimpleNamespace(request=SimpleNamespace(body=object()), frame=None)]
    turn(cluster, 7, 1, 2)
    with pytest.raises(InvariantBroken, match=r"^FD-01: .* of broker 3 for 3\.000 s"):
        turn(cluster, 8)


def test_a_broker_that_registers_again_is_heard() -> None:
    """Seed 941269 of worlds."""
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    process = cluster.processes["b1"]
    process.now = 2 * SECOND
    again = b"".join(ClientSession("broker-3").send_only(BrokerRegistrationRequest(broker_id=3), 0))
    process.last_inputs = [(received, (7, again))]
    cluster.observer.look(process)  # type: ignore[arg-type]
    turn(cluster, 3.3, 1, 2)
    turn(cluster, 4.4)
    with pytest.raises(InvariantBroken, match=r"^FD-01: .* of broker 3 for 2\.700 s"):
        turn(cluster, 4.7)


def test_a_response_of_another_node_is_no_heartbeat() -> None:
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    turn(cluster, 3.0, 3, connection=-7)
    turn(cluster, 3.2, 1, 2)
    with pytest.raises(InvariantBroken, match=r"^FD-01: .* of broker 3 "):
        turn(cluster, 3.6)


def test_brokers_that_send_heartbeats_stay() -> None:
    cluster = led_by_b1()
    for second in range(9):
        turn(cluster, second, 1, 2, 3)


def test_a_broker_that_is_fenced_may_be_silent() -> None:
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    fences(cluster, 3.0)
    turn(cluster, 3.1, 1, 2)
    turn(cluster, 5.0)


def fences(cluster: Cluster, seconds: float) -> None:
    """B1 fences broker 3, whose epoch is 2."""
    process = cluster.processes["b1"]
    process.now, process.last_inputs = round(seconds * SECOND), []
    cluster.decide(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=2, fenced=1))


def says(cluster: Cluster, seconds: float, message: Message, version: int = 1, *, served: bool = True) -> None:
    """Broker 3 says this to b1, which accepts it if it has served it."""
    process = cluster.processes["b1"]
    rule = next(one for one in cluster.observer._rules.all if isinstance(one, SilentBrokers))
    request = ServerRequest(63, version, message, "broker-3", "CONTROLLER", 7, round(seconds * SECOND))
    request.answer = Answer(BrokerHeartbeatResponse() if served else None)
    rule.answered(process, process.node, request)  # type: ignore[arg-type]
    process.now = round(seconds * SECOND)
    process.last_inputs = [(received, (7, b"".join(ClientSession("broker-3").send_only(message, version))))]
    cluster.observer.look(process)  # type: ignore[arg-type]


def test_a_broker_that_speaks_is_not_fenced() -> None:
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    says(cluster, 2.5, BrokerHeartbeatRequest(3, 2))
    with pytest.raises(InvariantBroken, match=r"^FD-01: controller b1 has fenced broker 3, which it heard 1\.900 s"):
        fences(cluster, 4.4)


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (BrokerHeartbeatRequest(3, 2, want_fence=True), 1),
        (BrokerHeartbeatRequest(3, 2, want_shut_down=True), 1),
        (BrokerRegistrationRequest(broker_id=3), 0),
    ],
    ids=["asks for it", "stops", "begins another incarnation"],
)
def test_one_that_gives_a_reason_may_be_fenced_then_and_later(message: Message, version: int) -> None:
    """Seed 431 of worlds: the records of a registration are written over several turns."""
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    says(cluster, 2.5, BrokerHeartbeatRequest(3, 2))
    says(cluster, 2.6, message, version)
    fences(cluster, 2.7)


@pytest.mark.parametrize("number", [1, 2])
def test_heartbeats_may_never_have_been_served(number: int) -> None:
    """Seeds 950023 and 977432 of worlds: they waited for the controller, and their connections ended."""
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    for _ in range(number):
        says(cluster, 2.5, BrokerHeartbeatRequest(3, 2), served=False)
    fences(cluster, 3.1)


def test_a_controller_that_was_paused_fences_before_it_serves_what_waits() -> None:
    """Seed 951097 of worlds."""
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    process = cluster.processes["b1"]
    process.now = 3 * SECOND
    waiting = b"".join(ClientSession("broker-3").send_only(BrokerHeartbeatRequest(3, 2), 1))
    process.last_inputs = [(received, (7, waiting)), (received, (7, waiting))]
    cluster.decide(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=2, fenced=1))


def test_a_controller_makes_no_decision_before_it_has_written_the_last_one() -> None:
    """Seed 1021272 of worlds: what it writes may end with the fencing of this broker."""
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    cluster.processes["b1"].has_unfinished = True
    turn(cluster, 3.6, 1, 2)
    cluster.processes["b1"].has_unfinished = False
    with pytest.raises(InvariantBroken, match=r"^FD-01: controller b1 has heard nothing of broker 3 for 2\.700 s"):
        turn(cluster, 3.7)


def test_a_heartbeat_of_another_incarnation_keeps_nobody() -> None:
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    says(cluster, 2.5, BrokerHeartbeatRequest(3, 1), served=False)
    fences(cluster, 3.1)


def test_a_new_controller_waits_for_as_long() -> None:
    """What the controller before it heard is not known to it."""
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    cluster.processes["b1"].raft.epoch = 2
    turn(cluster, 3.6)
    turn(cluster, 6.0)
    with pytest.raises(InvariantBroken, match=r"^FD-01: .* for 2\.800 s"):
        turn(cluster, 6.4)


@pytest.mark.parametrize(
    ("kept", "wrong"),
    [
        ({1, 2}, r"keeps no session of the unfenced brokers \[3\]"),
        ({1, 2, 3, 9}, r"keeps sessions of the brokers \[9\], which are not registered"),
    ],
)
def test_a_controller_keeps_sessions_of_the_unfenced_brokers_and_of_no_stranger(kept: set[int], wrong: str) -> None:
    cluster = led_by_b1()
    cluster.processes["b1"].with_session = kept
    with pytest.raises(InvariantBroken, match=rf"^FD-01: controller b1 {wrong}"):
        turn(cluster, 1.0, 1, 2, 3)


def test_a_fenced_broker_may_have_a_session_or_none() -> None:
    """A broker that has just registered is heard, and not unfenced yet."""
    cluster = led_by_b1()
    turn(cluster, 1.0, 1, 2, 3)
    fences(cluster, 3.0)
    for second, kept in ((3.1, {1, 2}), (3.4, {1, 2, 3})):
        cluster.processes["b1"].with_session = kept
        turn(cluster, second, 1, 2)
