"""DP-13 as the observer asserts it: a leader epoch cache names the epoch of each batch."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.rules.leader_epochs import check_epochs
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from tests.harness.simulation.observer.observed import Cluster, HandMadeEpochs, HandMadeLog, batch


class Misremembered(HandMadeEpochs):
    """A cache with these entries, whatever the batches say."""

    def __init__(self, log: HandMadeLog, *entries: tuple[int, int]) -> None:
        super().__init__(log)
        self._entries = list(entries)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return self._entries


def examine(*entries: tuple[int, int], start: int = 0) -> None:
    """Batches of epoch 1 at 0 and 1, of epoch 3 at 2, on a replica whose cache has these entries."""
    cluster = Cluster()
    log = HandMadeLog(batch(0, 1, 10), batch(1, 1, 11), batch(2, 3, 12))
    log.start_offset = start
    log.epochs = Misremembered(log, *entries)
    cluster.replica("b1").log = log
    check_epochs(cluster.observer.cluster, "events-0", "b1", cluster.replica("b1"))  # type: ignore[arg-type]


def test_a_cache_that_names_the_epoch_of_each_batch_is_sound() -> None:
    examine((1, 0), (3, 2))


def test_epochs_without_batches_are_legal() -> None:
    examine((1, 0), (3, 2), (4, 3))


def test_a_cache_may_begin_where_the_log_does() -> None:
    examine((1, 1), (3, 2), start=1)


@pytest.mark.parametrize(
    ("entries", "offset", "known"),
    [(((1, 0),), 2, 1), (((1, 0), (3, 1)), 1, 3), (((3, 2),), 0, None), (((1, 0), (2, 1), (3, 2)), 1, 2)],
)
def test_dp_13_breaks_when_a_batch_has_another_epoch(
    entries: tuple[tuple[int, int], ...], offset: int, known: int | None
) -> None:
    with pytest.raises(InvariantBroken, match=rf"^DP-13: .* at offset {offset}, .* says epoch {known}:"):
        examine(*entries)
