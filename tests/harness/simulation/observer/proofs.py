"""The proof of each rule of the observer: nodes with a defect that only this rule sees, and a legal near-miss.

A rule that has never fired on wrong nodes is not known to work, and one that never sees anything first is not needed.
So each rule has a *proof*: a documented mutant, or a defect that is put into the code of the nodes for one run; a
scenario and a seed on which the rule names the breach; and a test of a legal state beside it. Two claims are held to by
`test_proofs.py`: with the rule the run breaks by its name, and without it the observer sees nothing until the end.

Some rules name the moment at which a guarantee is broken, and the harm that mostly follows breaks another rule. Their
proofs are runs in which no harm follows: the leader that lacks records resigns before anybody fetches from it, or the
member that lags catches up before it is elected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from squall.harness.simulation.observer.rules.applied_metadata import AppliedMetadata
from squall.harness.simulation.observer.rules.applied_settings import AppliedSettings
from squall.harness.simulation.observer.rules.balanced_leaders import BalancedLeaders
from squall.harness.simulation.observer.rules.brokers.controlled_shutdown import ControlledShutdown
from squall.harness.simulation.observer.rules.brokers.ready_brokers import ReadyBrokers
from squall.harness.simulation.observer.rules.brokers.silent_brokers import SilentBrokers
from squall.harness.simulation.observer.rules.brokers.stopped_brokers import StoppedBrokers
from squall.harness.simulation.observer.rules.brokers.told_brokers import ToldBrokers
from squall.harness.simulation.observer.rules.calm import CalmCluster
from squall.harness.simulation.observer.rules.clients.answered_requests import AnsweredRequests
from squall.harness.simulation.observer.rules.clients.continued_sessions import ContinuedSessions
from squall.harness.simulation.observer.rules.clients.deleted_records import DeletedRecords
from squall.harness.simulation.observer.rules.clients.fenced_requests import FencedRequests
from squall.harness.simulation.observer.rules.clients.fetched_records import FetchedRecords
from squall.harness.simulation.observer.rules.clients.filled_fetches import FilledFetches
from squall.harness.simulation.observer.rules.clients.kept_sessions import KeptSessions
from squall.harness.simulation.observer.rules.clients.listed_end import ListedEnd
from squall.harness.simulation.observer.rules.clients.looked_up_offsets import LookedUpOffsets
from squall.harness.simulation.observer.rules.clients.nearby_replicas import NearbyReplicas
from squall.harness.simulation.observer.rules.clients.parked_requests import ParkedRequests
from squall.harness.simulation.observer.rules.clients.reasons_to_refuse import ReasonsToRefuse
from squall.harness.simulation.observer.rules.clients.refused_records import RefusedRecords
from squall.harness.simulation.observer.rules.clients.request_deadlines import RequestDeadlines
from squall.harness.simulation.observer.rules.clients.request_order import RequestOrder
from squall.harness.simulation.observer.rules.clients.session_contents import SessionContents
from squall.harness.simulation.observer.rules.clients.session_news import SessionNews
from squall.harness.simulation.observer.rules.durable_records import DurableRecords
from squall.harness.simulation.observer.rules.final_logs import FinalLogs
from squall.harness.simulation.observer.rules.follower_append import FollowerAppend
from squall.harness.simulation.observer.rules.isr.begun_epochs import BegunEpochs
from squall.harness.simulation.observer.rules.isr.counted_members import CountedMembers
from squall.harness.simulation.observer.rules.isr.elected_leaders import ElectedLeaders
from squall.harness.simulation.observer.rules.isr.eligible_replicas import EligibleReplicas
from squall.harness.simulation.observer.rules.isr.fetching_incarnations import FetchingIncarnations
from squall.harness.simulation.observer.rules.isr.kept_members import KeptMembers
from squall.harness.simulation.observer.rules.isr.lagging_members import LaggingMembers
from squall.harness.simulation.observer.rules.isr.partition_leader import PartitionLeader
from squall.harness.simulation.observer.rules.isr.pending_changes import PendingChanges
from squall.harness.simulation.observer.rules.isr.restarted_brokers import RestartedBrokers
from squall.harness.simulation.observer.rules.isr.short_isr import ShortIsr
from squall.harness.simulation.observer.rules.leader_epochs import LeaderEpochs
from squall.harness.simulation.observer.rules.log_bounds import LogBounds
from squall.harness.simulation.observer.rules.log_starts import LogStarts
from squall.harness.simulation.observer.rules.new_logs import NewLogs
from squall.harness.simulation.observer.rules.node.begun_connections import BegunConnections
from squall.harness.simulation.observer.rules.node.counted_memory import CountedMemory
from squall.harness.simulation.observer.rules.node.due_work import DueWork
from squall.harness.simulation.observer.rules.node.idle_answers import IdleAnswers
from squall.harness.simulation.observer.rules.node.limited_turns import LimitedTurns
from squall.harness.simulation.observer.rules.node.paused_connections import PausedConnections
from squall.harness.simulation.observer.rules.node.quorum_times import QuorumTimes
from squall.harness.simulation.observer.rules.node.told_metrics import ToldMetrics
from squall.harness.simulation.observer.rules.node.zookeeper_metrics import ZooKeeperMetrics
from squall.harness.simulation.observer.rules.pace import PacedCluster
from squall.harness.simulation.observer.rules.plausible_messages import PlausibleMessages
from squall.harness.simulation.observer.rules.producer_snapshots import ProducerSnapshots
from squall.harness.simulation.observer.rules.producer_states import ProducerStates
from squall.harness.simulation.observer.rules.quorum.awaited_voters import AwaitedVoters
from squall.harness.simulation.observer.rules.quorum.controller_answers import ControllerAnswers
from squall.harness.simulation.observer.rules.quorum.counted_voters import CountedVoters
from squall.harness.simulation.observer.rules.quorum.given_up_elections import GivenUpElections
from squall.harness.simulation.observer.rules.quorum.handed_over_quorum import HandedOverQuorum
from squall.harness.simulation.observer.rules.quorum.heard_epochs import HeardEpochs
from squall.harness.simulation.observer.rules.quorum.heard_leaders import HeardLeaders
from squall.harness.simulation.observer.rules.quorum.quorum_commitment import QuorumCommitment
from squall.harness.simulation.observer.rules.quorum.quorum_fetches import QuorumFetches
from squall.harness.simulation.observer.rules.quorum.quorum_following import QuorumFollowing
from squall.harness.simulation.observer.rules.quorum.quorum_leader import QuorumLeader
from squall.harness.simulation.observer.rules.quorum.quorum_memory import QuorumMemory
from squall.harness.simulation.observer.rules.quorum.quorum_progress import QuorumProgress
from squall.harness.simulation.observer.rules.quorum.quorum_requests import QuorumRequests
from squall.harness.simulation.observer.rules.quorum.quorum_voters import QuorumVoters
from squall.harness.simulation.observer.rules.quorum.quorum_votes import QuorumVotes
from squall.harness.simulation.observer.rules.recovery import RecoveredCluster
from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.rules.storage.begun_snapshots import BegunSnapshots
from squall.harness.simulation.observer.rules.storage.directory_ids import DirectoryIds
from squall.harness.simulation.observer.rules.storage.durable_claims import DurableClaims
from squall.harness.simulation.observer.rules.storage.flushed_logs import FlushedLogs
from squall.harness.simulation.observer.rules.storage.hosted_directories import HostedDirectories
from squall.harness.simulation.observer.rules.storage.index_files import IndexFiles
from squall.harness.simulation.observer.rules.storage.indexed_logs import IndexedLogs
from squall.harness.simulation.observer.rules.storage.needless_syncs import NeedlessSyncs
from squall.harness.simulation.observer.rules.storage.open_files import OpenFiles
from squall.harness.simulation.observer.rules.storage.opened_logs import OpenedLogs
from squall.harness.simulation.observer.rules.storage.recovered_names import RecoveredNames
from squall.harness.simulation.observer.rules.storage.retained_metadata import RetainedMetadata
from squall.harness.simulation.observer.rules.storage.segment_bounds import SegmentBounds
from squall.harness.simulation.observer.rules.truncated_epochs import TruncatedEpochs
from squall.harness.simulation.observer.rules.zookeeper.closed_sessions import ClosedSessions
from squall.harness.simulation.observer.rules.zookeeper.control_plane import ControlPlane
from squall.harness.simulation.observer.rules.zookeeper.stopped_replicas import StoppedReplicas
from squall.harness.simulation.observer.rules.zookeeper.zookeeper_controllers import ZooKeeperControllers
from tests.harness.simulation.observer import defects

Defect = Callable[[pytest.MonkeyPatch], None]
"""One of `defects.py`."""


@dataclass(frozen=True)
class Proof:
    """How a rule is known to work; see the module. `near_miss` is a test of this folder, `file::name`."""

    rule: type[Rule]
    name: str
    defect: str | Defect
    scenario: str
    near_miss: str
    seed: int = 1

    @property
    def mutants(self) -> tuple[str, ...]:
        return (self.defect,) if isinstance(self.defect, str) else ()

    def put_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put the defect into the nodes' code, unless it is a mutant."""
        if not isinstance(self.defect, str):
            self.defect(monkeypatch)


