"""Administrators' writes: the rule fires when one request is carried out twice, and is silent on what looks like it."""

from __future__ import annotations

import re

import pytest

from squall.harness.simulation.observer.state.observed_log import Batch, InvariantBroken
from squall.harness.simulation.observer.state.observed_writes import ObservedWrites

DELETION = "DELETE_TOPICS side-1"


class Course:
    """A metadata log whose batches hold one record each, and what nodes trace of administrators' writes."""

    def __init__(self) -> None:
        self.observed = ObservedWrites()
        self.log: dict[int, Batch] = {}

    def sent(
        self,
        correlation: int,
        request: int,
        broker: int = 1,
        incarnation: int = 1,
        asked: str = DELETION,
        controller: int = 101,
    ) -> None:
        fields = {
            "client": f"node-{broker}",
            "correlation": correlation,
            "controller": controller,
            "request": request,
            "asked": asked,
        }
        self.observed.look(f"b{broker}", incarnation, [("admin_sent", fields)])

    def written(self, correlation: int, offset: int, epoch: int = 1, broker: int = 1, asked: str = DELETION) -> None:
        fields = {
            "client": f"node-{broker}",
            "correlation": correlation,
            "asked": asked,
            "offset": offset,
            "epoch": epoch,
            "node": 101,
        }
        self.observed.look("c1", 1, [("admin_write", fields)])

    def committed(self, offset: int, epoch: int = 1) -> None:
        self.log[offset] = Batch(offset, offset, epoch, 0)
        self.observed.follow(offset + 1, self.log.get)


def test_md_09_breaks_when_a_request_is_repeated_after_it_was_committed() -> None:
    """Mutant parked-writes-repeated."""
    course = Course()
    course.sent(correlation=7, request=3)
    course.written(correlation=7, offset=10)
    course.committed(10)
    course.sent(correlation=8, request=3)
    course.written(correlation=8, offset=12, epoch=2)
    words = re.escape(
        "DELETE_TOPICS side-1, which b1 passed on once, is carried out twice: its records are committed at offset 10"
    )
    with pytest.raises(InvariantBroken, match=f"^MD-09: {words}"):
        course.committed(12, epoch=2)


def test_md_09_breaks_when_both_writes_are_committed_together() -> None:
    course = Course()
    course.sent(correlation=7, request=3)
    course.written(correlation=7, offset=10)
    course.sent(correlation=8, request=3)
    course.written(correlation=8, offset=11)
    course.log = {10: Batch(10, 10, 1, 0), 11: Batch(11, 11, 1, 0)}
    with pytest.raises(InvariantBroken, match=r"^MD-09: "):
        course.observed.follow(12, course.log.get)


def test_a_write_that_was_lost_with_its_controller_may_be_repeated() -> None:
    """Another controller has put something else at its offset."""
    course = Course()
    course.sent(correlation=7, request=3)
    course.written(correlation=7, offset=10, epoch=1)
    course.sent(correlation=8, request=3)
    course.written(correlation=8, offset=11, epoch=2)
    course.committed(10, epoch=2)
    course.committed(11, epoch=2)
    assert course.observed.committed == 1


def test_two_requests_for_the_same_may_both_be_carried_out() -> None:
    course = Course()
    for number in (1, 2):
        course.sent(correlation=number, request=number)
        course.written(correlation=number, offset=number)
        course.committed(number)
    assert course.observed.committed == 2


def test_a_broker_that_starts_anew_counts_its_requests_from_the_beginning() -> None:
    course = Course()
    for incarnation in (1, 2):
        course.sent(correlation=0, request=1, incarnation=incarnation)
        course.written(correlation=0, offset=incarnation)
        course.committed(incarnation)
    assert course.observed.committed == 2


def test_two_attempts_with_one_correlation_id_at_different_controllers_are_not_confused() -> None:
    """`worlds` seed 985854: a write for one request was taken for a write for the other."""
    course = Course()
    course.sent(correlation=5, request=21)
    course.sent(correlation=5, request=30, controller=102)
    course.written(correlation=5, offset=10)
    course.committed(10)
    course.sent(correlation=6, request=30)
    course.written(correlation=6, offset=12)
    course.committed(12)
    assert course.observed.committed == 2


def test_a_write_that_can_belong_to_either_of_two_incarnations_is_not_tracked() -> None:
    """The controller may have received the older request late, so that the newer one is still to be carried out."""
    course = Course()
    course.sent(correlation=5, request=21)
    course.sent(correlation=5, request=21, incarnation=2)
    course.written(correlation=5, offset=10)
    course.committed(10)
    course.sent(correlation=6, request=21, incarnation=2)
    course.written(correlation=6, offset=12)
    course.committed(12)
    assert course.observed.committed == 1


def test_md_09_breaks_when_a_controller_carries_out_one_attempt_twice() -> None:
    course = Course()
    course.sent(correlation=5, request=21)
    for offset in (10, 12):
        course.written(correlation=5, offset=offset)
    course.committed(10)
    with pytest.raises(InvariantBroken, match=r"^MD-09: "):
        course.committed(12)


def test_what_clients_ask_of_a_controller_themselves_is_not_followed() -> None:
    course = Course()
    for offset in (1, 2):
        course.written(correlation=5, offset=offset)
        course.committed(offset)
    assert course.observed.committed == 0
