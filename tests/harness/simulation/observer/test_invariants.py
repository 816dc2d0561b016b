"""The observer: each invariant fires on a hand-made breach, and is silent on the legal thing that looks like it.

Names are those of docs/requirements.md ("Invariants").
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable

import pytest

from squall.harness.simulation.observer.invariants import SWEEP, InvariantBroken, Moment
from squall.harness.simulation.observer.rules.clients.looked_up_offsets import LookedUpOffsets
from squall.harness.simulation.observer.rules.quorum.quorum_leader import QuorumLeader
from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration
from squall.nodes.metadata.records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    TopicRecord,
    encode_record,
)
from squall.nodes.metadata.topic import Topic
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.roles import Leader
from squall.workloads.core.operation import FAIL, INFO, OK, POLL, Completion, Event, Operation
from tests.harness.simulation.observer.observed import TOPIC, TOPIC_ID, Cluster, HandMadeLog, batch, sealed

EVERYONE = ("b1", "b2", "b3")


def committed(*values: int, **settings: str) -> Cluster:
    """A cluster in which these values, one per batch, are committed on all three replicas."""
    cluster = Cluster(**settings)
    for value in values:
        cluster.append(0, value, *EVERYONE)
    cluster.commit(*EVERYONE)
    return cluster


def breaks(name: str, words: str = "") -> pytest.RaisesExc[InvariantBroken]:
    return pytest.raises(InvariantBroken, match=f"^{name}: .*{re.escape(words)}")


def test_a_healthy_course_breaks_nothing() -> None:
    cluster = committed(10, 11, 12)
    cluster.acknowledge(10, 0)
    cluster.poll(0, (0, 10), (1, 11), (2, 12))
    cluster.observer.final()
    assert cluster.observer.cluster.counters.committed_batches == 3
    assert cluster.observer.cluster.counters.acknowledged == 1


# -- ACK ----------------------------------------------------------------------------------------------------------


def test_ack_breaks_when_something_is_acknowledged_that_is_not_committed() -> None:
    cluster = Cluster()
    cluster.append(0, 10, "b1")
    with breaks("ACK"):
        cluster.acknowledge(10, 0)


def test_ack_breaks_when_another_value_stands_at_the_offset() -> None:
    cluster = committed(10, 11)
    with breaks("ACK"):
        cluster.acknowledge(10, 1)


def test_ack_breaks_when_a_replica_in_sync_lacks_the_record_after_healing() -> None:
    cluster = committed(10, 11)
    cluster.acknowledge(11, 1)
    cluster.replica("b2").log.batches[1] = batch(1, 0, 99)
    with breaks("UNIQ"):
        cluster.observer.final()
    del cluster.replica("b2").log.batches[1]
    with breaks("ACK"):
        cluster.observer.final()


def test_an_outcome_that_is_unknown_promises_nothing() -> None:
    """DP-09: a timeout is info."""
    cluster = Cluster()
    cluster.append(0, 10, "b1")
    cluster.told(10, Completion(INFO, error="request_timed_out"))


def test_a_replica_that_is_not_in_sync_may_lack_what_is_committed_after_healing() -> None:
    cluster = Cluster()
    cluster.append(0, 10, *EVERYONE)
    cluster.change(isr=[1, 2])
    cluster.append(0, 11, "b1", "b2")
    cluster.commit("b1", "b2")
    cluster.observer.final()


# -- UNIQ, RT, PREFIX, PHANTOM --------------------------------------------------------------------------------------


def test_uniq_breaks_when_a_read_shows_another_value_than_is_committed() -> None:
    cluster = committed(10, 11)
    with breaks("UNIQ"):
        cluster.poll(0, (0, 10), (1, 77))


def test_rt_breaks_when_a_later_send_gets_an_earlier_offset() -> None:
    cluster = Cluster()
    cluster.append(0, 10, *EVERYONE)
    cluster.append(0, 11, *EVERYONE)
    cluster.commit(*EVERYONE)
    cluster.acknowledge(11, 1)
    promised = cluster.observer.cluster.client_checker
    promised._floors[10] = (1, 0)  # 10 was sent after 11 had been acknowledged at offset 1
    with breaks("RT"):
        cluster.acknowledge(10, 0)


def test_sends_that_overlapped_may_get_their_offsets_in_any_order() -> None:
    cluster = committed(10, 11)
    cluster.acknowledge(11, 1)
    cluster.acknowledge(10, 0)


def test_prefix_breaks_when_a_poll_leaves_out_a_committed_record() -> None:
    cluster = committed(10, 11, 12)
    with breaks("PREFIX"):
        cluster.poll(0, (0, 10), (2, 12))


def test_prefix_breaks_when_a_poll_skips_what_stands_at_its_position() -> None:
    cluster = committed(10, 11, 12)
    with breaks("PREFIX"):
        cluster.poll(0, (1, 11), (2, 12))


def test_prefix_breaks_when_a_poll_shows_what_is_not_committed() -> None:
    """DP-14: it may be taken back."""
    cluster = committed(10)
    cluster.append(0, 11, "b1")
    with breaks("PREFIX"):
        cluster.poll(1, (1, 11))


def test_a_poll_may_begin_anywhere_and_end_early() -> None:
    cluster = committed(10, 11, 12)
    cluster.poll(1, (1, 11))


def test_phantom_breaks_when_something_is_committed_that_nobody_sent() -> None:
    cluster = Cluster()
    for name in EVERYONE:
        log = cluster.replica(name).log
        log.batches.append(batch(0, 0, 4711))
        cluster.show(name, "append")
    with breaks("PHANTOM"):
        cluster.commit("b1")


def test_phantom_breaks_when_what_failed_definitely_is_committed_before_or_after() -> None:
    cluster = committed(10)
    with breaks("PHANTOM"):
        cluster.told(10, Completion(FAIL, error="not_enough_replicas"))
    other = Cluster()
    other.append(0, 10, *EVERYONE)
    other.told(10, Completion(FAIL, error="not_enough_replicas"))
    with breaks("PHANTOM"):
        other.commit("b1")


# -- ISR ----------------------------------------------------------------------------------------------------------


def test_isr_breaks_when_a_leader_counts_a_member_that_lacks_records() -> None:
    """Mutant hw-before-isr-ack (N03)."""
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b2")
    with breaks("ISR", "of epoch 0 has high watermark 1, ISR member b3 ends at 0: it lacks offset 0 of leader epoch 0"):
        cluster.commit("b1")


def test_isr_breaks_when_an_isr_member_truncates_committed_records() -> None:
    """Mutant truncate-to-hw (N06)."""
    cluster = committed(10, 11)
    with breaks("ISR", "it lacks offset 1 of leader epoch 0, value 0·11, not acknowledged"):
        cluster.truncate("b3", 1)


def test_a_record_that_is_missing_is_told_with_whether_it_was_acknowledged() -> None:
    cluster = committed(10, 11)
    cluster.acknowledge(11, 1)
    with breaks("ISR", "it lacks offset 1 of leader epoch 0, value 0·11, acknowledged"):
        cluster.truncate("b3", 1)


def test_isr_breaks_when_a_pending_expansion_counts_a_member_that_lacks_records() -> None:
    cluster = Cluster()
    cluster.change(isr=[1, 2])
    cluster.replica("b1").maximal_isr = (1, 2, 3)
    cluster.append(0, 10, "b1", "b2")
    with breaks("ISR"):
        cluster.commit("b1")


def test_isr_breaks_when_an_eligible_leader_replica_lacks_records() -> None:
    """EL: members of the ELR may lead next (KIP-966)."""
    cluster = committed(10)
    cluster.change(isr=[1, 2], eligible_leader_replicas=[3])
    cluster.append(0, 11, "b1", "b2")
    with breaks("ISR"):
        cluster.commit("b1")


def test_a_deposed_leader_may_count_a_member_that_was_reassigned_away() -> None:
    """RA-03: the member has heard of it and deleted its log; the leader has not heard that it leads no more
    (control-plane seed 15 with operations). Counting it in its own epoch would still be a breach."""
    cluster = committed(10)
    cluster.decide(
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2, isr=[1, 2], replicas=[1, 2]),
        tell=("b2", "b3"),
    )
    cluster.truncate("b3", 0)
    same_epoch = committed(10)
    with breaks("ISR"):
        same_epoch.truncate("b3", 0)


def test_a_member_that_is_down_may_lack_records() -> None:
    cluster = Cluster()
    cluster.processes["b3"].up = False
    cluster.append(0, 10, "b1", "b2")
    cluster.commit("b1")


def test_a_member_whose_new_incarnation_is_not_registered_yet_may_lack_records() -> None:
    """Its membership is its predecessor's; the controller decides when it registers."""
    cluster = Cluster()
    cluster.processes["b3"].incarnation = 2
    cluster.append(0, 10, "b1", "b2")
    cluster.commit("b1")


