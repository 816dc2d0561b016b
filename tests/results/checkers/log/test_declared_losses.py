"""A loss that an observed unclean election explains is legal; every other is a lost write as ever (EL-04, HX-06)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from squall.results.check import check_run, verdict_of
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.segments import ClusterObservation
from squall.results.synthetic.forge import MILLISECOND, Forged, forge_run
from squall.results.verdict.verdict import Verdict

LOST_FROM = 2
"""Where the logs of the two leaders part."""


def send(value: int, offset: int, at: int, epoch: int) -> Forged:
    return Forged(
        "send", value, 0, at * MILLISECOND, (at + 1) * MILLISECOND,
        value=value, offset=offset, sequence=value, leader_epoch=epoch,
    )  # fmt: skip


def poll(run: tuple[tuple[int, int], ...], at: int, epoch: int, f: str = "poll", session: int = 1) -> Forged:
    return Forged(
        f, 90 if f == "poll" else 91, 9 if f == "poll" else 10, at * MILLISECOND, (at + 1) * MILLISECOND,
        run=run, session=session, leader_epoch=epoch,
    )  # fmt: skip


OLD = [send(value, value, 2 * value, epoch=0) for value in range(4)]
"""Values 0 to 3 at offsets 0 to 3, acknowledged under leader epoch 0."""
NEW = [send(value, value - 8, 2 * value, epoch=1) for value in range(10, 13)]
"""Values 10 to 12 at offsets 2 to 4, acknowledged under leader epoch 1: 2 and 3 are gone."""
MARKER = replace(send(20, 5, 60, epoch=1), f="marker", process=20)
LOG = ((0, 0), (1, 1), (2, 10), (3, 11), (4, 12), (5, 20))
FINAL = poll(LOG, 70, epoch=1, f="final_poll")
READS = [poll(((0, 0), (1, 1), (2, 2), (3, 3)), 10, epoch=0), poll(((2, 10), (3, 11)), 30, epoch=1)]
"""One session read to the end, and after the loss it had to go back."""

ELECTION = ClusterObservation(
    time=15 * MILLISECOND, kind="unclean", topic="events", partition=0, epoch=1, offset=LOST_FROM
)


def history() -> list[Forged]:
    return [*OLD, *READS, *NEW, MARKER, FINAL]


def checked(directory: Path, operations: list[Forged], *seen: ClusterObservation) -> Verdict:
    ordered = sorted(operations, key=lambda one: one.invoked)
    run = forge_run(directory, ordered, cluster=seen, fault_free=True, min_acknowledged=1)
    verdict = check_run(run, InProcess(), report=False)
    assert verdict_of(run).anomalies == verdict.anomalies
    return verdict


def names(verdict: Verdict) -> set[str]:
    return {one.name for one in verdict.anomalies}


def test_a_loss_without_an_observed_unclean_election_is_a_lost_write(tmp_path: Path) -> None:
    assert "lost_write" in names(checked(tmp_path / "run", history()))


def test_a_loss_that_an_observed_unclean_election_explains_is_legal(tmp_path: Path) -> None:
    verdict = checked(tmp_path / "run", history(), ELECTION)
    assert (verdict.verdict, verdict.reasons) == ("valid", ())
    assert verdict.coverage.declared_lost == 2
    assert "nothing acknowledged lost but 2 by unclean elections, as allowed" in [
        one.text for one in verdict.statements
    ]


@pytest.mark.parametrize(
    "election",
    [
        pytest.param({"partition": 1}, id="of another topic-partition"),
        pytest.param({"offset": 3}, id="that began beyond the loss"),
        pytest.param({"epoch": 0}, id="of an earlier epoch"),
    ],
)
def test_an_unclean_election_explains_no_other_loss(tmp_path: Path, election: dict[str, int]) -> None:
    facts = {name: getattr(ELECTION, name) for name in ELECTION.__struct_fields__} | election
    assert "lost_write" in names(checked(tmp_path / "run", history(), ClusterObservation(**facts)))


def test_what_is_lost_after_the_unclean_election_is_a_lost_write(tmp_path: Path) -> None:
    """The new leader acknowledged it."""
    shorter = poll(tuple(pair for pair in LOG if pair[0] != 4), 70, epoch=1, f="final_poll")
    broken = [shorter if one is FINAL else one for one in history()]
    assert names(checked(tmp_path / "run", broken, ELECTION)) == {"lost_write"}


def test_what_a_client_got_from_the_new_leader_by_an_older_epoch_is_no_loss(tmp_path: Path) -> None:
    """A Produce request carries no leader epoch: a client that knows an old one may reach the new leader."""
    operations = [replace(one, leader_epoch=0) if one.value == 12 else one for one in history()]
    verdict = checked(tmp_path / "run", operations, ELECTION)
    assert (verdict.verdict, verdict.coverage.declared_lost) == ("valid", 2)


def test_a_deposed_leader_may_serve_its_line_of_the_log_beside_the_new_one(tmp_path: Path) -> None:
    late = poll(((2, 2), (3, 3)), 40, epoch=0, session=2)
    assert checked(tmp_path / "run", [*history(), late], ELECTION).verdict == "valid"


def test_below_the_loss_both_lines_are_one_log(tmp_path: Path) -> None:
    false = poll(((0, 0), (1, 3)), 40, epoch=0, session=2)
    assert "inconsistent_offset" in names(checked(tmp_path / "run", [*history(), false], ELECTION))


def test_a_deletion_says_nothing_of_the_log_of_a_new_line(tmp_path: Path) -> None:
    """The new leader may have had an earlier log start; the node that answered the deletion has followed it since."""
    deletion = Forged("delete_records", 92, 11, 12 * MILLISECOND, 13 * MILLISECOND, log_start=3, leader_epoch=0, node=1)
    later = replace(READS[1], node=1)
    told = [*OLD, READS[0], deletion, later, *NEW, MARKER, replace(FINAL, log_start=0)]
    assert checked(tmp_path / "run", told, ELECTION).verdict == "valid"
