"""DUE as the observer asserts it: a node names the time at which it has something to do, and does nothing before."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node.due_work import AT_ONCE, DueWork
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import NEVER
from squall.nodes.node.effects import Close, Effect, Send
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.raft.quorum_state import ReplicaKey
from squall.nodes.raft.roles import Candidate

DUE = 7_000
FETCH = int(ApiKey.FETCH).to_bytes(2, "big") + b"the rest"


def turns_early(*outbox: Effect, traced: tuple[str, ...] = (), due: int = DUE) -> None:
    """Take a turn at 5,000 that leaves these effects and events."""
    process: Any = SimpleNamespace(name="b1", now=5_000)
    node: Any = SimpleNamespace(outbox=list(outbox))
    DueWork(None).turned_early(process, node, due, traced)  # type: ignore[arg-type]


def test_a_turn_that_does_nothing_is_legal() -> None:
    turns_early()


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        (Send(-3, [FETCH]), "it sends FETCH"),
        (Send(3, [b"an answer"]), "it answers on connection 3"),
        (Close(4), "it asks for Close"),
    ],
)
def test_a_turn_with_an_effect_breaks_due(effect: Effect, said: str) -> None:
    with pytest.raises(InvariantBroken, match=f"DUE: b1 named the time 7000, and when called at 5000 {said}"):
        turns_early(effect)


def test_a_turn_that_traces_something_breaks_due() -> None:
    with pytest.raises(InvariantBroken, match=r"b1 named nothing to be due, .* it traces leader"):
        turns_early(traced=("leader",), due=NEVER)


def test_a_turn_in_which_something_rare_happened_is_not_judged() -> None:
    """A rarity may do at any time what is due later; it is legal by its definition."""
    turns_early(Send(3, [b"an answer"]), traced=("buggify",))


class Queue(list[str]):
    """The requests that wait; so many others have been served."""

    served = 0


class Busy:
    """A node with two queues, which is called at 5,000."""

    def __init__(self) -> None:
        self.rule = DueWork(None)  # type: ignore[arg-type]
        self.data, self.control, self.due = Queue(), Queue(), NEVER
        self.process: Any = SimpleNamespace(name="b1", now=5_000)
        self.of_the_quorum: list[str] = []
        self.role: Any = None
        self.broker: Any = None
        self.first_timeout = NEVER

    def turns(self) -> None:
        self.rule.turned(self.process, self.node())

    def names(self, due: int) -> None:
        self.due = due
        self.turns()

    def does_nothing(self) -> None:
        self.turns()
        self.rule.turned_in_vain(self.process, self.node())

    def node(self) -> Any:
        return SimpleNamespace(
            data=self.data,
            control=self.control,
            deadline=lambda: self.due,
            raft=SimpleNamespace(requests=self.of_the_quorum, role=self.role),
            broker=self.broker,
            links=SimpleNamespace(first_timeout=lambda: self.first_timeout),
        )


def broker(*hosted: str, has_requests: bool = False) -> Any:
    """A broker with these replicas, at which it looks at 6,000."""
    return SimpleNamespace(
        has_requests=has_requests, replicas=SimpleNamespace(all=lambda: list(hosted), next_look=6_000)
    )


@pytest.mark.parametrize("queue", ["data", "control"])
def test_requests_that_are_left_while_others_are_served_are_due_at_once(queue: str) -> None:
    busy = Busy()
    getattr(busy, queue).append("one more")
    getattr(busy, queue).served = 3
    with pytest.raises(InvariantBroken, match=r"^DUE: b1 has served .* at 5000, has left 1 there, and named nothing"):
        busy.turns()


@pytest.mark.parametrize("due", [0, 5_000])
def test_a_node_that_is_called_again_at_once_may_leave_some(due: int) -> None:
    busy = Busy()
    busy.data.append("one more")
    busy.data.served, busy.due = 3, due
    busy.turns()


def test_a_node_that_serves_nothing_may_let_requests_wait() -> None:
    busy = Busy()
    busy.data.served = 3
    busy.turns()
    busy.data.append("one more")
    busy.turns()


def test_another_process_has_served_nothing_yet() -> None:
    busy = Busy()
    busy.data.served = 3
    busy.turns()
    busy.rule.died(busy.process)
    busy.data.append("one more")
    busy.data.served = 2
    with pytest.raises(InvariantBroken, match=r"^DUE: b1 has served some"):
        busy.turns()


# -- what is not sent ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["the quorum", "the broker"])
def test_a_request_to_another_node_that_is_left_unsent_breaks_due(whose: str) -> None:
    busy = Busy()
    busy.broker = broker(has_requests=whose == "the broker")
    if whose == "the quorum":
        busy.of_the_quorum.append("a vote")
    with pytest.raises(InvariantBroken, match=r"^DUE: b1 has left a request to another node unsent at 5000"):
        busy.turns()


def test_a_broker_whose_requests_are_all_sent_is_sound() -> None:
    busy = Busy()
    busy.broker = broker()
    busy.turns()


# -- what is named too late ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("due", [0, 6_000])
def test_a_node_may_be_called_as_soon_as_something_is_due(due: int) -> None:
    busy = Busy()
    busy.first_timeout = 6_000
    busy.broker = broker("orders-0")
    busy.names(due)


def test_a_request_that_times_out_before_the_time_named_breaks_due() -> None:
    busy = Busy()
    busy.first_timeout = 6_000
    with pytest.raises(InvariantBroken, match=r"^DUE: b1 named the time 6001, and a request .* times out at 6000$"):
        busy.names(6_001)


def test_a_look_at_replicas_before_the_time_named_breaks_due_where_there_are_some() -> None:
    busy = Busy()
    busy.broker = broker()
    busy.names(NEVER)
    busy.broker = broker("orders-0")
    with pytest.raises(InvariantBroken, match=r"^DUE: b1 named nothing .*, and its broker looks at .* at 6000$"):
        busy.turns()


# -- the same time again ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("due", [4_999, 5_000])
def test_a_node_that_does_nothing_and_names_a_time_that_is_over_again_breaks_due(due: int) -> None:
    busy = Busy()
    busy.names(due)
    with pytest.raises(InvariantBroken, match=rf"^DUE: b1 was called at 5000, did nothing, and names {due} again"):
        busy.does_nothing()


@pytest.mark.parametrize(("before", "due"), [(0, 0), (5_000, 5_001), (5_001, 5_001), (0, 5_000), (4_999, 5_000)])
def test_a_node_that_does_nothing_may_name_another_time_or_one_to_come(before: int, due: int) -> None:
    """With 0 it says that it has left work. A log with `flush.ms` 0 is due at once, when it is seen to have records."""
    busy = Busy()
    busy.names(before)
    busy.due = due
    busy.does_nothing()


def is_called_in_vain(busy: Busy, times: int) -> None:
    busy.due = 0
    for _ in range(times):
        busy.does_nothing()


def test_a_node_that_asks_to_be_called_at_once_again_and_again_and_does_nothing_breaks_due() -> None:
    busy = Busy()
    is_called_in_vain(busy, AT_ONCE)
    with pytest.raises(InvariantBroken, match=rf"^DUE: b1 asked {AT_ONCE} times in a row .* each time did nothing"):
        is_called_in_vain(busy, 1)


@pytest.mark.parametrize("meanwhile", ["it does something", "it names a time", "it is another process"])
def test_it_may_go_on_for_long_with_several_things(meanwhile: str) -> None:
    busy = Busy()
    is_called_in_vain(busy, AT_ONCE)
    if meanwhile == "it does something":
        busy.turns()
    elif meanwhile == "it names a time":
        busy.names(7_000)
    else:
        busy.rule.died(busy.process)
    is_called_in_vain(busy, AT_ONCE)


def test_a_node_that_does_something_may_name_the_same_time_again() -> None:
    """A balancer that has moved some leaders goes on at once (`worlds` 1030278)."""
    busy = Busy()
    busy.names(5_000)
    busy.turns()


def test_the_next_process_has_named_nothing_yet() -> None:
    busy = Busy()
    busy.names(5_000)
    busy.rule.died(busy.process)
    busy.does_nothing()


@pytest.mark.parametrize("backing_off", [True, False])
def test_a_candidate_may_back_off_for_no_time(backing_off: bool) -> None:
    busy = Busy()
    busy.names(5_000)
    busy.role = Candidate(3, ReplicaKey(1), 5_000, 0, {}, {}, backing_off=backing_off)
    with nullcontext() if backing_off else pytest.raises(InvariantBroken, match=r"^DUE: b1 was called at 5000, did"):
        busy.does_nothing()


def test_a_broker_on_zookeeper_may_be_due_again_at_once() -> None:
    """Its heartbeat is answered within the turn."""
    busy = Busy()
    busy.names(5_000)
    busy.turns()
    busy.rule.turned_in_vain(busy.process, ZooKeeperNode.__new__(ZooKeeperNode))
