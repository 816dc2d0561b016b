"""LEADERLESS as the observer asserts it: a topic-partition without a leader has no replica that may lead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.isr.elected_leaders import UNCLEAN, ElectedLeaders
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.topic import PartitionRegistration, RareFields

REPLICAS = (1, 2, 3)


class Controller:
    """An active controller whose brokers 1 to 3 host t-0; those in `active` are active."""

    def __init__(self, *, active: tuple[int, ...], settings: dict[str, str] | None = None, strategy: str = "None"):
        self.image: Any = SimpleNamespace(
            last_offset=7,
            brokers={one: SimpleNamespace(active=one in active) for one in REPLICAS},
            topic_settings=lambda topic: settings or {},
        )
        self.config = SimpleNamespace(unclean_leader_election_enable=False, unclean_recovery_strategy=strategy)
        self.unfinished = False
        self.rule = ElectedLeaders(SimpleNamespace())  # type: ignore[arg-type]

    def turns(
        self,
        isr: tuple[int, ...],
        elr: tuple[int, ...] = (),
        *,
        last_known: tuple[int, ...] = (),
        adding: tuple[int, ...] = (),
        leader: int = -1,
        is_active: bool = True,
    ) -> None:
        rare = RareFields(elr=elr, last_known_elr=last_known, adding=adding)
        found = PartitionRegistration(REPLICAS, isr, leader, 0, 0, rare)
        self.image.all_partitions = lambda: [(SimpleNamespace(name="t"), 0, found)]
        controller = SimpleNamespace(image=self.image if is_active else None, has_unfinished=self.unfinished)
        process: Any = SimpleNamespace(name="c1", incarnation=1)
        node: Any = SimpleNamespace(controller=controller, config=self.config)
        self.rule.turned(process, node)


def test_nobody_who_may_lead_is_active() -> None:
    Controller(active=(3,)).turns((1, 2))
    Controller(active=(3,)).turns((), (1, 2))
    Controller(active=()).turns((1,), leader=-1)


@pytest.mark.parametrize(("isr", "elr", "who"), [((2,), (), 2), ((1, 3), (), 3), ((), (3,), 3)])
def test_an_active_member_of_isr_or_elr_must_lead(isr: tuple[int, ...], elr: tuple[int, ...], who: int) -> None:
    with pytest.raises(InvariantBroken, match=rf"^LEADERLESS: t-0: controller c1 .*; broker {who} is active: ISR"):
        Controller(active=(2, 3) if isr == (2,) else (3,)).turns(isr, elr)


def test_an_eligible_replica_waits_while_somebody_is_in_the_isr() -> None:
    Controller(active=(3,)).turns((1,), (3,))


@pytest.mark.parametrize("isr", [(1,), ()])
def test_any_active_replica_must_lead_where_unclean_elections_are_allowed(isr: tuple[int, ...]) -> None:
    with pytest.raises(InvariantBroken, match=r"broker 3 is active"):
        Controller(active=(3,), settings={UNCLEAN: "true"}).turns(isr)


def test_a_replica_that_is_being_added_need_not_lead() -> None:
    controller = Controller(active=(3,), settings={UNCLEAN: "true"})
    controller.turns((), (1,), adding=(3,))


def test_a_topic_may_forbid_what_the_cluster_allows() -> None:
    controller = Controller(active=(3,), settings={UNCLEAN: "false"})
    controller.config.unclean_leader_election_enable = True
    controller.turns((1,))


@pytest.mark.parametrize(("strategy", "must"), [("Balanced", True), ("None", False)])
def test_the_last_known_leader_may_lead_by_the_strategy(strategy: str, *, must: bool) -> None:
    controller = Controller(active=(3,), strategy=strategy)
    if must:
        with pytest.raises(InvariantBroken, match=r"broker 3 is active"):
            controller.turns((), last_known=(3, 1))
    else:
        controller.turns((), last_known=(3, 1))


def test_only_the_first_of_the_last_known_members_counts() -> None:
    Controller(active=(3,), strategy="Balanced").turns((), last_known=(1, 3))


def test_a_decision_that_is_not_written_whole_is_not_judged() -> None:
    controller = Controller(active=(1,))
    controller.unfinished = True
    controller.turns((1,))
    controller.unfinished = False
    with pytest.raises(InvariantBroken, match=r"^LEADERLESS"):
        controller.turns((1,))


def test_only_an_active_controller_decides() -> None:
    Controller(active=(1,)).turns((1,), is_active=False)


def test_a_topic_partition_with_a_leader_is_sound() -> None:
    Controller(active=(1, 2)).turns((1,), leader=1)