def test_an_empty_isr_is_legal() -> None:
    """KIP-966: nobody is in sync, somebody is eligible."""
    cluster = committed(10)
    cluster.decide(FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=1))
    cluster.change(isr=[], leader=-1, eligible_leader_replicas=[2], last_known_elr=[1, 3])
    cluster.truncate("b3", 0)


# -- LM -----------------------------------------------------------------------------------------------------------


def test_lm_breaks_on_different_records_of_one_epoch_at_one_offset() -> None:
    """Even before anything is committed."""
    cluster = Cluster()
    cluster.append(0, 10, "b1")
    with breaks("LM"):
        cluster.append(0, 11, "b2")


def test_lm_breaks_when_equal_records_have_different_ones_before_them() -> None:
    cluster = Cluster()
    cluster.append(0, 10, "b1")
    cluster.append(1, 11, "b2")
    cluster.append(2, 12, "b1")
    with breaks("LM"):
        cluster.append(2, 12, "b2")


def test_lm_breaks_when_a_replica_commits_something_else() -> None:
    cluster = committed(10)
    cluster.change(isr=[1, 2])
    cluster.truncate("b3", 0)
    cluster.append(1, 11, "b3")
    with breaks("LM"):
        cluster.commit("b3")


def test_a_divergent_suffix_of_another_epoch_is_legal_until_it_is_committed() -> None:
    cluster = committed(10)
    cluster.append(0, 11, "b1")
    cluster.append(1, 12, "b2", "b3")
    cluster.truncate("b1", 1)
    cluster.append(1, 12, "b1")
    cluster.commit(*EVERYONE)


