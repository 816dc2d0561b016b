"""ELECT: records and pieces of snapshots that a follower receives restart its fetch timeout (QC-05, QC-18).

A voter stands for election when its leader has not responded for the fetch timeout. If some response does not restart
the timeout, the voter stands against a leader that runs. For pieces of a snapshot, this shows only with a large
snapshot or a slow link: most downloads end long before the timeout.

The rule runs after a turn in which a follower has appended what it fetched, or written a piece of a snapshot. The
timeout then ends one fetch timeout later, or an eighth of it later (buggify place `early-fetch-timeout`). The follower
also remembers that it has heard its leader, since that is its reason to refuse pre-votes (KIP-996).

Source: KIP-595, QC-05, QC-18, SN-05. Legal: another role than before the turn; a leader that has resigned
(EndQuorumEpoch), whose responses no longer count; a snapshot that the follower writes itself (`worlds` 1011965);
a leader that pushes its records, and sends nothing on request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import METADATA_DIRECTORY, Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.raft.roles import Follower
from squall.nodes.raft.snapshots import PART, SnapshotId
from squall.nodes.storage.checkpoints import join

EARLY = 8
"""Buggify divides the fetch timeout by this."""


class HeardLeaders(Rule):
    """See the module."""

    events = ("append", "log_reset", "snapshot_fetch")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._followers: dict[str, Follower] = {}
        """By process, its role after the last turn, if it follows."""
        self._downloads: dict[str, tuple[str, int]] = {}
        """By process that downloads a snapshot, the path of what it has, and the bytes."""
        self._served: set[int] = set()
        """The nodes that have appended metadata or emptied their log in a turn that is not examined yet."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == "snapshot_fetch":
            name = SnapshotId(int(fields["end"]), int(fields["epoch"])).name + PART
            self._downloads[self.cluster.names[int(fields["node"])]] = join(METADATA_DIRECTORY, name), 0
        elif "node" in fields:
            self._served.add(int(fields["node"]))

    def died(self, process: SimProcess) -> None:
        self._served.clear()
        self._downloads.pop(process.name, None)
        self._followers.pop(process.name, None)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        served, self._served = self._served, set()
        with_quorum = node_of_quorum(node)
        if with_quorum is None or not with_quorum.raft.pulls:
            return
        role, before = with_quorum.raft.role, self._followers.get(process.name)
        if not isinstance(role, Follower):
            self._followers.pop(process.name, None)
            self._downloads.pop(process.name, None)
            return
        self._followers[process.name] = role
        heard = with_quorum.config.node_id in served
        heard |= process.name in self._downloads and self._has_grown(process)
        if heard and role is before and not role.abandoned:
            _check(process, role, with_quorum.config.controller_quorum_fetch_timeout_ms * 1_000)

    def _has_grown(self, process: SimProcess) -> bool:
        """Whether there is more of a snapshot on the disk than after the last turn. It is renamed when it is whole."""
        path, before = self._downloads[process.name]
        with process.disk.at_no_cost():
            content = process.disk.content(path)
        if content is None:
            del self._downloads[process.name]
            return False
        self._downloads[process.name] = path, len(content)
        return len(content) > before


def _check(process: SimProcess, role: Follower, timeout: int) -> None:
    if not role.heard:
        raise InvariantBroken(
            "ELECT",
            f"{process.name} has appended what leader {role.leader_id} of quorum epoch {role.epoch} sent, and does not "
            "count it as heard",
        )
    patience = role.give_up_at - process.now
    if patience not in (timeout, timeout // EARLY):
        raise InvariantBroken(
            "ELECT",
            f"{process.name} has appended what leader {role.leader_id} of quorum epoch {role.epoch} sent, and its "
            f"fetch timeout ends in {patience} us, not in {timeout} us",
        )