PROOFS: tuple[Proof, ...] = (
    Proof(
        PlausibleMessages,
        "ELECT",
        defects.names_another_leader,
        "two-hop-failover",
        "test_invariants::test_a_voter_may_repeat_its_vote_and_vote_otherwise_in_the_next_epoch",
    ),
    Proof(
        QuorumVotes,
        "ELECT",
        defects.votes_for_every_candidate,
        "split-vote-crash",
        "test_invariants::test_a_voter_may_repeat_its_vote_and_vote_otherwise_in_the_next_epoch",
    ),
    Proof(
        GivenUpElections,
        "ELECT",
        defects.gives_up_after_one_refusal,
        "worlds",
        "test_given_up_elections::test_its_time_may_be_over",
        seed=1,
    ),
    Proof(
        HeardLeaders,
        "ELECT",
        defects.ignores_pieces_of_a_snapshot,
        "worlds",
        "test_heard_leaders::test_a_leader_that_has_resigned_is_listened_to_no_longer",
        seed=3,
    ),
    Proof(
        HeardEpochs,
        "ELECT",
        defects.ignores_the_epoch_after_its_own,
        "worlds",
        "test_heard_epochs::test_a_node_that_has_resigned_is_said_to_lead_for_a_while",
        seed=4,
    ),
    Proof(
        HandedOverQuorum,
        "QC-12",
        defects.leaves_without_a_word,
        "worlds",
        "test_handed_over_quorum::test_a_leader_that_stops_has_told_all_others",
        seed=4,
    ),
    Proof(
        QuorumMemory,
        "QC-08",
        "vote-not-persisted",
        "quorum-power-loss",
        "test_quorum_memory::test_a_vote_that_is_remembered_is_sound",
    ),
    Proof(
        DurableRecords,
        "DURABLE",
        defects.recovery_keeps_what_is_known_to_be_durable,
        "worlds",
        "test_durable_records::test_a_power_loss_may_take_what_is_not_durable_and_may_leave_it",
        seed=7,
    ),
    Proof(
        DurableClaims,
        "DURABLE",
        defects.notes_log_ends_as_recovery_points,
        "worlds",
        "test_durable_claims::test_what_lies_above_the_claim_need_not_be_durable",
        seed=2,
    ),
    Proof(
        QuorumProgress,
        "HWM",
        defects.cuts_committed_metadata,
        "two-hop-failover",
        "test_invariants::test_the_metadata_high_watermark_of_a_new_incarnation_begins_anew",
    ),
    Proof(
        QuorumCommitment,
        "HWM",
        "hw-counts-old-epoch",
        "voter-crash-storm",
        "test_invariants::test_a_healthy_course_breaks_nothing",
    ),
    Proof(
        CountedVoters,
        "QC-17",
        defects.counts_a_voter_that_has_to_truncate,
        "worlds",
        "test_quorum_rules::test_a_leader_counts_for_a_voter_what_that_has",
        seed=4,
    ),
    Proof(
        QuorumFetches,
        "QC-16",
        defects.states_too_high_a_log_start,
        "worlds",
        "test_quorum_fetches::test_a_leader_that_has_committed_nothing_in_its_epoch_states_no_high_watermark",
        seed=1,
    ),
    Proof(
        QuorumLeader,
        "ELECT",
        defects.votes_for_what_it_knows_to_be_committed,
        "worlds",
        "test_quorum_rules::test_a_candidate_that_has_given_up_may_have_lost_records",
        seed=1,
    ),
    Proof(
        QuorumVoters,
        "VOTERS",
        defects.counts_by_voters_once_they_are_committed,
        "worlds",
        "test_quorum_rules::test_a_follower_takes_what_it_is_sent",
        seed=2,
    ),
    Proof(
        AwaitedVoters,
        "VOTERS",
        defects.wants_one_record_more_of_a_new_voter,
        "worlds",
        "test_awaited_voters::test_what_the_log_held_when_the_request_was_handled_counts",
        seed=2,
    ),
    Proof(
        QuorumFollowing,
        "QC-18",
        defects.leads_by_the_voter_that_is_silent_longest,
        "worlds",
        "test_quorum_following::test_a_leader_that_nobody_follows_resigns",
        seed=4,
    ),
    Proof(
        QuorumRequests,
        "PENDING",
        defects.never_notes_that_a_voter_was_told,
        "worlds",
        "test_quorum_requests::test_requests_of_an_earlier_role_may_be_under_way_for_a_while",
        seed=1,
    ),
    Proof(
        ControllerAnswers,
        "QC-21",
        defects.answers_what_it_has_not_written_for_at_once,
        "worlds",
        "test_controller_answers::test_records_of_the_quorum_itself_do_not_count",
    ),
    Proof(
        FencedRequests,
        "BL-05",
        defects.hears_every_incarnation,
        "worlds",
        "test_fenced_requests::test_an_answer_may_come_after_the_broker_has_registered_again",
        seed=2,
    ),
    Proof(
        ToldBrokers,
        "TOLD",
        defects.refuses_some_members,
        "worlds",
        "test_told_brokers::test_a_refusal_that_has_waited_may_name_what_is_over",
    ),
    Proof(
        AppliedMetadata,
        "MD-03",
        defects.applies_idle_records_early,
        "two-hop-failover",
        "test_invariants::test_an_image_that_skips_many_offsets_at_once_is_legal",
    ),
    Proof(
        AppliedSettings,
        "DP-12",
        defects.ignores_altered_settings,
        "worlds",
        "test_applied_settings::test_a_setting_that_the_topic_does_not_have_is_the_nodes_own",
        seed=3,
    ),
    Proof(
        ControlledShutdown,
        "CS-04",
        "shutdown-granted-early",
        "starved-shutdown",
        "test_invariants::test_a_stopping_broker_is_free_once_all_active_brokers_know_leaders",
    ),
    Proof(
        StoppedBrokers,
        "CS-04",
        defects.stops_without_leave,
        "worlds",
        "test_stopped_brokers::test_a_broker_stops_by_leave",
        seed=2,
    ),
    Proof(
        ReadyBrokers,
        "BL-02",
        defects.asks_to_be_unfenced_at_once,
        "worlds",
        "test_ready_brokers::test_a_broker_that_has_read_its_registration_asks_to_be_unfenced",
    ),
    Proof(
        SilentBrokers,
        "FD-01",
        defects.expects_no_heartbeats_after_its_election,
        "worlds",
        "test_silent_brokers::test_a_new_controller_waits_for_as_long",
        seed=38,
    ),
    Proof(
        ZooKeeperControllers,
        "ZK-14",
        "stale-controller-epoch-accepted",
        "zookeeper-late-update",
        "test_zookeeper_controllers::test_another_incarnation_has_obeyed_nobody_yet",
    ),
    Proof(
        ClosedSessions,
        "ZK-11",
        defects.leaves_its_zookeeper_session_open,
        "zookeeper-rolling-restart",
        "test_closed_sessions::test_a_process_that_died_leaves_its_session_to_the_timeout",
    ),
    Proof(
        ControlPlane,
        "CL-16",
        "control-queue-shared",
        "control-listener-backlog",
        "test_control_plane::test_a_request_on_another_listener_may_wait",
    ),
    Proof(
        StoppedReplicas,
        "ZK-06",
        "stop-replica-late",
        "control-listener-recreated-topics",
        "test_stopped_replicas::test_what_is_to_go_may_be_deleted",
    ),
    Proof(
        RefusedRecords,
        "DP-17",
        defects.damages_what_followers_fetch,
        "two-hop-failover",
        "test_refused_records::test_a_refusal_in_the_turn_in_which_the_node_dies_says_nothing",
    ),
    Proof(
        ReasonsToRefuse,
        "REASON",
        defects.knows_no_ends_of_epochs,
        "worlds",
        "test_reasons_to_refuse::test_a_request_that_has_waited_may_have_lost_its_leader",
        seed=1,
    ),
    Proof(
        NewLogs,
        "MD-05",
        defects.finds_old_records,
        "control-plane",
        "test_new_logs::test_a_leader_may_append_in_the_turn_in_which_it_is_created",
    ),
    Proof(
        LogBounds,
        "DP-07",
        defects.believes_the_leaders_high_watermark,
        "worlds",
        "test_invariants::test_what_lies_below_the_start_of_the_log_counts_no_more",
        seed=3,
    ),
    Proof(
        LogStarts,
        "DP-18",
        defects.retention_keeps_nothing,
        "worlds",
        "test_log_starts::test_retention_keeps_as_much_as_is_to_be_kept",
        seed=10,
    ),
    Proof(
        SegmentBounds,
        "DP-18",
        defects.segments_of_any_age,
        "worlds",
        "test_segment_bounds::test_what_was_written_under_other_settings_is_not_judged",
        seed=28,
    ),
    Proof(
        FollowerAppend,
        "EP-04",
        defects.a_leader_begins_with_the_former_epoch,
        "two-hop-failover",
        "test_observed_followers::test_a_follower_may_append_an_earlier_leaders_record_the_leader_has",
    ),
    Proof(
        PartitionLeader,
        "ELECT",
        defects.leads_when_nobody_does,
        "metadata-starved-follower",
        "test_invariants::test_an_unclean_election_that_the_topic_allows_is_a_declared_loss",
    ),
    Proof(
        BegunEpochs,
        "EP-01",
        defects.begins_an_epoch_again,
        "worlds",
        "test_begun_epochs::test_another_incarnation_begins_with_the_epoch_that_metadata_say",
        seed=4,
    ),
    Proof(
        PendingChanges,
        "IS-04",
        defects.takes_an_outdated_proposal_for_refused,
        "worlds",
        "test_pending_changes::test_a_change_may_end_with_a_newer_partition_epoch",
        seed=26,
    ),
    Proof(
        ShortIsr,
        "DP-06",
        defects.appends_below_min_isr,
        "worlds",
        "test_short_isr::test_an_isr_that_shrank_after_the_append_leaves_the_outcome_open",
        seed=13,
    ),
    Proof(
        CountedMembers,
        "ISR",
        "isr-expand-ignored",
        "worlds",
        "test_invariants::test_a_deposed_leader_may_count_a_member_that_was_reassigned_away",
        seed=11,
    ),
    Proof(
        LaggingMembers,
        "IS-03",
        defects.keeps_every_member,
        "worlds",
        "test_lagging_members::test_a_member_may_lack_records_for_one_and_a_half_times_as_long",
        seed=14,
    ),
    Proof(
        KeptMembers,
        "IS-03",
        defects.compares_with_the_end_at_this_fetch,
        "worlds",
        "test_kept_members::test_a_member_that_had_everything_too_long_ago_leaves",
        seed=2,
    ),
    Proof(
        FetchingIncarnations,
        "IS-08",
        defects.fetches_without_broker_epoch,
        "worlds",
        "test_fetching_incarnations::test_a_follower_may_fetch_by_its_earlier_registration",
    ),
    Proof(
        ElectedLeaders,
        "LEADERLESS",
        defects.elects_nobody_uncleanly,
        "worlds",
        "test_elected_leaders::test_a_decision_that_is_not_written_whole_is_not_judged",
        seed=7,
    ),
    Proof(
        EligibleReplicas,
        "ISR",
        "hw-advances-under-min-isr",
        "frozen-high-watermark",
        "test_invariants::test_a_member_whose_new_incarnation_is_not_registered_yet_may_lack_records",
        seed=3,
    ),
    Proof(
        RestartedBrokers,
        "EL-05",
        defects.trusts_brokers_that_died,
        "worlds",
        "test_restarted_brokers::test_a_broker_that_stopped_cleanly_keeps_its_place",
        seed=2,
    ),
    Proof(
        TruncatedEpochs,
        "DP-13",
        "epoch-cache-not-truncated",
        "barren-epoch",
        "test_observed_followers::test_a_log_that_was_cut_within_its_last_epoch_keeps_it",
    ),
    Proof(
        LeaderEpochs,
        "DP-13",
        defects.a_cache_loses_its_last_epoch,
        "worlds",
        "test_leader_epochs::test_epochs_without_batches_are_legal",
        seed=16,
    ),
    Proof(
        ProducerStates,
        "DP-05",
        "dedup-lost-on-failover",
        "truncated-retry",
        "test_producer_states::test_a_producer_that_was_silent_for_long_may_be_forgotten",
    ),
    Proof(
        ProducerSnapshots,
        "DP-05",
        defects.a_roll_forgets_earlier_batches,
        "worlds",
        "test_producer_snapshots::test_later_batches_may_push_out_what_a_snapshot_has",
        seed=3,
    ),
    Proof(
        SessionContents,
        "DP-04",
        "session-additions-ignored",
        "leader-kill-loop",
        "test_session_contents::test_sides_at_different_epochs_may_differ",
        seed=17,
    ),
    Proof(
        KeptSessions,
        "DP-04",
        defects.begins_no_sessions,
        "worlds",
        "test_kept_sessions::test_no_session_begins_without_room_or_for_nothing",
    ),
    Proof(
        ContinuedSessions,
        "DP-04",
        defects.goes_on_in_no_session,
        "worlds",
        "test_continued_sessions::test_a_fetch_on_another_connection_may_begin_another_session",
    ),
    Proof(
        SessionNews,
        "DP-04",
        defects.repeats_the_log_start_in_each_response,
        "worlds",
        "test_session_news::test_a_topic_partition_that_the_fetch_names_is_in_the_response",
        seed=1,
    ),
    Proof(
        NearbyReplicas,
        "NEAR",
        defects.sends_nobody_to_a_nearby_replica,
        "worlds",
        "test_nearby_replicas::test_a_consumer_is_sent_to_nobody_where_there_is_nobody_nearer",
        seed=7,
    ),
    Proof(
        FetchedRecords,
        "DP-14",
        defects.states_too_high_a_high_watermark,
        "worlds",
        "test_fetched_records::test_a_fetch_from_within_a_batch_gets_all_of_it",
    ),
    Proof(
        FilledFetches,
        "DP-14",
        defects.sends_of_one_topic_partition,
        "worlds",
        "test_filled_fetches::test_records_of_this_turn_may_come_with_the_next_fetch",
        seed=1,
    ),
    Proof(
        ListedEnd,
        "DP-15",
        defects.lists_the_log_end,
        "end-offsets-after-failover",
        "test_listed_end::test_an_end_listed_by_a_deposed_leader_before_a_declared_loss_is_legal",
    ),
    Proof(
        LookedUpOffsets,
        "DP-15",
        defects.finds_times_above_the_high_watermark,
        "worlds",
        "test_looked_up_offsets::test_a_time_after_all_visible_records_has_no_offset",
        seed=2,
    ),
    Proof(
        DeletedRecords,
        "DP-16",
        defects.deletes_no_records,
        "worlds",
        "test_deleted_records::test_a_poll_that_began_before_the_deletion_was_acknowledged_may_have_them",
        seed=4,
    ),
    Proof(
        ParkedRequests,
        "PARKED",
        defects.wakes_nobody_where_a_replica_goes,
        "worlds",
        "test_parked_requests::test_a_request_that_waits_for_something_is_parked",
    ),
    Proof(
        RequestDeadlines,
        "DP-05",
        defects.waits_for_the_newest_deadline,
        "worlds",
        "test_request_deadlines::test_a_broker_that_took_no_turn_meanwhile_may_be_late",
        seed=5,
    ),
    Proof(
        RequestOrder,
        "ORDER",
        defects.serves_held_requests_in_reverse,
        "worlds",
        "test_request_order::test_later_ones_and_those_of_other_connections_may_wait_to_be_handled",
        seed=1,
    ),
    Proof(
        FinalLogs,
        "ACK",
        defects.a_segment_is_lost,
        "worlds",
        "test_invariants::test_a_replica_that_is_not_in_sync_may_lack_what_is_committed_after_healing",
        seed=30,
    ),
    Proof(
        IndexedLogs,
        "INDEX",
        defects.trusts_the_time_index_alone,
        "worlds",
        "test_indexed_logs::test_a_log_that_begins_within_a_batch_has_the_times_from_there_on",
        seed=13,
    ),
    Proof(
        RecoveredNames,
        "DURABLE",
        defects.recovers_without_syncing_the_directory,
        "worlds",
        "test_recovered_names::test_names_that_the_new_process_has_created_are_its_own",
        seed=2,
    ),
    Proof(
        OpenFiles,
        "FILES",
        defects.leaves_its_indexes_open,
        "worlds",
        "test_open_files::test_the_host_closes_the_files_of_a_process_that_dies",
        seed=1,
    ),
    Proof(
        DirectoryIds,
        "DIRECTORY",
        defects.keeps_no_identity,
        "worlds",
        "test_directory_ids::test_a_disk_that_was_wiped_has_another_id",
        seed=1,
    ),
    Proof(
        IndexFiles,
        "INDEX",
        defects.indexes_an_offset_within_a_batch,
        "worlds",
        "test_index_files::test_files_of_a_disk_that_fails_are_not_judged",
        seed=6,
    ),
    Proof(
        OpenedLogs,
        "INDEX",
        defects.starts_without_its_indexes,
        "worlds",
        "test_opened_logs::test_batches_after_an_older_snapshot_of_the_producers_are_read",
        seed=2,
    ),
    Proof(
        FlushedLogs,
        "FLUSH",
        defects.flushes_nothing_by_age,
        "worlds",
        "test_flushed_logs::test_a_new_limit_begins_with_a_time_of_its_own",
        seed=1,
    ),
    Proof(
        HostedDirectories,
        "HOSTED",
        defects.puts_no_strays_aside,
        "worlds",
        "test_hosted_directories::test_a_directory_that_was_put_aside_may_stay",
        seed=5,
    ),
    Proof(
        NeedlessSyncs,
        "SYNC",
        defects.syncs_what_has_not_changed,
        "worlds",
        "test_needless_syncs::test_a_process_does_not_know_what_an_earlier_one_has_synced",
        seed=1,
    ),
    Proof(
        RetainedMetadata,
        "SN-07",
        defects.keeps_metadata_of_any_size,
        "worlds",
        "test_retained_metadata::test_what_is_within_the_limit_may_stay",
        seed=3,
    ),
    Proof(
        BegunSnapshots,
        "SN-01",
        defects.counts_bytes_from_its_start,
        "worlds",
        "test_begun_snapshots::test_buggify_may_want_a_snapshot_early_once",
        seed=3,
    ),
    Proof(
        RecoveredCluster,
        "RECOVER",
        defects.lets_nobody_rejoin,
        "two-hop-failover",
        "test_recovery::test_what_was_whole_may_lose_a_member_again",
    ),
    Proof(
        CalmCluster,
        "CALM",
        defects.stands_although_it_hears_its_leader,
        "worlds",
        "test_calm::test_leadership_may_go_back_to_the_preferred_replica",
        seed=13,
    ),
    Proof(
        BalancedLeaders,
        "RA-07",
        defects.never_returns_leaderships,
        "worlds",
        "test_balanced_leaders::test_a_tolerated_share_is_legal",
        seed=85,
    ),
    Proof(
        PacedCluster,
        "PACE",
        defects.sends_heartbeats_without_pause,
        "worlds",
        "test_pace::test_a_heartbeat_more_or_less_is_legal",
        seed=2,
    ),
    Proof(
        IdleAnswers,
        "IDLE",
        defects.announces_itself_to_voters_that_fetch,
        "worlds",
        "test_idle_answers::test_a_leader_that_holds_fetches_long_may_announce_itself",
        seed=9,
    ),
    Proof(
        BegunConnections,
        "CONNECT",
        defects.waits_for_connections_for_ever,
        "worlds",
        "test_begun_connections::test_a_node_that_gives_up_in_time_is_sound",
        seed=5,
    ),
    Proof(
        CountedMemory,
        "BUDGET",
        defects.gives_no_memory_back,
        "worlds",
        "test_counted_memory::test_what_is_held_counts_until_its_connection_ends",
        seed=1,
    ),
    Proof(
        PausedConnections,
        "PAUSED",
        defects.resumes_none_that_waits_for_others,
        "worlds",
        "test_paused_connections::test_a_reason_may_be_over_at_the_end_of_one_turn",
        seed=3,
    ),
    Proof(
        DueWork,
        "DUE",
        defects.names_no_time_while_it_fetches,
        "worlds",
        "test_due_work::test_a_turn_that_does_nothing_is_legal",
    ),
    Proof(
        LimitedTurns,
        "TURN",
        defects.takes_all_that_waits,
        "worlds",
        "test_limited_turns::test_a_turn_may_take_as_many_requests_as_are_the_most",
        seed=3,
    ),
    Proof(
        ToldMetrics,
        "METRIC",
        defects.counts_no_refused_fetches,
        "worlds",
        "test_told_metrics::test_once_a_connection_has_ended_more_may_have_been_sent_than_was_seen",
        seed=1,
    ),
    Proof(
        ZooKeeperMetrics,
        "METRIC",
        defects.says_that_every_leader_is_preferred,
        "zookeeper",
        "test_zookeeper_metrics::test_a_controller_that_still_works_is_not_judged",
        seed=4,
    ),
    Proof(
        QuorumTimes,
        "METRIC",
        defects.measures_elections_to_their_end_and_beyond,
        "worlds",
        "test_quorum_times::test_an_incarnation_that_has_elected_nothing_reports_no_number",
        seed=1,
    ),
    Proof(
        AnsweredRequests,
        "ANSWER",
        defects.leaves_heartbeats_unanswered,
        "worlds",
        "test_answered_requests::test_a_fetch_may_wait_as_long_as_it_asks",
        seed=31,
    ),
)