def test_a_replica_may_go_on_at_the_start_of_the_log_whatever_it_holds_before() -> None:
    """Data-plane seed 1940: b3 was away while its last record was replaced, and then deleted."""
    cluster = committed(10)
    cluster.append(0, 99, "b3")
    cluster.change(isr=[1, 2])
    for value in (11, 12):
        cluster.append(1, value, "b1", "b2")
    cluster.commit("b1", "b2")
    cluster.delete_before(2)
    cluster.append(1, 12, "b3")


def test_what_lies_below_the_start_of_the_log_counts_no_more() -> None:
    """DeleteRecords and retention; DP-07 holds all the while."""
    cluster = committed(10, 11, 12)
    cluster.delete_before(2)
    cluster.poll(0, (2, 12))
    cluster.observer.final()


# -- ELECT --------------------------------------------------------------------------------------------------------


def test_elect_breaks_when_two_lead_in_one_epoch() -> None:
    cluster = Cluster()
    cluster.replica("b2").is_leader = True
    with breaks("ELECT"):
        cluster.show("b2")


def test_elect_breaks_when_a_new_leader_lacks_what_is_committed() -> None:
    cluster = committed(10, 11)
    cluster.processes["b2"].up = False
    cluster.observer.power_lost("b2")
    cluster.replica("b2").log.cut(1)
    cluster.replica("b2").high_watermark = 1
    cluster.change(tell=("b1", "b3"), isr=[2], leader=2)
    cluster.processes["b2"].up = True
    cluster.processes["b2"].incarnation = 2
    replica = cluster.replica("b2")
    replica.is_leader, replica.leader_epoch = True, 1
    with breaks("ELECT", "it lacks offset 1 of leader epoch 0, value 0·11"):
        cluster.show("b2")


def test_an_unclean_election_that_the_topic_allows_is_a_declared_loss() -> None:
    """EL-03: what only the others had is gone, and its offsets are given again."""
    cluster = committed(10, 11, unclean_leader_election_enable="true")
    cluster.acknowledge(11, 1)
    cluster.change(isr=[1, 2])
    cluster.truncate("b3", 1)
    cluster.change(isr=[3], leader=3, leader_recovery_state=1)
    replica = cluster.replica("b3")
    replica.is_leader, replica.leader_epoch, replica.maximal_isr = True, 1, (3,)
    cluster.show("b3")
    cluster.append(1, 12, "b3")
    cluster.commit("b3")
    cluster.acknowledge(12, 1)
    assert cluster.observer.cluster.counters.declared_losses == 1
    assert cluster.observer.cluster.counters.unclean_elections == 1


def test_what_an_old_leader_commits_after_a_declared_loss_is_nobodys_business() -> None:
    cluster = committed(10, 11, unclean_leader_election_enable="true")
    cluster.change(isr=[1])
    cluster.truncate("b3", 1)
    cluster.change(tell=("b3",), isr=[3], leader=3, leader_recovery_state=1)
    replica = cluster.replica("b3")
    replica.is_leader, replica.leader_epoch, replica.maximal_isr = True, 1, (3,)
    cluster.show("b3")
    cluster.append(1, 12, "b3")
    cluster.commit("b3")
    cluster.append(0, 13, "b1")
    cluster.commit("b1")


def test_more_lost_disks_than_min_isr_promises_to_survive_are_a_declared_loss() -> None:
    cluster = committed(10, 11)
    for name in ("b2", "b3"):
        cluster.processes[name].up = False
        cluster.observer.power_lost(name)
        cluster.replica(name).log.cut(1)
        cluster.replica(name).high_watermark = 1
    cluster.change(tell=("b1",), isr=[2], leader=2)
    cluster.processes["b2"].up = True
    replica = cluster.replica("b2")
    replica.is_leader, replica.leader_epoch, replica.maximal_isr = True, 1, (2,)
    cluster.processes["b2"].incarnation = 2
    cluster.show("b2")
    assert cluster.observer.cluster.counters.declared_losses == 1


