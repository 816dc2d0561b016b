"""Reassignment over random schedules of all that can happen meanwhile, against a model (RA-01 to RA-08, rule 29).

The model is what an operator believes: a topic-partition has replicas; somebody asks for others; it gets them, or is
called off and has what it had. Brokers fall silent and return, cleanly or not; leaders let followers in and drop them;
the controller changes. After every step each record is looked at: what the reassignments did on their own account may
leave nobody without a leader, and shrink no ISR below min ISR (RA-05).
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squall.nodes.metadata.records import NO_LEADER
from squall.nodes.protocol.errors import ErrorCode
from tests.nodes.controller.conftest import MIN_ISR_2, Controller
from tests.nodes.controller.test_reassignment import reassign

BROKERS = (1, 2, 3, 4, 5, 6)
MIN_ISR = 2


class Operator:
    """A controller with six brokers and a topic-partition, and what has been asked of it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.controller = Controller(eligible_leader_replicas=self.rng.random() < 0.7)
        self.controller.bring_up(*BROKERS)
        first = self.rng.sample(BROKERS, 3)
        self.controller.create_topic(assignment={0: first}, configs=MIN_ISR_2)
        self.beginning = frozenset(first)
        self.target = frozenset(first)

    @property
    def partition(self) -> Any:
        return self.controller.partition()

    def alive(self) -> list[int]:
        return [one.id for one in self.controller.image.brokers.values() if one.active]

    # -- steps ------------------------------------------------------------------------------------------------

    def step(self) -> None:
        kinds = [self.ask, self.ask, self.cancel, self.propose, self.propose, self.propose, self.fall, self.rise]
        self.rng.choice([*kinds, self.fail_over])()
        self.check()

    def ask(self) -> None:
        before = self.partition
        wanted = self.rng.sample(BROKERS, self.rng.choice([2, 3, 4]))
        assert reassign(self.controller, wanted) == ErrorCode.NONE
        self.target = frozenset(wanted)
        self.did_no_harm(before)
        after = self.partition
        if not (after.adding or after.removing):
            assert frozenset(after.replicas) == self.target, "ended as something else"
            self.beginning = self.target

    def cancel(self) -> None:
        before = self.partition
        error = reassign(self.controller, None)
        if not (before.adding or before.removing):
            assert error == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        elif error == ErrorCode.NONE:
            assert frozenset(self.partition.replicas) == self.beginning, "cancelling goes back to the beginning"
            assert not self.partition.adding and not self.partition.removing
            self.target = self.beginning
            self.did_no_harm(before)
        else:
            assert error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert self.partition == before, "what is refused changes nothing"
            kept = [one for one in before.isr if one not in before.adding]
            assert len(kept) < len(before.isr) or not kept, "nothing stood against it"

    def propose(self) -> None:
        """The leader lets somebody in, or drops somebody."""
        before = self.partition
        if before.leader == NO_LEADER:
            return
        others = [one for one in before.replicas if one != before.leader and one in self.alive()]
        isr = [before.leader, *(one for one in others if self.rng.random() < 0.7)]
        self.controller.alter_partition(before.leader, isr)
        after = self.partition
        if before.removing and not after.removing:
            assert frozenset(after.replicas) <= frozenset(isr), "replicas went before the target was in sync (RA-02)"
        assert after.leader != NO_LEADER, "whoever led could still lead"

    def fall(self) -> None:
        alive = self.alive()
        if len(alive) > 3:
            self.controller.fence(self.rng.choice(alive))

    def rise(self) -> None:
        fenced = [one.id for one in self.controller.image.brokers.values() if one.fenced]
        if fenced:
            self.controller.return_of(self.rng.choice(fenced), clean=self.rng.random() < 0.7)

    def fail_over(self) -> None:
        self.controller.start()
        for broker in self.alive():
            self.controller.heartbeat(broker)

    # -- what must be so --------------------------------------------------------------------------------------

    def did_no_harm(self, before: Any) -> None:
        after = self.partition
        assert after.leader != NO_LEADER or before.leader == NO_LEADER, "leaderless by its own doing"
        least = min(len(before.isr), MIN_ISR, len(after.replicas))
        assert len(after.isr) >= least, f"{before.isr} shrank to {after.isr} (RA-05)"

    def check(self) -> None:
        now = self.partition
        members = (*now.isr, *now.elr, *now.adding, *now.removing)
        assert now.replicas and all(one in now.replicas for one in members)
        assert len(frozenset(now.replicas)) == len(now.replicas) == len(now.directories)
        assert now.leader == NO_LEADER or now.leader in now.isr
        staying = frozenset(now.replicas) - frozenset(now.removing)
        assert staying == self.target, f"{now} does not lead to {set(self.target)}"
        if not (now.adding or now.removing):
            self.beginning = self.target

    def settle(self) -> None:
        """Everybody returns and catches up."""
        for _ in range(len(BROKERS)):
            self.rise()
        for broker in BROKERS:
            if self.controller.image.brokers[broker].fenced:
                self.controller.return_of(broker, clean=True)
        if self.partition.leader == NO_LEADER:
            self.controller.alter_config("unclean.leader.election.enable", "true")
        for _ in range(2):
            now = self.partition
            self.controller.alter_partition(now.leader, list(now.replicas))
        now = self.partition
        assert (now.adding, now.removing) == ((), ()), "it never ends"
        assert frozenset(now.replicas) == frozenset(now.isr) == self.target


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_any_set_to_any_set_whatever_happens_meanwhile(seed: int, steps: int) -> None:
    operator = Operator(seed)
    for _ in range(steps):
        operator.step()
    operator.settle()


