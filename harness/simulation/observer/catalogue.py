"""The rules that the observer asserts, in the order in which they are called.

The order decides which of two rules names a breach that both would see.
"""

from __future__ import annotations

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
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster

RULES: tuple[type[Rule], ...] = (
    PlausibleMessages,
    QuorumVotes,
    GivenUpElections,
    HeardLeaders,
    HeardEpochs,
    HandedOverQuorum,
    QuorumMemory,
    DurableRecords,
    DurableClaims,
    QuorumProgress,
    QuorumCommitment,
    CountedVoters,
    QuorumFetches,
    QuorumLeader,
    QuorumVoters,
    AwaitedVoters,
    QuorumFollowing,
    QuorumRequests,
    ControllerAnswers,
    FencedRequests,
    ToldBrokers,
    AppliedMetadata,
    AppliedSettings,
    ControlledShutdown,
    StoppedBrokers,
    ReadyBrokers,
    SilentBrokers,
    ZooKeeperControllers,
    ClosedSessions,
    ControlPlane,
    StoppedReplicas,
    RefusedRecords,
    ReasonsToRefuse,
    NewLogs,
    LogBounds,
    LogStarts,
    SegmentBounds,
    FollowerAppend,
    PartitionLeader,
    BegunEpochs,
    PendingChanges,
    ShortIsr,
    CountedMembers,
    LaggingMembers,
    KeptMembers,
    FetchingIncarnations,
    ElectedLeaders,
    EligibleReplicas,
    RestartedBrokers,
    TruncatedEpochs,
    LeaderEpochs,
    ProducerStates,
    ProducerSnapshots,
    SessionContents,
    KeptSessions,
    ContinuedSessions,
    SessionNews,
    NearbyReplicas,
    FetchedRecords,
    FilledFetches,
    ListedEnd,
    LookedUpOffsets,
    DeletedRecords,
    ParkedRequests,
    RequestDeadlines,
    RequestOrder,
    FinalLogs,
    IndexedLogs,
    RecoveredNames,
    OpenFiles,
    DirectoryIds,
    IndexFiles,
    OpenedLogs,
    FlushedLogs,
    HostedDirectories,
    NeedlessSyncs,
    RetainedMetadata,
    BegunSnapshots,
    RecoveredCluster,
    CalmCluster,
    BalancedLeaders,
    PacedCluster,
    IdleAnswers,
    BegunConnections,
    CountedMemory,
    PausedConnections,
    DueWork,
    LimitedTurns,
    ToldMetrics,
    ZooKeeperMetrics,
    QuorumTimes,
    AnsweredRequests,
)


def all_rules(cluster: ObservedCluster) -> list[Rule]:
    """Make the rules of one run."""
    return [rule(cluster) for rule in RULES]