def unclean_election(cluster: Cluster, end: int = 1) -> None:
    """The ISR is b1 and b2; b3, which has no more than `end` records, is made leader of epoch 1 and begins it."""
    cluster.change(isr=[1, 2])
    if end < cluster.replica("b3").end_offset:
        cluster.truncate("b3", end)
    cluster.change(isr=[3], leader=3, leader_recovery_state=1)
    replica = cluster.replica("b3")
    replica.is_leader, replica.leader_epoch, replica.maximal_isr = True, 1, (3,)
    cluster.replica("b1").is_leader = False
    cluster.show("b3")


def allowed(*values: int) -> Cluster:
    return committed(*values, unclean_leader_election_enable="true")


def restarted(cluster: Cluster, name: str, epoch: int) -> None:
    """The node runs in another incarnation and has applied `epoch`; its high watermark is the one it checkpointed."""
    process = cluster.processes[name]
    process.incarnation += 1
    process.leave_high_watermark(cluster.replica(name).high_watermark)
    cluster.replica(name).leader_epoch = epoch
    cluster.show(name, "follower")


def test_an_old_high_watermark_commits_nothing_after_an_unclean_election() -> None:
    """DP-13: the follower has applied the new epoch, and has not been told yet where to truncate."""
    cluster = allowed(10, 11)
    unclean_election(cluster)
    restarted(cluster, "b1", epoch=1)
    log = cluster.observer.cluster.watched[TOPIC_ID, 0].log
    assert log.end == 1
    cluster.append(1, 12, "b3")
    cluster.commit("b3")
    cluster.truncate("b1", 1)
    cluster.append(1, 12, "b1")
    cluster.commit("b1")
    assert log.end == 2


def test_what_is_committed_after_an_unclean_election_is_held_to_as_ever() -> None:
    """The next election is clean: its leader has what was committed since, or ELECT breaks."""
    cluster = allowed(10, 11)
    unclean_election(cluster)
    cluster.append(1, 12, "b3")
    cluster.commit("b3")
    cluster.truncate("b1", 1)
    # Leader epochs 2 and 3 begin. If b1 were in the ISR, ISR would break before ELECT.
    without = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=-1)
    cluster.decide(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=2, fenced=1), without, tell=("b2",))
    cluster.decide(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=2, fenced=-1), tell=("b2",))
    cluster.change(tell=("b2",), leader=3, leader_recovery_state=0)
    replica = cluster.replica("b1")
    replica.is_leader, replica.leader_epoch, replica.maximal_isr = True, 3, (1,)
    with breaks("ELECT", "it lacks offset 1"):
        cluster.show("b1")


def test_a_loss_where_unclean_elections_are_not_allowed_is_a_breach() -> None:
    cluster = committed(10, 11)
    cluster.change(isr=[1, 2])
    cluster.truncate("b3", 1)
    with breaks("ISR"):
        cluster.change(isr=[3], leader=3, leader_recovery_state=1)


def test_an_unclean_leader_may_have_a_longer_log_that_differs() -> None:
    """What it appended alone while it led before is the log now. The loss begins where the logs part."""
    cluster = allowed(10)
    cluster.change(isr=[1, 2])
    cluster.append(0, 11, "b1", "b2")
    cluster.commit("b1", "b2")
    for value in (20, 21):
        cluster.sent(value)
    cluster.replica("b3").log.batches += [batch(1, 5, 20), batch(2, 5, 21)]
    cluster.show("b3", "append")
    cluster.change(isr=[3], leader=3, leader_recovery_state=1)
    replica = cluster.replica("b3")
    replica.is_leader, replica.leader_epoch, replica.maximal_isr = True, 6, (3,)
    cluster.show("b3")
    cluster.commit("b3")
    assert cluster.observer.cluster.counters.declared_losses == 1
    log = cluster.observer.cluster.watched[TOPIC_ID, 0].log
    assert [one.epoch for one in log.canonical.values()] == [0, 5, 5]


def test_a_deposed_leader_may_acknowledge_what_the_unclean_leader_never_has() -> None:
    """It has not heard of its successor. Under a leader epoch of the successor the promise would be broken."""
    cluster = allowed(10, 11)
    unclean_election(cluster)
    cluster.told(11, Completion(OK, offset=1, leader_epoch=0))
    cluster.sent(13)
    with breaks("ACK"):
        cluster.told(13, Completion(OK, offset=1, leader_epoch=1))


