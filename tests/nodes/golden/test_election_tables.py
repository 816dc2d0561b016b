"""Elections and eligible leader replicas, as tables over the pure decision (EL-02, EL-04, rules 27, 28).

Replicas are 1, 2, 3 in this order of assignment, and min ISR is 2, where a row does not say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from squall.nodes.controller.elections import Decision, Rules, decide
from squall.nodes.metadata.topic import PartitionRegistration, RareFields

NOBODY = -1
BY = Rules(min_isr=2)
UNCLEAN = replace(BY, unclean=True)
BALANCED = replace(BY, last_known_leader=True)
WITHOUT = replace(BY, eligible_leaders=False)


def partition(
    leader: int = 1,
    isr: tuple[int, ...] = (1, 2, 3),
    elr: tuple[int, ...] = (),
    known: tuple[int, ...] = (),
    replicas: tuple[int, ...] = (1, 2, 3),
) -> PartitionRegistration:
    return PartitionRegistration(replicas, isr, leader, 5, 9, RareFields(elr=elr, last_known_elr=known))


@dataclass(frozen=True)
class Row:
    says: str
    before: PartitionRegistration
    isr: tuple[int, ...]
    expected: Decision
    active: tuple[int, ...] = (1, 2, 3)
    rules: Rules = BY
    lost: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.says.replace(" ", "_")


def check(row: Row) -> None:
    assert decide(row.before, row.isr, lambda one: one in row.active, row.rules, lost=row.lost) == row.expected


ELR = [
    Row("enough in sync: nobody is eligible", partition(), (1, 2), Decision(1, (1, 2))),
    Row("who leaves a sufficient ISR is not eligible", partition(isr=(1, 2)), (1,), Decision(1, (1,), (2,))),
    Row("all who leave at once below min ISR are", partition(), (1,), Decision(1, (1,), (2, 3))),
    Row("who was eligible stays so", partition(isr=(1,), elr=(2,)), (1,), Decision(1, (1,), (2,))),
    Row("who comes back is in the ISR instead", partition(isr=(1,), elr=(2,)), (1, 2), Decision(1, (1, 2))),
    Row(
        "enough in sync again clears it, whoever they are",
        partition(isr=(1,), elr=(2,), known=(3,)),
        (1, 3),
        Decision(1, (1, 3)),
    ),
    Row(
        "min ISR 3: one of the eligible comes back",
        partition(isr=(1,), elr=(2, 3)),
        (1, 2),
        Decision(1, (1, 2), (3,)),
        rules=replace(BY, min_isr=3),
    ),
    Row(
        "the last member that goes is eligible, and known to have led last",
        partition(isr=(1,), elr=(2,)),
        (),
        Decision(NOBODY, (), (1, 2), (1,)),
        active=(3,),
    ),
    Row(
        "an unclean restart ends eligibility",
        partition(isr=(1,), elr=(2, 3)),
        (1,),
        Decision(1, (1,), (3,), (2,)),
        lost=(2,),
    ),
    Row(
        "an unclean restart ends membership",
        partition(isr=(1, 2)),
        (1, 2),
        Decision(1, (1,), (), (2,)),
        lost=(2,),
    ),
    Row(
        "an unclean restart out of a sufficient ISR leaves no trace",
        partition(),
        (1, 2, 3),
        Decision(1, (1, 2)),
        lost=(3,),
    ),
    Row(
        "the last of all restarts uncleanly",
        partition(leader=NOBODY, isr=(), elr=(1,), known=(1, 2)),
        (),
        Decision(NOBODY, (), (), (1, 2)),
        lost=(1,),
        active=(2, 3),
    ),
    Row(
        "min ISR is never more than there are replicas",
        partition(isr=(1, 2), replicas=(1, 2)),
        (1, 2),
        Decision(1, (1, 2)),
        rules=replace(BY, min_isr=5),
    ),
    Row(
        "one replica: eligible when it goes",
        partition(isr=(1,), replicas=(1,)),
        (),
        Decision(NOBODY, (), (1,), (1,)),
        active=(),
    ),
    Row(
        "whoever is no replica any more is not eligible",
        partition(leader=2, isr=(2, 4), elr=(5,), replicas=(2, 3)),
        (2,),
        Decision(2, (2,)),
    ),
    Row("without ELR there is none", partition(isr=(1,), elr=(2,), known=(3,)), (1,), Decision(1, (1,)), rules=WITHOUT),
]


@pytest.mark.parametrize("row", ELR, ids=str)
def test_who_is_eligible_follows_from_the_isr_before_and_after(row: Row) -> None:
    """EL-02."""
    check(row)


ORDER = [
    Row("the leader stays if it may", partition(leader=3), (1, 2, 3), Decision(3, (1, 2, 3))),
    Row("the first in assignment order leads", partition(leader=3), (2, 1), Decision(1, (2, 1))),
    Row("but only if it is active", partition(leader=1), (1, 2, 3), Decision(2, (1, 2, 3)), active=(2, 3)),
    Row("and only if it is in the ISR", partition(leader=3, isr=(2, 3)), (2,), Decision(2, (2,), (3,)), active=(1, 2)),
    Row(
        "the ISR goes before the ELR",
        partition(leader=3, isr=(3, 2), elr=(1,)),
        (2,),
        Decision(2, (2,), (1, 3)),
    ),
    Row(
        "the ELR while the ISR is not empty: never",
        partition(leader=NOBODY, isr=(3,), elr=(1,)),
        (3,),
        Decision(NOBODY, (3,), (1,)),
        active=(1, 2),
    ),
    Row(
        "the ELR once the ISR is empty; it alone is in sync then",
        partition(leader=1, isr=(1,), elr=(2, 3)),
        (),
        Decision(2, (2,), (1, 3)),
        active=(2, 3),
    ),
    Row(
        "the first of the ELR in assignment order that is active",
        partition(leader=NOBODY, isr=(), elr=(3, 2), known=(1,)),
        (),
        Decision(3, (3,), (2,), (1,)),
        active=(1, 3),
    ),
    Row(
        "nobody, while the eligible are away",
        partition(leader=NOBODY, isr=(), elr=(2,), known=(1,)),
        (),
        Decision(NOBODY, (), (2,), (1,)),
        active=(1, 3),
        rules=BALANCED,
    ),
    Row(
        "a leader from the ELR that may commit alone makes the others ineligible",
        partition(leader=NOBODY, isr=(), elr=(1, 2), known=(1,)),
        (),
        Decision(1, (1,)),
        rules=replace(BY, min_isr=1),
    ),
    Row(
        "the last known leader, if all are ineligible and it is active",
        partition(leader=NOBODY, isr=(), known=(3, 1)),
        (),
        Decision(3, (3,), unclean=True),
        rules=BALANCED,
    ),
    Row(
        "not if it is not active, whoever else is (X33)",
        partition(leader=NOBODY, isr=(), known=(3, 1)),
        (),
        Decision(NOBODY, (), (), (3, 1)),
        active=(1, 2),
        rules=BALANCED,
    ),
    Row(
        "not with the strategy None",
        partition(leader=NOBODY, isr=(), known=(3, 1)),
        (),
        Decision(NOBODY, (), (), (3, 1)),
    ),
    Row(
        "where unclean elections are allowed, the last known leader goes first",
        partition(leader=NOBODY, isr=(), known=(3, 1)),
        (),
        Decision(3, (3,), unclean=True),
        rules=UNCLEAN,
    ),
    Row(
        "then anybody who is active",
        partition(leader=NOBODY, isr=(), known=(3, 1)),
        (),
        Decision(2, (2,), unclean=True),
        active=(2,),
        rules=UNCLEAN,
    ),
    Row(
        "an unclean election does not wait for the eligible, and forgets them",
        partition(leader=1, isr=(1,), elr=(2,)),
        (),
        Decision(3, (3,), unclean=True),
        active=(3,),
        rules=UNCLEAN,
    ),
    Row(
        "but it asks them first",
        partition(leader=1, isr=(1,), elr=(3,)),
        (),
        Decision(3, (3,), (1,)),
        active=(2, 3),
        rules=UNCLEAN,
    ),
    Row("nobody is alive", partition(), (), Decision(NOBODY, (), (1, 2, 3), (1,)), active=(), rules=UNCLEAN),
    Row(
        "without ELR the last member stays",
        partition(isr=(1,)),
        (),
        Decision(NOBODY, (1,)),
        active=(2, 3),
        rules=WITHOUT,
    ),
    Row(
        "and leads again when it comes back, whatever it has",
        partition(leader=NOBODY, isr=(1,)),
        (1,),
        Decision(1, (1,)),
        rules=WITHOUT,
        lost=(1,),
    ),
    Row(
        "without ELR an unclean election takes anybody as well",
        partition(isr=(1,)),
        (),
        Decision(2, (2,), unclean=True),
        active=(2, 3),
        rules=replace(WITHOUT, unclean=True),
    ),
    Row(
        "without ELR there is no last known leader",
        partition(leader=NOBODY, isr=(1,), known=(2,)),
        (1,),
        Decision(NOBODY, (1,)),
        active=(2,),
        rules=replace(WITHOUT, last_known_leader=True),
    ),
]


@pytest.mark.parametrize("row", ORDER, ids=str)
def test_leaders_are_elected_in_the_order_of_who_is_known_to_have_everything(row: Row) -> None:
    """Rule 27. EL-04."""
    check(row)


def test_deciding_twice_changes_nothing_more() -> None:
    for row in ELR + ORDER:
        once = decide(row.before, row.isr, lambda one, row=row: one in row.active, row.rules, lost=row.lost)
        rare = RareFields(elr=once.elr, last_known_elr=once.last_known_elr)
        after = replace(row.before, leader=once.leader, isr=once.isr, rare=rare)
        twice = decide(after, once.isr, lambda one, row=row: one in row.active, row.rules)
        assert replace(twice, unclean=False) == replace(once, unclean=False), row.says