# -- what the schedules found, and what they seldom meet --------------------------------------------------------------


@pytest.fixture
def wide() -> Controller:
    made = Controller()
    made.bring_up(*BROKERS)
    made.create_topic(assignment={0: [1, 2, 3]}, configs=MIN_ISR_2)
    return made


def test_cancelling_is_refused_if_it_shrank_the_isr_below_min_isr(wide: Controller) -> None:
    """RA-05: records were committed by one old replica and one new one; the old one alone may lose them."""
    reassign(wide, [4, 5, 6])
    wide.alter_partition(1, [1, 4])
    before = wide.partition()
    assert reassign(wide, None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert wide.partition() == before
    wide.alter_partition(1, [1, 2, 4])
    assert reassign(wide, None) == ErrorCode.NONE
    assert (wide.partition().replicas, wide.partition().isr) == ((1, 2, 3), (1, 2))


def test_an_isr_that_is_below_min_isr_anyway_stands_in_no_ones_way(wide: Controller) -> None:
    reassign(wide, [4, 5, 6])
    wide.alter_partition(1, [1])
    assert reassign(wide, None) == ErrorCode.NONE
    assert wide.partition().replicas == (1, 2, 3)


def test_another_target_meanwhile_does_not_forget_the_beginning(wide: Controller) -> None:
    """Who was to come and is not wanted any more stays in sync until the end, and then goes."""
    reassign(wide, [4, 5])
    wide.alter_partition(1, [1, 2, 3, 4])
    reassign(wide, [5, 6])
    now = wide.partition()
    assert (now.replicas, now.adding, now.removing, now.isr) == (
        (5, 6, 4, 1, 2, 3), (5, 6, 4), (4, 1, 2, 3), (1, 2, 3, 4),
    )  # fmt: skip
    assert reassign(wide, None) == ErrorCode.NONE
    assert (wide.partition().replicas, wide.partition().isr) == ((1, 2, 3), (1, 2, 3))


def test_a_target_already_in_sync_completes_with_its_start_in_any_order(wide: Controller) -> None:
    assert reassign(wide, [3, 1]) == ErrorCode.NONE
    now = wide.partition()
    assert (now.replicas, now.isr, now.leader, now.adding, now.removing) == ((3, 1), (1, 3), 1, (), ())


def test_an_election_that_leaves_just_the_target_in_sync_completes_the_move(wide: Controller) -> None:
    """The old replicas never return (RA-07: permanent loss); nobody is left to propose an ISR that would end it."""
    reassign(wide, [1, 2])
    wide.fence(1, 2)
    assert wide.partition().leader == NO_LEADER and wide.partition().elr == (1, 2)
    assert reassign(wide, [2]) == ErrorCode.NONE
    assert wide.partition().removing == (1,)
    wide.return_of(2, clean=True)
    now = wide.partition()
    assert (now.replicas, now.isr, now.leader, now.removing) == ((2,), (2,), 2, ())