def test_a_leader_that_was_deposed_and_elected_again_may_acknowledge_before_it_knows_of_either() -> None:
    """Seed 903203. The client knows the epoch in which b1 leads again, and b1 does not; Produce names none.

    By b3, which knows of the unclean election, the same would break the promise.
    """
    cluster = allowed(10, 11)
    unclean_election(cluster)
    for fenced in (1, -1):
        cluster.decide(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=fenced), tell=("b2", "b3"))
    cluster.change(tell=("b2", "b3"), isr=[1], leader=1, leader_recovery_state=0)
    cluster.told(11, Completion(OK, offset=1, leader_epoch=2, node=1))
    cluster.sent(13)
    with breaks("ACK"):
        cluster.told(13, Completion(OK, offset=1, leader_epoch=2, node=3))


def test_an_acknowledgement_in_an_epoch_that_has_begun_is_held_to() -> None:
    cluster = allowed(10, 11)
    unclean_election(cluster)
    cluster.sent(13)
    with breaks("ACK"):
        cluster.told(13, Completion(OK, offset=1, leader_epoch=1, node=3))


def test_reads_after_an_unclean_election_show_what_is_committed_then() -> None:
    cluster = allowed(10, 11)
    unclean_election(cluster)
    cluster.append(1, 12, "b3")
    cluster.commit("b3")
    polled = Operation(POLL, 9, 9, 4, 0, TOPIC, 0)
    old = Completion(OK, offsets=(0, 1), values=(10, 11), position=0, leader_epoch=0)
    cluster.observer.client_event(Event(polled, 0, old, 1))
    false = Completion(OK, offsets=(0, 1), values=(10, 11), position=0, leader_epoch=1)
    with breaks("UNIQ"):
        cluster.observer.client_event(Event(polled, 0, false, 1))


# -- HWM, EPOCH, IMAGE --------------------------------------------------------------------------------------------


def test_hwm_breaks_when_a_metadata_high_watermark_falls() -> None:
    cluster = Cluster()
    cluster.processes["b1"].raft.high_watermark -= 1
    cluster.observer.event("high_watermark", node=1)
    with breaks("HWM"):
        cluster.observer.look(cluster.processes["b1"])  # type: ignore[arg-type]


def test_hwm_breaks_when_committed_metadata_is_cut_off() -> None:
    cluster = Cluster()
    raft = cluster.processes["b1"].raft
    cluster.observer.event("truncate", node=1, end=0, was=raft.end_offset)
    with breaks("HWM"):
        cluster.observer.look(cluster.processes["b1"])  # type: ignore[arg-type]


def test_hwm_breaks_when_the_metadata_log_ends_below_what_is_committed() -> None:
    """Also if the record was appended, committed and cut off in one turn."""
    cluster = Cluster()
    raft = cluster.processes["b2"].raft
    raft.high_watermark = raft.end_offset
    cluster.observer.event("high_watermark", node=2)
    cluster.observer.look(cluster.processes["b2"])  # type: ignore[arg-type]
    raft.high_watermark += 1
    cluster.observer.event("high_watermark", node=2)
    with breaks("HWM", "knows that records up to"):
        cluster.observer.look(cluster.processes["b2"])  # type: ignore[arg-type]


def test_the_metadata_high_watermark_of_a_new_incarnation_begins_anew() -> None:
    cluster = Cluster()
    process = cluster.processes["b1"]
    process.incarnation, process.raft.high_watermark, process.image = 2, 0, MetadataImage()
    cluster.observer.event("high_watermark", node=1)
    cluster.observer.look(process)  # type: ignore[arg-type]


def test_md_03_breaks_when_an_image_is_ahead_of_what_is_known_to_be_committed() -> None:
    cluster = Cluster()
    process = cluster.processes["b1"]
    process.incarnation, process.raft.high_watermark = 2, 0
    cluster.observer.event("high_watermark", node=1)
    with breaks("MD-03"):
        cluster.observer.look(process)  # type: ignore[arg-type]


@pytest.mark.parametrize(("high_watermark", "legal"), [(None, True), (7, False), (8, True)])
def test_hwm_breaks_when_a_leader_of_the_quorum_counts_records_of_older_epochs(
    high_watermark: int | None, legal: bool
) -> None:
    """QC-16: its own epoch begins at 7, so that 8 is the first high watermark it may have."""
    cluster = Cluster()
    process = cluster.processes["b1"]
    process.raft.role = Leader(
        2, leader_id=1, epoch_start_offset=7, since=0, majority=2, others={}, high_watermark=high_watermark
    )
    process.raft.epoch = 2
    cluster.observer.event("high_watermark", node=1)
    with contextlib.nullcontext() if legal else breaks("HWM"):
        cluster.observer.look(process)  # type: ignore[arg-type]