PARTS: tuple[Proof, ...] = (
    Proof(
        PlausibleMessages,
        "ELECT",
        defects.announces_itself_in_an_earlier_epoch,
        "worlds",
        "test_plausible_messages::test_a_leader_may_say_so_however_late_and_a_stranger_anything",
        seed=2,
    ),
    Proof(
        QuorumVoters,
        "VOTERS",
        defects.adds_itself_again,
        "worlds",
        "test_quorum_rules::test_a_voter_may_be_removed_and_added_again_by_request",
        seed=6,
    ),
    Proof(
        GivenUpElections,
        "ELECT",
        defects.never_stands_again,
        "worlds",
        "test_given_up_elections::test_one_that_backs_off_has_another_time",
        seed=5,
    ),
    Proof(
        GivenUpElections,
        "ELECT",
        defects.does_not_back_off,
        "worlds",
        "test_given_up_elections::test_an_observer_waits_for_no_election",
        seed=4,
    ),
    Proof(
        CountedMemory,
        "BUDGET",
        defects.counts_no_waiting_responses,
        "worlds",
        "test_counted_memory::test_a_response_that_waits_counts_with_its_size",
    ),
    Proof(
        ToldMetrics,
        "METRIC",
        defects.counts_no_eligible_elections,
        "worlds",
        "test_told_metrics::test_elections_that_were_lost_with_the_leadership_may_be_counted",
        seed=6,
    ),
    Proof(
        ToldMetrics,
        "METRIC",
        defects.says_that_added_replicas_lack,
        "worlds",
        "test_told_metrics::test_a_leader_that_knows_more_than_its_image_may_say_so",
        seed=3,
    ),
    Proof(
        ProducerSnapshots,
        "DP-05",
        defects.keeps_snapshots_of_removed_segments,
        "worlds",
        "test_producer_snapshots::test_a_node_may_die_before_it_has_removed_them_and_does_it_when_it_starts",
        seed=3,
    ),
    Proof(
        FetchedRecords,
        "DP-14",
        defects.sends_more_than_a_fetch_allows,
        "worlds",
        "test_fetched_records::test_one_batch_alone_may_be_larger_than_is_allowed",
        seed=6,
    ),
    Proof(
        ContinuedSessions,
        "DP-04",
        defects.asks_for_no_fetch_session,
        "worlds",
        "test_continued_sessions::test_consumers_may_begin_as_many_sessions_as_they_like",
        seed=1,
    ),
    Proof(
        ReadyBrokers,
        "BL-02",
        defects.asks_late_to_be_unfenced,
        "worlds",
        "test_ready_brokers::test_a_broker_whose_heartbeat_is_under_way_or_that_stops_may_wait",
        seed=1,
    ),
    Proof(
        RecoveredCluster,
        "RA-05",
        defects.begins_a_reassignment_and_waits,
        "reassign-chaos",
        "test_recovery::test_a_reassignment_that_has_all_it_needs_is_complete_at_the_end",
    ),
    Proof(
        ContinuedSessions,
        "DP-04",
        defects.rests_after_each_append,
        "worlds",
        "test_continued_sessions::test_a_follower_may_forget_what_it_cannot_or_need_not_fetch_on",
        seed=1,
    ),
    Proof(
        StoppedBrokers,
        "CS-04",
        defects.keeps_the_sessions_of_stopped_brokers,
        "worlds",
        "test_stopped_brokers::test_a_message_that_is_served_late_begins_another_session",
        seed=2,
    ),
)
"""Proofs of what a rule asserts beside its first invariant, and no other rule does."""
