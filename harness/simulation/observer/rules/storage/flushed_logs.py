"""FLUSH: a log is flushed as often as its topic asks for, by `flush.messages` and `flush.ms`.

Both are promises of how much a power loss can take from a broker that acknowledges what it has not flushed. A broker
that flushes too rarely shows it only if the host loses power at that moment. Asserted

* after a turn that appended to a log: fewer than `flush.messages` of its records are not durable;
* after each turn: no record has waited for longer than `flush.ms` to become durable. The broker reads its clock when it
  is next called, so that the time counts from the turn after the one that appended.

Source: Kafka's `flush.messages` and `flush.ms`, and `log.flush.interval.*` for brokers. Legal: any number and age
without a limit; what a smaller limit finds, until the next record, or until its own time is over.
"""

from __future__ import annotations

from dataclasses import dataclass

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.storage.config import LONG_MAX
from squall.nodes.storage.log import Log

MS = 1000


@dataclass(slots=True)
class _Unflushed:
    """The oldest records of a log that are not durable: all below `end`. `since` is when their time began, in µs."""

    log: Log
    end: int
    limit_ms: int
    since: int | None = None


class FlushedLogs(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._unflushed: dict[str, dict[str, _Unflushed]] = {}
        """By host and directory, of the logs with a limit of time."""
        self._most: dict[tuple[str, str], int] = {}
        """By host and directory, `flush.messages` after the last turn that touched the log."""

    def died(self, process: SimProcess) -> None:
        self._unflushed.pop(process.name, None)
        for place in [one for one in self._most if one[0] == process.name]:
            del self._most[place]

    def appended(self, turn: ReplicaTurn) -> None:
        log, name = turn.replica.log, turn.process.name
        most = log.config.flush_messages
        waiting = log.end_offset - log.durable_offset
        if waiting >= most == self._most.get((name, log.directory)):
            raise InvariantBroken(
                "FLUSH",
                f"{name} has appended to {log.directory}, and {waiting} of its records are not durable, with "
                f"flush.messages={most}",
            )

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        log, name = turn.replica.log, turn.process.name
        self._most[name, log.directory] = log.config.flush_messages
        if log.config.flush_ms == LONG_MAX or log.durable_offset >= log.end_offset:
            return
        of_host = self._unflushed.setdefault(name, {})
        known = of_host.get(log.directory)
        if known is None or known.log is not log:
            of_host[log.directory] = _Unflushed(log, log.end_offset, log.config.flush_ms)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        of_host = self._unflushed.get(process.name)
        if not of_host:
            return
        for directory, one in list(of_host.items()):
            log = one.log
            is_hosted = _is_hosted(node, log)
            is_durable = log.durable_offset >= min(one.end, log.end_offset)
            if not is_hosted or is_durable or log.config.flush_ms != one.limit_ms:
                del of_host[directory]
                if is_hosted and log.durable_offset < log.end_offset and log.config.flush_ms != LONG_MAX:
                    of_host[directory] = _Unflushed(log, log.end_offset, log.config.flush_ms)
            elif one.since is None:
                one.since = process.now
            elif process.now >= one.since + one.limit_ms * MS:
                raise InvariantBroken(
                    "FLUSH",
                    f"{process.name} keeps records of {directory} below offset {one.end} for "
                    f"{(process.now - one.since) / MS:g} ms, and only what is below {log.durable_offset} is durable, "
                    f"with flush.ms={one.limit_ms}",
                )


def _is_hosted(node: BaseNode, log: Log) -> bool:
    if node.broker is None:
        return False
    topic, _, number = log.directory.rpartition("-")
    hosted = node.broker.replicas.by_name(topic, int(number))
    return hosted is not None and not hosted.removed and hosted.replica.log is log
