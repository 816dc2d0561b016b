"""Operations of the nemesis: asked for until the cluster takes them, told with its own answer, taken back (RA-08)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

import pytest
from pydantic import TypeAdapter

from squall.nemesis.core.fault import Fault, FaultContext
from squall.nemesis.core.ports import OperationRefused
from squall.nemesis.entries import AnyFault, NemesisEntry
from squall.nemesis.options import FaultOptions
from squall.nemesis.registry import build_fault
from squall.nemesis.runner import NemesisRunner
from squall.nemesis.schedule import build_schedule

OPTIONS: TypeAdapter[FaultOptions] = TypeAdapter(AnyFault)
ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


class Cluster:
    """Four brokers, three controllers; the replicas of every topic-partition are b1, b2, b3."""

    brokers = ("b1", "b2", "b3", "b4")
    controllers = ("c1", "c2", "c3")
    zookeeper: tuple[str, ...] = ()
    topics: Mapping[str, int] = {"events": 8}

    def __init__(self) -> None:
        self.assigned: list[str] = ["b1", "b2", "b3"]
        self.leads = "b1"

    async def leader(self, topic: str, partition: int) -> str | None:
        return self.leads

    async def active_controller(self) -> str | None:
        return "c2"

    async def in_sync(self, topic: str, partition: int) -> list[str]:
        return ["b1", "b2", "b3"]

    async def replicas(self, topic: str, partition: int) -> list[str]:
        return self.assigned


class Operator:
    """Does what it is asked, and refuses the first `refusals` times. One that `lies` only says that it does."""

    def __init__(self, refusals: int = 0, *, lies: bool = False) -> None:
        self.refusals = refusals
        self.lies = lies
        self.cluster = Cluster()
        self.settings: dict[str, str | None] = {}
        self.done: list[tuple[object, ...]] = []
        self.voting = ["c1", "c2", "c3"]
        self.levels = {"eligible.leader.replicas.version": 1}
        self.under_way: list[str] = []

    def _do(self, *what: object) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OperationRefused("no active controller")
        self.done.append(what)

    async def reassign(self, topic: str, partition: int, hosts: Sequence[str] | None) -> None:
        self._do("reassign", topic, partition, hosts)
        if hosts is not None and not self.lies:
            self.cluster.assigned = list(hosts)

    async def moving(self, topic: str, partition: int) -> list[str]:
        if self.refusals:
            raise OperationRefused("no active controller")
        return self.under_way

    async def elect_preferred(self, topics: Mapping[str, int]) -> None:
        self._do("elect", dict(topics))
        if not self.lies:
            self.cluster.leads = "b1"

    async def set_config(self, topic: str, name: str, value: str | None) -> None:
        self._do("config", topic, name, value)
        if not self.lies:
            self.settings[name] = value

    async def setting_of(self, topic: str, name: str) -> str | None:
        return self.settings.get(name)

    async def create_topic(self, topic: str, partitions: int, replicas: int) -> None:
        raise AssertionError("nobody here makes topics")

    async def create_partitions(self, topic: str, count: int) -> None:
        raise AssertionError("nobody here enlarges topics")

    async def delete_topic(self, topic: str) -> None:
        raise AssertionError("nobody here deletes topics")

    async def topics_told(self, topics: Sequence[str]) -> Mapping[str, int]:
        raise AssertionError("nobody here asks for topics")

    async def voters(self) -> tuple[str, ...]:
        return tuple(self.voting)

    async def remove_voter(self, host: str) -> None:
        self._do("remove", host)
        if not self.lies:
            self.voting.remove(host)

    async def add_voter(self, host: str) -> None:
        self._do("add", host)
        self.voting.append(host)

    async def unregister(self, host: str) -> None:
        raise AssertionError("nobody here unregisters brokers")

    async def set_feature(self, name: str, level: int) -> None:
        self._do("feature", name, level)
        if not self.lies:
            self.levels[name] = level

    async def level_of(self, feature: str) -> int:
        if self.refusals:
            self.refusals -= 1
            raise OperationRefused("no reachable broker")
        return self.levels.get(feature, 0)


class Listing(Operator):
    """Its controller lists a move as soon as it has accepted it, and no broker ever shows one."""

    def __init__(self) -> None:
        super().__init__(lies=True)

    async def reassign(self, topic: str, partition: int, hosts: Sequence[str] | None) -> None:
        await super().reassign(topic, partition, hosts)
        self.under_way = [*(hosts or ()), "b1"]


class Clock:
    """Time that passes when somebody sleeps, and what happens at some time."""

    def __init__(self) -> None:
        self.now = 0
        self.alarms: list[tuple[int, Callable[[], object]]] = []

    def now_ns(self) -> int:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)
        while self.alarms and self.alarms[0][0] <= self.now:
            self.alarms.pop(0)[1]()


def fault_of(
    operator: Operator | None, *, believes: bool = False, clock: Clock | None = None, **words: object
) -> Fault:
    clock = clock or Clock()
    cluster = operator.cluster if operator is not None else Cluster()
    context = FaultContext(
        id="it", hosts={}, cluster=cluster, now_ns=clock.now_ns, sleep=clock.sleep, rng=random.Random(7),
        operator=operator, believes_answers=believes,
    )  # fmt: skip
    return build_fault(OPTIONS.validate_python(words), context)


def happened(fault: Fault, ttl: float = 5.0) -> str | None:
    """Aimed and injected: why it did not take hold."""

    async def happen() -> str | None:
        await fault.aim()
        before = await fault.observe()
        await fault.inject(ttl)
        return fault.check_effect(before, await fault.observe())

    return asyncio.run(happen())


def healed(fault: Fault) -> str | None:
    async def heal() -> str | None:
        await fault.heal()
        return fault.shows_end({}, await fault.observe())

    return asyncio.run(heal())


def test_a_topic_partition_goes_to_as_many_brokers_by_lot_as_it_has() -> None:
    operator = Operator()
    assert happened(fault_of(operator, fault="reassign", target="events/3")) is None
    ((what, topic, partition, hosts),) = operator.done
    assert (what, topic, partition) == ("reassign", "events", 3)
    assert isinstance(hosts, tuple) and len(set(hosts)) == 3 and set(hosts) <= set(Cluster.brokers)


def test_brokers_may_be_named_or_counted() -> None:
    operator = Operator()
    assert happened(fault_of(operator, fault="reassign", target="events/3", to="b4, b2")) is None
    assert operator.done[0][3] == ("b4", "b2")
    assert happened(fault_of(operator, fault="reassign", target="events/*", replicas=2)) is None
    assert len(tuple(operator.done[1][3])) == 2  # type: ignore[arg-type]


def test_a_move_that_the_controller_lists_is_proven_before_any_broker_shows_it() -> None:
    """P16: another one may take its place before brokers hear of it."""
    operator = Listing()
    assert happened(fault_of(operator, fault="reassign", target="events/3", to="b4, b2, b3")) is None


def test_a_move_counts_as_seen_though_another_has_taken_its_place_since() -> None:
    operator = Listing()
    fault = fault_of(operator, fault="reassign", target="events/3", to="b4, b2, b3")

    async def happen() -> str | None:
        await fault.aim()
        before = await fault.observe()
        await fault.inject(5.0)
        operator.under_way = ["b1", "b2", "b3"]
        return fault.check_effect(before, await fault.observe())

    assert asyncio.run(happen()) is None


@pytest.mark.parametrize(("frees_itself", "waited"), [(True, 0.7), (False, 10.0)])
def test_a_move_waits_until_the_one_before_of_the_same_topic_partition_was_seen(
    frees_itself: bool, waited: float
) -> None:
    """But not for ever: who never shows has had his time."""
    operator, clock = Listing(), Clock()
    fault = fault_of(operator, clock=clock, fault="reassign", target="events/3", to="b4, b2, b3")
    context: FaultContext = fault._context  # type: ignore[attr-defined]
    context.moving.add(("events", 3))
    clock.alarms = [(round(0.65e9), lambda: context.moving.discard(("events", 3)))] if frees_itself else []
    assert happened(fault) is None
    assert clock.now == pytest.approx(waited * 1e9)
    assert (("events", 3) in context.moving) is not frees_itself, "who gave up waiting leaves the other's place alone"


def test_a_move_that_was_listed_before_proves_nothing() -> None:
    operator = Operator(lies=True)
    operator.under_way = ["b2", "b3", "b4", "b1"]
    told = happened(fault_of(operator, fault="reassign", target="events/3", to="b4, b2, b3"))
    assert told == "replicas of events/3 are b2, b3, b4, b1, as before"


def test_a_list_of_moves_without_those_that_come_proves_nothing() -> None:
    operator = Operator(lies=True)
    operator.under_way = ["b1", "b2", "b3"]
    told = happened(fault_of(operator, fault="reassign", target="events/3", to="b4, b2, b3"))
    assert told == "replicas of events/3 are b1, b2, b3, without b4"


def test_what_is_refused_is_asked_for_again_and_only_then_unproven() -> None:
    operator = Operator(refusals=3)
    assert happened(fault_of(operator, fault="elect-leaders")) is None
    assert operator.done == [("elect", {"events": 8})]
    assert happened(fault_of(Operator(refusals=1000), fault="elect-leaders")) == "no active controller"


def test_a_cancelled_reassignment_is_taken_back_and_a_refusal_then_is_no_failure() -> None:
    """RA-08: it may be complete already, or nobody else could lead."""
    operator = Listing()
    fault = fault_of(operator, fault="reassign", target="events/0", cancel=True)
    assert happened(fault) is None
    assert healed(fault) is None
    assert operator.done[-1] == ("reassign", "events", 0, None)
    late = fault_of(refusing := Listing(), fault="reassign", target="events/0", cancel=True)
    assert happened(late) is None
    refusing.refusals = 1
    assert healed(late) is None


def test_a_move_that_another_has_taken_the_place_of_is_not_cancelled() -> None:
    operator = Listing()
    fault = fault_of(operator, fault="reassign", target="events/0", to="b1, b2", cancel=True)
    assert happened(fault) is None
    operator.under_way = ["b3", "b4", "b1"]
    assert healed(fault) is None
    assert [done[3] for done in operator.done] == [("b1", "b2")]


def test_a_swarm_cancels_without_a_look() -> None:
    operator = Operator(lies=True)
    fault = fault_of(operator, believes=True, fault="reassign", target="events/0", cancel=True)
    assert happened(fault) is None
    assert healed(fault) is None
    assert operator.done[-1] == ("reassign", "events", 0, None)


def test_a_setting_is_set_and_set_back() -> None:
    operator = Operator()
    words = {"topic": "events", "name": "min.insync.replicas", "value": "3", "afterwards": "2"}
    fault = fault_of(operator, fault="alter-config", **words)
    assert happened(fault) is None
    assert healed(fault) is None
    values = [done[3] for done in operator.done]
    assert values == ["3", "2"]


def test_a_voter_is_removed_and_added_again_however_often_that_takes() -> None:
    operator = Operator()
    fault = fault_of(operator, fault="remove-voter", target="active controller")
    assert happened(fault) is None
    assert operator.voting == ["c1", "c3"]
    operator.refusals = 1
    assert healed(fault) == "no active controller"
    assert healed(fault) is None
    assert sorted(operator.voting) == ["c1", "c2", "c3"]


@pytest.mark.parametrize(("afterwards", "level"), [(None, 1), (0, 0)])
def test_a_feature_is_switched_and_set_back_to_its_level_before_or_to_the_level_given(
    afterwards: int | None, level: int
) -> None:
    operator = Operator()
    given = {} if afterwards is None else {"afterwards": afterwards}
    fault = fault_of(operator, fault="set-feature", feature="eligible.leader.replicas.version", level=0, **given)
    assert happened(fault) is None
    assert operator.levels["eligible.leader.replicas.version"] == 0
    operator.refusals = 1
    assert healed(fault) == "no active controller"
    assert healed(fault) is None
    assert operator.levels["eligible.leader.replicas.version"] == level


def test_a_feature_whose_level_cannot_be_read_is_not_changed() -> None:
    """Otherwise nothing would say to which level it must be set back."""
    operator = Operator(refusals=1000)
    fault = fault_of(operator, fault="set-feature", feature="eligible.leader.replicas.version", level=0)
    assert happened(fault) == "no reachable broker"
    assert not operator.done


@pytest.mark.parametrize("words", [{"fault": "elect-leaders"}, {"fault": "remove-voter", "target": "c1"}])
def test_where_nobody_can_be_asked_nothing_is_proven(words: dict[str, object]) -> None:
    """As in the control of an idle nemesis."""
    assert "no admin client" in str(happened(fault_of(None, **words)))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            {"fault": "reassign", "target": "events/3", "to": "b1, b4"},
            "replicas of events/3 are b1, b2, b3, without b4",
        ),
        ({"fault": "elect-leaders"}, "events/0 has leader b2, and b1 is preferred"),
        (
            {"fault": "alter-config", "topic": "events", "name": "min.insync.replicas", "value": "3"},
            "min.insync.replicas of events is the default",
        ),
        (
            {"fault": "set-feature", "feature": "eligible.leader.replicas.version", "level": 0},
            "eligible.leader.replicas.version is at level 1",
        ),
        ({"fault": "remove-voter", "target": "c1"}, "c1, c2, c3 vote"),
    ],
)
def test_an_answer_that_the_metadata_does_not_bear_out_proves_nothing(words: dict[str, object], told: str) -> None:
    operator = Operator(lies=True)
    operator.cluster.leads = "b2"
    assert happened(fault_of(operator, **words)) == told


@pytest.mark.parametrize(
    "words", [{"fault": "reassign", "target": "events/3", "to": "b1, b4"}, {"fault": "elect-leaders"}]
)
def test_a_swarm_believes_answers_and_asks_for_nothing_that_it_has_not_drawn(words: dict[str, object]) -> None:
    operator = Operator(lies=True)
    fault = fault_of(operator, believes=True, **words)
    assert happened(fault) is None
    assert len(operator.done) == 1
    operator.cluster.leads = "nobody could know"
    assert happened(fault) is None


class SlowCluster(Cluster):
    """What it accepts shows `after` seconds later: its controller has died meanwhile, and has a successor by then."""

    def __init__(self, clock: Clock, after: float) -> None:
        super().__init__()
        self.clock = clock
        self.shows_at = round(after * 1e9)

    async def replicas(self, topic: str, partition: int) -> list[str]:
        return self.assigned if self.clock.now >= self.shows_at else ["b1", "b2", "b3"]


@pytest.mark.parametrize(("after", "proven"), [(4.0, True), (9.0, False)])
def test_an_accepted_move_may_show_under_the_next_controller_but_must(after: float, proven: bool) -> None:
    """RA-08: the move that a controller has committed is carried out by the next one."""
    clock, operator = Clock(), Operator()
    operator.cluster = SlowCluster(clock, after)
    entry = {"fault": "reassign", "target": "events/0", "to": "b2, b3, b4", "at": "0s", "for": "500ms"}
    runner = NemesisRunner(
        build_schedule([ENTRY.validate_python(entry)], 30, 1),
        {},
        operator.cluster,
        now_ns=clock.now_ns,
        sleep=clock.sleep,
        report=lambda event: None,
        operator=operator,
    )
    asyncio.run(runner.run())
    (record,) = runner.records
    assert record.proven == proven, record.detail
