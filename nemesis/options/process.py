"""Processes that die, stop, sleep and come back."""

from __future__ import annotations

from typing import Literal

from squall.nemesis.durations import Duration
from squall.nemesis.options.base import Target, Timed, TopicPartitionTarget


class Kill(Timed):
    """SIGKILL; the process stays down for `for` and is then started again."""

    fault: Literal["kill"]
    target: Target


class Pause(Timed):
    """SIGSTOP, and SIGCONT after `for`: the process sleeps through its own timeouts."""

    fault: Literal["pause"]
    target: Target


class Restart(Timed):
    """SIGTERM; the process stops cleanly, stays down for `for` and is then started again.

    `patience` is how long it may take to stop (a broker hands over what it leads first); then it is killed.
    """

    fault: Literal["restart"]
    target: Target
    patience: Duration = 10.0


class LeaderKillLagging(Timed):
    """Pauses the followers of a topic-partition for `lag`, kills its leader meanwhile, and keeps it down for `for`."""

    fault: Literal["leader-kill-lagging"]
    target: TopicPartitionTarget
    lag: Duration = 1.0


ProcessFault = Kill | Pause | Restart | LeaderKillLagging