def vote(cluster: Cluster, voter: int, epoch: int, candidate: int) -> None:
    cluster.observer.event("vote", node=voter, epoch=epoch, candidate=candidate)
    cluster.observer.look(cluster.processes[f"b{voter}"])  # type: ignore[arg-type]


def test_elect_breaks_when_a_voter_votes_twice_in_an_epoch() -> None:
    """QC-06, QC-08: its restart in between makes no difference."""
    cluster = Cluster()
    vote(cluster, 1, 5, 1)
    cluster.processes["b1"].incarnation = 2
    with breaks("ELECT"):
        vote(cluster, 1, 5, 2)


def test_a_voter_may_repeat_its_vote_and_vote_otherwise_in_the_next_epoch() -> None:
    cluster = Cluster()
    for epoch, candidate in ((5, 1), (5, 1), (6, 2)):
        vote(cluster, 1, epoch, candidate)
    vote(cluster, 2, 5, 2)


def test_epoch_breaks_when_an_epoch_goes_back() -> None:
    cluster = Cluster()
    cluster.change(isr=[1, 2])
    image = cluster.processes["b2"].image
    old = image.topics[TOPIC_ID].partitions[0]
    image.topics[TOPIC_ID].put(0, type(old)(**{**fields(old), "partition_epoch": 0}))
    raft = cluster.processes["b2"].raft
    raft.content.batches.append(sealed(raft.end_offset, 1, encode_record(TopicRecord(name="x", topic_id=bytes(16)))))
    raft.high_watermark = raft.end_offset
    image.passed(raft.end_offset - 1, 1)
    cluster.observer.event("high_watermark", node=2)
    with breaks("EPOCH"):
        cluster.observer.look(cluster.processes["b2"])  # type: ignore[arg-type]


def test_epoch_breaks_when_an_image_moves_epochs_otherwise_than_the_records_say() -> None:
    """EP-01, EP-02, rule 23: one change record that names no leader moves the partition epoch by one, and only that."""
    cluster = Cluster()
    process = cluster.processes["b1"]
    record = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[1, 2])
    base = process.raft.end_offset
    process.raft.content.batches.append(sealed(base, 1, encode_record(record)))
    process.raft.high_watermark = process.raft.end_offset
    process.image.replay(record, base, 1)
    partitions = process.image.topics[TOPIC_ID].partitions
    partitions[0] = type(partitions[0])(**{**fields(partitions[0]), "leader_epoch": 1})
    cluster.observer.event("high_watermark", node=1)
    with breaks("EPOCH"):
        cluster.observer.look(process)  # type: ignore[arg-type]


def test_an_image_that_skips_many_offsets_at_once_is_legal() -> None:
    cluster = Cluster()
    cluster.change(tell=("b1",), isr=[1, 2])
    cluster.change(tell=("b1",), isr=[1])
    cluster.decide(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[1, 2]), tell=("b2",))
    assert cluster.observer.cluster.counters.isr_changes == 2


def test_image_breaks_when_two_nodes_hold_different_images_at_one_offset() -> None:
    cluster = Cluster()
    cluster.processes["b2"].image.features["metadata.version"] = 99
    with breaks("IMAGE"):
        cluster.change(isr=[1, 2])


def test_image_breaks_when_a_name_stands_for_another_topic_than_it_has() -> None:
    """The committed image and the next one are copies: what one forgets, the other must keep."""
    cluster = Cluster()
    del cluster.processes["b2"].image.topic_ids[TOPIC]
    with breaks("IMAGE", "b2 (broker) finds other topics by name than it has"):
        cluster.change(isr=[1, 2])


def forgets_a_replica(topic: Topic) -> None:
    topic._hosted[1].remove(0)


def finds_it_twice(topic: Topic) -> None:
    topic._hosted[1].append(0)


def finds_no_leader(topic: Topic) -> None:
    topic._leaderless[0] = None


def keeps_its_digest(topic: Topic) -> None:
    topic._digest = b"of an earlier content"


@pytest.mark.parametrize(
    ("errs", "said"),
    [
        (forgets_a_replica, "finds other partitions of events on broker 1 than there are"),
        (finds_it_twice, "finds other partitions of events on broker 1 than there are"),
        (finds_no_leader, "finds other partitions of events without a leader than there are"),
        (keeps_its_digest, "has a digest of an earlier events"),
    ],
)
def test_image_breaks_when_an_image_finds_what_is_not_there(
    monkeypatch: pytest.MonkeyPatch, errs: Callable[[Topic], None], said: str
) -> None:
    cluster = Cluster()
    put_all, errant = Topic.put_all, cluster.processes["b2"].image

    def put(topic: Topic, registrations: Iterable[tuple[int, PartitionRegistration]]) -> None:
        put_all(topic, registrations)
        if topic is errant.topics[TOPIC_ID]:
            errs(topic)

    monkeypatch.setattr(Topic, "put_all", put)
    with breaks("IMAGE", f"b2 (broker) {said}"):
        cluster.change(isr=[1, 2])


