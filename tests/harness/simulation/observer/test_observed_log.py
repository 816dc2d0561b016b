"""Where a declared loss begins: at the first batch of the new leader that is not the one which was committed there."""

from __future__ import annotations

from collections import deque

import pytest

from squall.harness.simulation.observer.state.observed_log import Batch, InvariantBroken, Loss, ObservedLog

LEADER, LATER = ("b1", 1), ("b2", 1)


def batch(base: int, epoch: int) -> Batch:
    return Batch(base, base, epoch, 100 * epoch + base)


def committed(*batches: Batch) -> ObservedLog:
    log = ObservedLog("events-0")
    log.seen(LEADER, 0).tail = deque(batches)
    log.commit(LEADER, batches[-1].last + 1, batches[-1].epoch)
    return log


LOG = (batch(0, 0), batch(1, 0), batch(2, 3), batch(3, 3), batch(4, 3))


def loss_by(log: ObservedLog, *batches: Batch) -> Loss:
    return log.declare_loss(LATER, 5, list(batches), batches[-1].last + 1)


@pytest.mark.parametrize("start", [0, 1, 2, 3, 4])
def test_a_loss_begins_where_the_leaders_log_differs_also_below_the_logs_start(start: int) -> None:
    """EL-04: a leader that was away still has what was deleted since. Seed 5000245 of worlds, with other timing."""
    log = committed(*LOG)
    log.trim(start)
    assert loss_by(log, batch(0, 0), batch(1, 0), batch(2, 1), batch(3, 1)).end == 2
    assert log.end == 2
    assert log.superseded(3, 2) and not log.superseded(3, 1)


@pytest.mark.parametrize("start", [0, 2, 4])
def test_a_loss_begins_at_the_end_of_a_leaders_log_that_has_nothing_else(start: int) -> None:
    log = committed(*LOG)
    log.trim(start)
    assert loss_by(log, *LOG[:3]).end == 3


def test_what_a_leader_has_deleted_itself_is_not_compared() -> None:
    log = committed(*LOG)
    log.trim(4)
    assert loss_by(log, batch(3, 3)).end == 4


def test_a_loss_forgets_what_was_deleted_in_the_line_before() -> None:
    log = committed(*LOG)
    log.trim(4)
    loss_by(log, batch(0, 0), batch(1, 0))
    log.seen(LATER, 0).tail = deque([batch(0, 0), batch(1, 0), batch(2, 5), batch(3, 5)])
    log.commit(LATER, 4, 5)
    assert log.declare_loss(LEADER, 6, [batch(0, 0), batch(1, 0), batch(2, 5)], 3).end == 3


def test_what_a_leader_has_deleted_was_not_of_a_later_epoch_than_what_it_still_has() -> None:
    """Seed 908371 of worlds: a leader of epoch 1 comes back with offsets 3 on, and epoch 3 began at 2 meanwhile."""
    log = committed(*LOG)
    assert loss_by(log, batch(3, 1), batch(4, 1)).end == 2
    log = committed(*LOG)
    log.trim(4)
    assert loss_by(log, batch(4, 1)).end == 2
    log = committed(*LOG)
    assert loss_by(log, batch(3, 3)).end == 4


def test_a_log_may_begin_within_the_first_batch_that_is_committed_after_a_loss() -> None:
    """Seed 1002693 of worlds: an unclean leader's log began within a batch, above all that was committed then."""
    log = committed(*LOG)
    log.trim(7)
    wide = Batch(5, 8, 3, 77)
    log.seen(LATER, 0).tail = deque([wide, batch(9, 3)])
    assert log.commit(LATER, 10, 7) == [wide, batch(9, 3)]
    assert (log.start, log.end) == (7, 10)
    log.seen(("b3", 1), 0).tail = deque([Batch(5, 8, 4, 78)])
    with pytest.raises(InvariantBroken, match=r"^LM: .* b3 has committed batch 5–8 of epoch 4"):
        log.commit(("b3", 1), 9, 7)


def test_a_batch_at_the_logs_start_may_not_replace_what_was_committed_before_it() -> None:
    log = committed(*LOG)
    log.trim(5)
    log.seen(LATER, 0).tail = deque([Batch(4, 6, 3, 77)])
    with pytest.raises(InvariantBroken, match=r"^LM: .* b2 has committed batch 4–6 of epoch 3"):
        log.commit(LATER, 7, 7)


def test_what_is_committed_between_the_start_and_the_end_has_no_gap() -> None:
    log = committed(*LOG)
    log.trim(2)
    log.seen(LATER, 0).tail = deque([Batch(1, 2, 3, 77)])
    with pytest.raises(InvariantBroken, match=r"^LM: .* b2 has committed batch 1–2 of epoch 3"):
        log.commit(LATER, 3, 7)
