"""DP-05 as the observer asserts it: a replica knows of producers what its log says, by hand and by mutants."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.producer_states import ProducerStates, check_producers
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.nodes.protocol.records import Record, build_batch, patch
from squall.nodes.storage.producers import BATCHES_KEPT
from squall.workloads.clients.common.payload import encode_value
from tests.harness.simulation.observer.observed import Cluster, HandMadeLog, producers_of

PRODUCER = 7


def produced(sequence: int, *, epoch: int = 0, timestamp: int = 1_000, producer: int = PRODUCER) -> bytes:
    """A batch of one record at the offset of its sequence number."""
    made = bytearray(
        build_batch(
            [Record(value=encode_value(sequence, 16))],
            timestamp=timestamp,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )
    patch(made, sequence, 0)
    return bytes(made)


def examine(log: HandMadeLog) -> None:
    cluster = Cluster()
    cluster.replica("b1").log = log
    check_producers(cluster.observer.cluster, "events-0", "b1", cluster.replica("b1"))  # type: ignore[arg-type]


def log_of(count: int, *, known: int | None = None) -> HandMadeLog:
    """A log of so many batches, on a replica that knows the first `known` of them."""
    log = HandMadeLog(*(produced(number) for number in range(count)))
    if known is not None:
        log.known = producers_of(HandMadeLog(*(produced(number) for number in range(known))).headers())
    return log


@pytest.mark.parametrize("count", [0, 1, BATCHES_KEPT, BATCHES_KEPT + 3])
def test_a_replica_that_knows_its_batches_is_sound(count: int) -> None:
    examine(log_of(count))


def test_dp_05_breaks_when_a_replica_knows_nothing_of_a_producer_in_its_log() -> None:
    with pytest.raises(InvariantBroken, match=r"^DP-05: .* producer 7 up to offset 2, and knows nothing of it"):
        examine(log_of(3, known=0))


def test_dp_05_breaks_when_a_replica_knows_less_than_its_log_has() -> None:
    with pytest.raises(InvariantBroken, match=r"^DP-05: .* up to offset 2, and knows sequences 1 to 1 at offset 1"):
        examine(log_of(3, known=2))


def restarted(*knows: int, cut: int | None = 5) -> None:
    """A replica with two batches starts its log again at offset 5, and then knows the batches at these offsets.

    Without a cut it has appended in that turn, and then deleted what is below 5.
    """
    rule = ProducerStates(Cluster().observer.cluster)
    process = SimpleNamespace(name="b1", incarnation=1)
    watched = SimpleNamespace(log=SimpleNamespace(name="events-0"))
    for start, end, known, where in ((0, 2, (0, 1), None), (5, 6, knows, cut)):
        states = producers_of(HandMadeLog(*(produced(number) for number in known)).headers())
        log = SimpleNamespace(start_offset=start, producers=states)
        replica = SimpleNamespace(
            topic="events",
            topic_id=bytes(16),
            partition=0,
            log=log,
            end_offset=end,
            read=lambda *_, **__: memoryview(b""),
        )
        turn: Any = SimpleNamespace(process=process, watched=watched, replica=replica, cut=where)
        rule.replica_examined(turn, 0)


def test_dp_05_breaks_when_a_log_that_starts_again_keeps_its_producers() -> None:
    with pytest.raises(InvariantBroken, match=r"^DP-05: events-0: b1 has a log that starts again at 5, and knows of"):
        restarted(0, 1)


def test_a_log_that_starts_again_knows_what_it_has_since() -> None:
    restarted(5)


def test_producers_outlive_records_that_are_appended_and_deleted_in_one_turn() -> None:
    restarted(0, 1, cut=None)


def test_dp_05_breaks_when_a_replica_knows_what_was_truncated() -> None:
    """Also of a producer all of whose batches were truncated."""
    log = log_of(2)
    others = [produced(number, producer=8) for number in (2, 3)]
    log.known = producers_of(HandMadeLog(produced(0), produced(1), *others).headers())
    with pytest.raises(InvariantBroken, match=r"^DP-05: .* ends at 2, and knows of producer 8 sequences 3 to 3"):
        examine(log)


def test_batches_that_retention_removed_may_still_be_known() -> None:
    log = log_of(4)
    log.known = log.producers
    log.batches, log.start_offset = log.batches[2:], 2
    examine(log)


def test_a_new_epoch_of_a_producer_begins_without_earlier_batches() -> None:
    examine(HandMadeLog(produced(0), produced(1), produced(2, epoch=1)))


def test_a_producer_that_was_silent_for_long_may_be_forgotten() -> None:
    day = HandMadeLog().config.producer_expiration_ms
    log = HandMadeLog(produced(0), produced(1, producer=8, timestamp=2_000 + day))
    log.known = producers_of(log.headers()[1:])
    examine(log)
    log.batches[1] = produced(1, producer=8, timestamp=1_000 + day)
    log.known = producers_of(log.headers()[1:])
    with pytest.raises(InvariantBroken, match=r"^DP-05: .* producer 7"):
        examine(log)


# -- nodes with the bug -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mutant", "scenario"),
    [("dedup-lost-on-failover", "retry-after-failover"), ("producer-state-survives-truncation", "truncated-retry")],
)
def test_nodes_whose_producer_states_are_wrong_break_dp_05(mutant: str, scenario: str) -> None:
    assert simulate(find_scenario(scenario)[0], 1, SimOptions(mutants=(mutant,))).broken == ("DP-05",)
