"""The common part of leader and follower replicas: name, log, high watermark, and epoch fencing.

Every request that names a leader epoch is fenced by it (EP-03): older FENCED_LEADER_EPOCH, newer UNKNOWN_LEADER_EPOCH.
Truncating the log lowers the high watermark with it; nothing else here moves it.

Mutant `hw-restored-too-high` in the constructor.
"""

from __future__ import annotations

from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Trace, WallClock
from squall.nodes.protocol.errors import NO_ERROR, ErrorCode
from squall.nodes.replication.log_start import LogStart
from squall.nodes.replication.ports import BrokerView, PartitionState, ReplicationConfig
from squall.nodes.storage.log import Log


class BaseReplica:
    """See the module. Owns its log's content; the broker owns the log's opening, closing and deletion."""

    def __init__(
        self,
        broker: int,
        state: PartitionState,
        log: Log,
        config: ReplicationConfig,
        view: BrokerView,
        *,
        clock: WallClock,
        trace: Trace,
        mutants: Mutants = HEALTHY,
        high_watermark: int = 0,
    ) -> None:
        """`state` gives only the replica's name; call `apply` with it. `high_watermark` is the checkpointed one."""
        self.broker = broker
        self.topic_id = state.topic_id
        self.topic = state.topic
        self.partition = state.partition
        self.log = log
        self.state: PartitionState | None = None
        self.leader = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.is_leader = False
        self.high_watermark = min(max(high_watermark, log.start_offset), log.end_offset)
        self._config = config
        self._view = view
        self._clock = clock
        self._trace = trace
        self._mutants = mutants
        self._keeps_divergent_suffix = mutants.has("divergent-suffix-kept")
        if mutants.has("hw-restored-too-high"):
            self.high_watermark = log.end_offset
        self._log_start = LogStart(log, mutants)
        self._epoch_start = log.end_offset

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    def _event(self, name: str, **fields: object) -> None:
        self._trace.event(name, broker=self.broker, topic=self.topic, partition=self.partition, **fields)

    def _check_epoch(self, current_leader_epoch: int) -> int:
        """Check EP-03.

        The epoch counts before the role, so that a stale sender gets an epoch error; -1 skips the check.
        """
        if current_leader_epoch != -1:
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        return NO_ERROR if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _set_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset
        end = self.log.end_offset
        self._event("high_watermark", offset=offset, end=end, epoch=self.leader_epoch, led=self.is_leader)

    def _truncate(self, offset: int) -> None:
        """Truncate the log and its epochs at `offset`; lower the high watermark to the log's end."""
        end = self.end_offset
        self.log.truncate_to(offset)
        self._event("truncate", to=self.end_offset, end=end, high_watermark=self.high_watermark)
        if self.high_watermark > self.end_offset:
            self._set_high_watermark(self.end_offset)

    def _log_start_moved(self, moved: bool) -> bool:
        if moved:
            self._event("log_start", offset=self.log.start_offset, high_watermark=self.high_watermark)
        return moved