def test_dp_07_breaks_when_a_high_watermark_lies_beyond_the_log() -> None:
    cluster = Cluster()
    cluster.replica("b1").high_watermark = 5
    with breaks("DP-07"):
        cluster.show("b1")


# -- what a breach tells ------------------------------------------------------------------------------------------


def test_a_breach_names_the_event_that_broke_it() -> None:
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b2")
    process = cluster.processes["b1"]
    process.now = 12_403_118
    with pytest.raises(InvariantBroken) as caught:
        cluster.commit("b1")
    moment = caught.value.moment
    assert isinstance(moment, Moment)
    assert (moment.node, moment.at, moment.number) == ("b1", 12_403_118, process.event_number)
    assert "timer; high_watermark events-0" in moment.what
    assert "at 12.403118 s, b1" in str(caught.value)


def test_a_topic_created_again_under_its_name_is_another_log() -> None:
    cluster = committed(10, 11)
    again = bytes(16)
    for name in EVERYONE:
        replica = cluster.replica(name)
        replica.topic_id, replica.high_watermark = again, 0
        cluster.processes[name].note_topic_id()
        replica.log.batches.clear()
        cluster.show(name, "follower")
    cluster.append(0, 12, *EVERYONE)
    assert cluster.observer.cluster.counters.committed_batches == 2


@pytest.mark.parametrize(
    "failure", [InvariantBroken("DP-15", "planted"), ProtocolError("a batch that no rule can read")]
)
def test_what_an_answer_breaks_is_raised_after_the_turn(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    """Within the turn the node would meet it, and take a ProtocolError for one of the peer that it answers."""

    def answered(self: LookedUpOffsets, process: object, node: object, request: object) -> None:
        raise failure

    monkeypatch.setattr(LookedUpOffsets, "answered", answered)
    cluster = Cluster()
    observer, process = cluster.observer, cluster.processes["b1"]
    process.connections.on_answer(ServerRequest(0, 0, Message(), None, "PLAINTEXT", 1, 0))
    with pytest.raises(type(failure)):
        observer.look(process)  # type: ignore[arg-type]
    observer.look(process)  # type: ignore[arg-type]


def test_what_an_answer_breaks_is_dropped_if_the_node_dies_in_that_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def answered(self: LookedUpOffsets, process: object, node: object, request: object) -> None:
        raise InvariantBroken("DP-15", "planted")

    monkeypatch.setattr(LookedUpOffsets, "answered", answered)
    cluster = Cluster()
    observer, process = cluster.observer, cluster.processes["b1"]
    process.connections.on_answer(ServerRequest(0, 0, Message(), None, "PLAINTEXT", 1, 0))
    process.up = False
    observer.look(process)  # type: ignore[arg-type]


def test_a_nodes_trace_in_the_turn_of_its_death_is_not_held_against_others() -> None:
    """Seed 5019 of data-plane: b1 cut its log and died in that turn; b3 had begun to lead there and claims an epoch."""
    cluster = committed(10)
    cluster.replica("b3").log.epochs.claimed = (4, 1)
    cluster.observer.event("truncate", broker=1, topic="events", partition=0, to=1, end=2)
    dead = cluster.processes["b1"]
    dead.up = False
    cluster.observer.look(dead)  # type: ignore[arg-type]
    cluster.observer.look(cluster.processes["b3"])  # type: ignore[arg-type]
    cluster.observer.event("truncate", broker=3, topic="events", partition=0, to=1, end=2)
    with breaks("DP-13"):
        cluster.observer.look(cluster.processes["b3"])  # type: ignore[arg-type]


def test_every_so_often_all_replicas_are_looked_at_even_if_nothing_was_traced() -> None:
    cluster = Cluster()
    cluster.replica("b1").high_watermark = 5
    with breaks("DP-07"):
        for _ in range(SWEEP):
            cluster.observer.look(cluster.processes["b1"])  # type: ignore[arg-type]


def test_the_first_turn_of_a_node_is_looked_at_even_if_nothing_was_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 1000634 of worlds: a voter died while writing its vote down, came back and granted it; nothing is traced."""
    seen: list[str] = []
    monkeypatch.setattr(QuorumLeader, "messages_seen", lambda rule, process, node: seen.append(process.name))
    cluster = Cluster()
    seen.clear()
    process = cluster.processes["b1"]
    process.connections.on_answer = None
    cluster.observer.look(process)  # type: ignore[arg-type]
    assert seen == ["b1"]
    cluster.observer.look(process)  # type: ignore[arg-type]
    assert seen == ["b1"]


def fields(registration: object) -> dict[str, object]:
    return {name: getattr(registration, name) for name in registration.__dataclass_fields__}  # type: ignore[attr-defined]


# -- a metadata log that begins anew after a snapshot ------------------------------------------------------------------


def begins_anew(cluster: Cluster, name: str, offset: int) -> None:
    """A snapshot that ends there takes the place of all that this node's metadata log had."""
    process = cluster.processes[name]
    was = process.raft.end_offset
    process.raft.content = HandMadeLog()
    process.raft.content.start_offset = process.raft.high_watermark = offset
    process.leave_snapshot(offset)
    cluster.observer.event("log_reset", node=process.node_id, end=offset, was=was)
    cluster.observer.look(process)  # type: ignore[arg-type]


def test_what_a_snapshot_has_taken_the_place_of_was_never_committed() -> None:
    """SN-04 (found as a false alarm, kitchen-sink seed 393): an uncommitted end that reached past the snapshot's."""
    cluster = Cluster()
    behind = cluster.processes["b3"].raft
    base = behind.end_offset
    for number in range(3):
        record = encode_record(TopicRecord(name=f"never-{number}", topic_id=bytes((number,)) * 16))
        behind.content.batches.append(sealed(base + number, 0, record))
    cluster.observer.event("append", node=3, end=behind.end_offset)
    cluster.observer.look(cluster.processes["b3"])  # type: ignore[arg-type]
    cluster.decide(TopicRecord(name="new", topic_id=bytes(16)), tell=("b1", "b2"))
    begins_anew(cluster, "b3", base + 1)


def test_a_snapshot_takes_the_place_of_nothing_that_is_committed_and_not_in_it() -> None:
    cluster = Cluster()
    with breaks("HWM"):
        begins_anew(cluster, "b3", cluster.processes["b3"].raft.high_watermark - 1)


# -- CS-04 --------------------------------------------------------------------------------------------------------


def lets_go(cluster: Cluster) -> None:
    """The active controller, which is on b2, tells broker 1 that it may stop."""
    cluster.processes["b2"].is_active = True
    cluster.observer.event("broker_let_go", node=2, broker=1)
    cluster.show("b2")


def mark(cluster: Cluster, *tell: str) -> None:
    """Broker 1 is marked as stopping and leads nothing any more; only these brokers hear of it."""
    cluster.decide(
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, in_controlled_shutdown=1),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2, isr=[2, 3]),
        tell=tell,
    )


