"""How a cluster gets over a fault: the failover gap, the longest outage for clients, and the time until it is whole.

A client writes one record every 5 ms with acks=all to a topic-partition of three replicas while one node is struck:

* *failover*: from the fault until a broker that was not struck names another leader of the topic-partition, or, if the
  active controller is struck, another leader of the metadata quorum.
* *longest outage*: the longest time between two acknowledgements from the last one before the fault on.
* *recovery*: from the start of the struck process, or its resumption, until its replica is in the ISR again, or its
  metadata log has all that was committed when it was queried.

Every record must be acknowledged in the end, and the log must hold no more than were sent.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, Protocol

from confluent_kafka import KafkaError, Message

from squall.benchmarks.parts.cluster_state import BrokerView
from squall.benchmarks.parts.load import Bench, Layout, MeasuredCluster
from squall.harness.loopback.stopped import is_stopped

TOPIC: Final = "recovery"
EVERY_S: Final = 0.005
CLIENT: Final = {"linger.ms": 0, "socket.timeout.ms": 5000, "message.timeout.ms": 120_000}
"""A request to a paused broker is given up after five seconds, and its records are sent again."""
END_TIMEOUT_S: Final = 60.0
"""For a controlled shutdown."""
ACKNOWLEDGED_BEFORE: Final = 200
"""Acknowledgements before the fault."""
Kind = Literal["kill the leader", "pause the leader", "stop the leader", "kill the active controller"]
KINDS: Final[tuple[Kind, ...]] = (
    "kill the leader", "pause the leader", "stop the leader", "kill the active controller"
)  # fmt: skip


class StruckNode(Protocol):
    """A node that can be ended and started."""

    @property
    def pid(self) -> int | None: ...

    def kill(self) -> None: ...

    def signal(self, number: int) -> None: ...

    def wait(self, timeout_s: float = ...) -> int: ...

    def start(self) -> None: ...


class FaultedCluster(MeasuredCluster, Protocol):
    """A measured cluster whose nodes can be struck, by id."""

    @property
    def nodes(self) -> Mapping[int, StruckNode]: ...

    def pause(self, node: int) -> None: ...

    def resume(self, node: int) -> None: ...


@dataclass(frozen=True)
class Recovery:
    """What one fault cost, in seconds; see the module."""

    failover: float
    longest_outage: float
    recovery: float


class SteadyWriter:
    """Writes a record every 5 ms, and keeps the times of the acknowledgements."""

    def __init__(self, bench: Bench) -> None:
        self._producer = bench.producer(CLIENT)
        self._bench = bench
        self._acknowledged: list[float] = []
        self._refused: list[KafkaError] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.sent = 0

    def __enter__(self) -> SteadyWriter:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def acknowledged(self) -> int:
        return len(self._acknowledged)

    def acknowledged_after(self, moment: float) -> bool:
        return bool(self._acknowledged) and self._acknowledged[-1] > moment

    def finish(self) -> None:
        """Stop, and wait for what is under way. Raises AssertionError if a record was refused."""
        self.__exit__()
        self._bench.flush(self._producer)
        assert not self._refused, f"records were refused: {self._refused[0]}"

    def longest_outage(self, since: float) -> float:
        """The longest time without an acknowledgement, from the last one before `since` on, in seconds."""
        first = max(0, sum(one <= since for one in self._acknowledged) - 1)
        moments = self._acknowledged[first:]
        return max(later - earlier for earlier, later in pairwise(moments))

    def _write(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            self._producer.produce(TOPIC, self._bench.value, partition=0, on_delivery=self._delivered)
            self.sent += 1
            due = max(due + EVERY_S, time.monotonic() - 1)
            self._producer.poll(max(0.0, due - time.monotonic()))
            self._ended.wait(max(0.0, due - time.monotonic()))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._acknowledged.append(time.monotonic())
        else:
            self._refused.append(error)


@dataclass(frozen=True)
class Fault:
    """One fault of one node: how it is struck, what shows that another took over, how it is mended, and that it is."""

    strike: Callable[[], object]
    replaced: Callable[[], bool]
    mend: Callable[[], object]
    whole: Callable[[], bool]


def recovered(bench: Bench, cluster: FaultedCluster, kind: Kind) -> Recovery:
    """Strike the cluster once under load, mend it, and return what the fault cost."""
    bench.create_topic(TOPIC, Layout())
    with SteadyWriter(bench) as writer:
        cluster.wait_for("records acknowledged", lambda: writer.acknowledged >= ACKNOWLEDGED_BEFORE)
        fault = _of_controller(cluster) if kind == "kill the active controller" else _of_leader(cluster, kind)
        began = time.monotonic()
        fault.strike()
        cluster.wait_for(f"{kind}: another took over", fault.replaced)
        failover = time.monotonic() - began
        _await_acknowledgement(cluster, writer)
        fault.mend()
        mended = time.monotonic()
        cluster.wait_for(f"{kind}: whole again", fault.whole)
        recovery = time.monotonic() - mended
        _await_acknowledgement(cluster, writer)
        writer.finish()
    written = bench.end_offsets(TOPIC, 1)
    assert written == writer.sent, f"{writer.sent} records were acknowledged, the high watermark says {written}"
    bench.delete_topic(TOPIC)
    return Recovery(failover, writer.longest_outage(began), recovery)


def _of_leader(cluster: FaultedCluster, kind: Kind) -> Fault:
    views = _views(cluster)
    some = next(iter(views.values()))
    cluster.wait_for("a leader", lambda: _leader_named(some) is not None)
    struck = _leader_named(some)
    assert struck is not None
    node, other = cluster.nodes[struck], next(view for number, view in views.items() if number != struck)

    def pause() -> None:
        cluster.pause(struck)
        cluster.wait_for("every thread stopped", lambda: node.pid is not None and is_stopped(node.pid))

    def whole() -> bool:
        facts = other.partition(TOPIC, 0)
        return facts is not None and len(facts.isr) == len(views)

    def start_when_ended() -> None:
        node.wait(END_TIMEOUT_S)
        node.start()

    strike, mend = {
        "kill the leader": (node.kill, node.start),
        "pause the leader": (pause, lambda: cluster.resume(struck)),
        "stop the leader": (lambda: node.signal(signal.SIGTERM), start_when_ended),
    }[kind]
    return Fault(strike, lambda: _leader_named(other) not in (None, struck), mend, whole)


def _of_controller(cluster: FaultedCluster) -> Fault:
    view = next(iter(_views(cluster).values()))
    cluster.wait_for("an active controller", view.quorum)
    quorum = view.quorum()
    assert quorum is not None
    struck, node = quorum.leader, cluster.nodes[quorum.leader]

    def replaced() -> bool:
        found = view.quorum()
        return found is not None and found.leader != struck

    def whole() -> bool:
        found = view.quorum()
        if found is None:
            return False
        return any(one.id == struck and one.log_end_offset >= found.high_watermark for one in found.voters)

    return Fault(strike=node.kill, replaced=replaced, mend=node.start, whole=whole)


def _await_acknowledgement(cluster: FaultedCluster, writer: SteadyWriter) -> None:
    now = time.monotonic()
    cluster.wait_for("a record acknowledged", lambda: writer.acknowledged_after(now))


def _views(cluster: FaultedCluster) -> dict[int, BrokerView]:
    """The view of each broker, by its id: brokers have ids from 1, in the order of the bootstrap addresses."""
    return {node: BrokerView(address) for node, address in enumerate(cluster.bootstrap.split(","), start=1)}


def _leader_named(view: BrokerView) -> int | None:
    facts = view.partition(TOPIC, 0)
    return None if facts is None else facts.leader
