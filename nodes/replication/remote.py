"""A leader's knowledge of one follower: only from its fetches (rule 10).

A fetch at offset o states "I have appended everything below o". The times of its fetches determine whether the follower
is *caught up*: it has all the leader has, or at some time in the last `lag_time_max` it had all that the leader had
then. Checking only whether it has everything now would drop a follower from the ISR of a busy leader.
"""

from __future__ import annotations

UNKNOWN_OFFSET = -1
NEVER = -(1 << 62)


class RemoteReplica:
    """One follower, as of its last accepted fetch in this leader epoch. Times are `now` in microseconds."""

    __slots__ = (
        "broker",
        "broker_epoch",
        "caught_up_at",
        "end_offset",
        "fetched_at",
        "leader_end_at_fetch",
        "log_start_offset",
    )

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.broker_epoch: int | None = None
        self.reset(NEVER, in_sync=False)

    def reset(self, now: int, *, in_sync: bool) -> None:
        """Reset for a new leader epoch: nothing is known, but members of the ISR count as caught up now."""
        self.end_offset = UNKNOWN_OFFSET
        self.leader_end_at_fetch = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.fetched_at = NEVER
        self.caught_up_at = now if in_sync else NEVER
        self.broker_epoch = None

    def fetched(self, now: int, offset: int, leader_end: int, broker_epoch: int) -> None:
        """Record an accepted fetch at `offset`, while the leader's log ended at `leader_end`."""
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif self.leader_end_at_fetch != UNKNOWN_OFFSET and offset >= self.leader_end_at_fetch:
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.end_offset = offset
        self.leader_end_at_fetch = max(leader_end, self.leader_end_at_fetch)
        self.fetched_at = now
        self.broker_epoch = broker_epoch

    def is_late(self, offset: int, broker_epoch: int) -> bool:
        """Whether the follower sent this fetch before one that the leader has taken note of already.

        Once the leader has accepted a fetch, the follower's log becomes no shorter in that leader epoch while its
        broker runs. So a lower offset of the same incarnation is an earlier one. A fetch without a broker epoch (-1)
        does not say which incarnation sent it.
        """
        return offset < self.end_offset and broker_epoch != -1 and broker_epoch == self.broker_epoch

    def stayed(self, at: int) -> None:
        """Record that it had all that the leader had, and fetched again without naming it (fetch sessions)."""
        self.caught_up_at = max(self.caught_up_at, at)
        self.fetched_at = max(self.fetched_at, at)

    def is_caught_up(self, now: int, leader_end: int, lag_time_max: int) -> bool:
        return self.end_offset == leader_end or now - self.caught_up_at <= lag_time_max