def test_who_leads_something_is_not_let_go() -> None:
    with breaks("CS-04", "leads events-0 in leader epoch 0 by the controller's own image"):
        lets_go(Cluster())


def test_a_stopping_broker_is_free_once_all_active_brokers_know_leaders() -> None:
    uninformed = Cluster()
    mark(uninformed, "b1", "b2")
    with breaks("CS-04", "by what broker 3 knows it leads events-0 in leader epoch 0"):
        lets_go(uninformed)
    informed = Cluster()
    mark(informed, "b1", "b2", "b3")
    lets_go(informed)


def test_nobody_waits_for_fenced_stopped_or_reincarnated_brokers() -> None:
    for trouble in ("fenced", "incarnation", "down"):
        cluster = Cluster()
        mark(cluster, "b1", "b2")
        if trouble == "fenced":
            cluster.decide(FenceBrokerRecord(id=3, epoch=2), tell=("b2",))
        cluster.processes["b3"].incarnation += trouble == "incarnation"
        cluster.processes["b3"].up = trouble != "down"
        lets_go(cluster)


def test_a_stopping_broker_that_leads_nothing_is_free_at_once() -> None:
    """As in Kafka: nothing is moved, so there is nothing to hear of (found as a false alarm, control-plane seed 23)."""
    cluster = Cluster()
    cluster.change(tell=("b1", "b2"), leader=2, isr=[2, 3])
    lets_go(cluster)
    assert not cluster.processes["b2"].image.brokers[1].in_controlled_shutdown


def test_a_fenced_broker_is_let_go_at_once() -> None:
    cluster = Cluster()
    moved = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[2, 3], leader=2)
    cluster.decide(FenceBrokerRecord(id=1, epoch=0), moved, tell=("b2",))
    lets_go(cluster)


@pytest.mark.parametrize("granted", [True, False])
def test_controlled_shutdowns_are_counted_by_those_that_were_granted(granted: bool) -> None:
    cluster = Cluster()
    cluster.observer.event("broker_shuts_down", broker=1, epoch=0, granted=granted)
    cluster.show("b1")
    assert cluster.observer.cluster.counters.controlled_shutdowns == granted
