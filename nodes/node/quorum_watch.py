"""Measure the quorum over time: duration of commits and elections, number of leader changes.

It observes the quorum replica after each flush, so that the replica itself counts nothing: its role, its log's end and
its high watermark suffice. Times are those of turns, so they are what a waiting request would have seen.

* A commit takes from the turn in which the leader wrote a record to the one whose flush moved the high watermark past
  it.
* An election takes from the turn in which this voter stood to the one in which it stood no more and knew a leader
  (KIP-595: measured at each candidate, whichever voter won). One that asks for pre-votes still names the leader that it
  has lost (KIP-996).
"""

from __future__ import annotations

from collections import deque

from squall.nodes.node.timings import Recent
from squall.nodes.raft.replica import RaftReplica

STANDING = ("prospective", "candidate")
"""Roles of a voter that stands for election."""


class QuorumWatch:
    """Call `observe` once per turn, after the flush, if this replica votes; observers commit and elect nothing."""

    def __init__(self, raft: RaftReplica) -> None:
        self.commits = Recent()
        self.elections = Recent()
        self.new_leaders = 0
        """How often a leader became known here, counted by the node; the same one in a new epoch counts again."""
        self._raft = raft
        self._standing_since = -1
        self._written: deque[tuple[int, int]] = deque()
        self._written_to = 0

    def observe(self, now: int) -> None:
        raft = self._raft
        self._watch_election(now)
        if raft.is_leader:
            self._watch_commits(now)
        elif self._written:
            self._written.clear()

    def _watch_election(self, now: int) -> None:
        if self._raft.role.name in STANDING:
            if self._standing_since < 0:
                self._standing_since = now
        elif self._standing_since >= 0 and self._raft.leader_and_epoch[0] is not None:
            self.elections.add(now - self._standing_since)
            self._standing_since = -1

    def _watch_commits(self, now: int) -> None:
        end, committed = self._raft.end_offset, self._raft.high_watermark
        if not self._written:
            self._written_to = max(self._written_to, committed)
        if end > self._written_to:
            self._written.append((end, now))
            self._written_to = end
        while self._written and self._written[0][0] <= committed:
            self.commits.add(now - self._written.popleft()[1])
