"""What the observer makes of the committed metadata log: who may leave, who may come, what snapshots must hold."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from squall.harness.simulation.run.run import simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from squall.nodes.metadata.snapshot import snapshot_values
from squall.nodes.ports import NullTrace
from squall.nodes.raft.config import Voter
from squall.nodes.raft.snapshot_file import ControlRecord, SnapshotContent
from squall.nodes.raft.snapshots import SnapshotId, Snapshots
from squall.nodes.raft.voters import KRAFT_VOTERS, VoterHistory, VoterSet, voters_record
from tests.harness.simulation.observer.metadata_log import TOPIC_ID, Log, breaks

# -- RA-05 --------------------------------------------------------------------------------------------------------


def begun() -> Log:
    """events-0 is to go from 1, 2, 3 to 3, 4, 5."""
    log = Log()
    log.change(replicas=[3, 4, 5, 1, 2], adding_replicas=[4, 5], removing_replicas=[1, 2])
    return log


def test_replicas_leave_when_all_that_stay_are_in_sync() -> None:
    log = begun()
    log.change(isr=[1, 2, 3, 4])
    log.change(isr=[3, 4, 5], leader=3, replicas=[3, 4, 5], adding_replicas=[], removing_replicas=[])
    assert log.observer.reassignments_completed == 1


def test_ra_05_breaks_if_replicas_leave_before_all_targets_are_in_sync() -> None:
    """Mutant reassignment-shrinks-early (N15)."""
    log = begun()
    with breaks("RA-05", "replicas [1, 2] leave, but [5]"):
        log.change(isr=[3, 4], leader=3, replicas=[3, 4, 5], adding_replicas=[], removing_replicas=[])


def test_a_cancelled_reassignment_takes_away_what_came_with_it_in_sync_or_not() -> None:
    """RA-08."""
    log = begun()
    log.change(isr=[1, 3])
    log.change(replicas=[1, 2, 3], adding_replicas=[], removing_replicas=[], leader=1)
    assert log.observer.reassignments_completed == 0


# -- CS-02 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{"fenced": 1}, {"in_controlled_shutdown": 1}])
def test_nobody_who_is_fenced_or_stopping_is_let_into_an_isr_or_made_leader(fields: dict[str, int]) -> None:
    """KIP-841, IS-08."""
    for change in ({"isr": [1, 2, 3]}, {"leader": 3}):
        log = Log()
        log.change(isr=[1, 2])
        log.commit(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=2, **fields))
        with breaks("CS-02", "broker 3"):
            log.change(**change)


def test_who_is_stopping_may_leave_and_others_may_lead() -> None:
    log = Log()
    log.commit(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, in_controlled_shutdown=1))
    log.change(isr=[2, 3], leader=2)


def without_an_isr(elr: list[int], last_known: list[int]) -> Log:
    """All brokers of events-0 are fenced, and its ISR is empty: eligible leader replicas are kept."""
    log = Log()
    log.commit(FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=1))
    log.commit(
        *(BrokerRegistrationChangeRecord(broker_id=one, broker_epoch=one - 1, fenced=1) for one in (1, 2, 3)),
        PartitionChangeRecord(
            topic_id=TOPIC_ID,
            partition_id=0,
            isr=[],
            leader=-1,
            eligible_leader_replicas=elr or None,
            last_known_elr=last_known,
        ),
    )
    return log


@pytest.mark.parametrize(("elr", "last_known", "isr"), [([2, 3], [1], [2, 3]), ([], [1, 3], [1])])
def test_an_empty_isr_gets_its_offline_members_back_when_eligible_leaders_end(
    elr: list[int], last_known: list[int], isr: list[int]
) -> None:
    """EL-06: otherwise the last members of an ISR stay in it when they go offline. Seed 54 of swarm-elr-switch."""
    log = without_an_isr(elr, last_known)
    log.commit(FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=0))
    log.change(isr=isr, eligible_leader_replicas=[] if elr else None, last_known_elr=[])


def test_nobody_else_joins_an_empty_isr_when_eligible_leaders_end() -> None:
    log = without_an_isr([2], [1, 3])
    log.commit(FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=0))
    with breaks("CS-02", "broker 1"):
        log.change(isr=[1, 2], eligible_leader_replicas=[], last_known_elr=[])


def test_offline_members_do_not_come_back_while_eligible_leaders_are_kept() -> None:
    log = without_an_isr([2], [1, 3])
    with breaks("CS-02", "broker 2"):
        log.change(isr=[2], eligible_leader_replicas=[], last_known_elr=[])


def test_an_offline_member_is_not_made_leader_when_eligible_leaders_end() -> None:
    log = without_an_isr([2], [1, 3])
    log.commit(FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=0))
    with breaks("CS-02", "broker 2"):
        log.change(isr=[2], leader=2, eligible_leader_replicas=[], last_known_elr=[])


# -- FD-05 --------------------------------------------------------------------------------------------------------


def test_a_fencing_breaks_fd_05_only_where_all_must_be_calm() -> None:
    log = Log()
    log.commit(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=2, fenced=1))
    log.commit(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=2, fenced=-1))
    log.observer.must_be_calm = True
    with breaks("FD-05"):
        log.commit(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=2, fenced=1))


# -- SN-03 --------------------------------------------------------------------------------------------------------


def written(image: MetadataImage, end: int, *voters: VoterSet) -> tuple[Snapshots, SnapshotId]:
    """A snapshot of this image and these voters under that name."""
    disk = SimDisk(Random(1))
    disk.make_directory("log")
    snapshots, snapshot_id = Snapshots(disk, "log", node_id=1, trace=NullTrace()), SnapshotId(end, 1)
    writer = snapshots.create(snapshot_id, 0, [ControlRecord(KRAFT_VOTERS, voters_record(one)) for one in voters])
    for values in snapshot_values(image, 100):
        writer.append(values)
    writer.finish()
    return snapshots, snapshot_id


def test_a_snapshot_that_holds_the_log_below_its_end_is_in_order() -> None:
    log = Log()
    snapshots, snapshot_id = written(log.image(), len(log.records))
    log.change(isr=[1, 2])
    log.observer.written("b1", snapshots, snapshot_id)
    assert log.observer.snapshots_checked == 1


def test_a_snapshot_with_less_or_more_than_its_name_says_breaks_sn_03() -> None:
    """Mutant snapshot-above-hw holds what is not committed."""
    log = Log()
    early, end = log.image(), len(log.records)
    log.change(isr=[1, 2])
    for image, named in ((early, end + 1), (log.image(), end)):
        with breaks("SN-03", f"b1: the snapshot of all below offset {named}, epoch "):
            log.observer.written("b1", *written(image, named))


def test_a_snapshot_whose_batches_are_of_another_epoch_breaks_sn_03(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    monkeypatch.setattr(SnapshotContent, "_append", appended_in_epoch(2))
    with breaks("SN-03", "epoch 1, has batches of epoch 2"):
        log.observer.written("b1", *written(log.image(), len(log.records)))


def appended_in_epoch(epoch: int) -> Callable[[SnapshotContent, bytearray, int], None]:
    """A method that writes batches of this epoch, whatever the snapshot is named."""
    append = SnapshotContent._append

    def appended(self: SnapshotContent, batch: bytearray, count: int) -> None:
        self._epoch = epoch
        append(self, batch, count)

    return appended


def voter_set(*ids: int) -> VoterSet:
    return VoterSet(tuple(Voter(one, f"c{one}", 9093, one.to_bytes(16, "big")) for one in ids))


def test_a_snapshot_has_the_voters_of_the_log_below_its_end() -> None:
    """Also where there are other voters by now, and where no record is about them: then the configuration counts."""
    log = Log()
    log.observer.written("b1", *written(log.image(), len(log.records)))
    log.observer.voters = voter_set(1, 2, 3)
    log.change(isr=[1, 2])
    snapshot = written(log.image(), len(log.records), voter_set(1, 2, 3))
    log.observer.voters = voter_set(1, 2)
    log.change(isr=[1])
    log.observer.written("b1", *snapshot)
    assert log.observer.snapshots_checked == 2


@pytest.mark.parametrize("held", [(), (voter_set(1, 2),)])
def test_a_snapshot_with_other_voters_than_the_log_breaks_sn_03(held: tuple[VoterSet, ...]) -> None:
    log = Log()
    log.observer.voters = voter_set(1, 2, 3)
    log.change(isr=[1, 2])
    with breaks("SN-03", ", the log below its end has [1, 2, 3]"):
        log.observer.written("b1", *written(log.image(), len(log.records), *held))


def test_nodes_whose_snapshots_hold_former_voters_break_sn_03(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 13 draws dynamic voters that operators change, and snapshots often."""
    monkeypatch.setattr(VoterHistory, "at", lambda self, end_offset: self._logged[0][1] if self._logged else None)
    assert simulate(find_scenario("worlds")[0], 13).broken == ("SN-03",)


def test_a_snapshot_of_what_the_observer_has_not_followed_yet_waits() -> None:
    log = Log()
    early = log.image()
    log.observer.written("b1", *written(early, len(log.records) + 1))
    assert log.observer.snapshots_checked == 0
    with breaks("SN-03"):
        log.change(isr=[1, 2])
