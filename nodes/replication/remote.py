"""What a leader knows of one follower: only what its fetches say (rule 10).

A fetch at offset o says "I have appended everything below o". From the times of its fetches follows whether the
follower is *caught up*: it is if it has all the leader has, or had, at some time in the last `lag_time_max`, all that
the leader had then. Asking "does it have everything now" alone would drop a follower from the ISR of a busy leader.
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
        """A new leader epoch: nothing is known but that members of the ISR deserve the benefit of the doubt."""
        self.end_offset = UNKNOWN_OFFSET
        self.leader_end_at_fetch = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.fetched_at = NEVER
        self.caught_up_at = now if in_sync else NEVER
        self.broker_epoch = None

    def fetched(self, now: int, offset: int, leader_end: int, broker_epoch: int) -> None:
        """An accepted fetch at `offset`, while the leader's log ended at `leader_end`."""
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif self.leader_end_at_fetch != UNKNOWN_OFFSET and offset >= self.leader_end_at_fetch:
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.end_offset = offset
        self.leader_end_at_fetch = max(leader_end, self.leader_end_at_fetch)
        self.fetched_at = now
        self.broker_epoch = broker_epoch

    def stayed(self, at: int) -> None:
        """It had all that the leader had, and fetched again without a word about it (fetch sessions)."""
        self.caught_up_at = max(self.caught_up_at, at)
        self.fetched_at = max(self.fetched_at, at)

    def is_caught_up(self, now: int, leader_end: int, lag_time_max: int) -> bool:
        return self.end_offset == leader_end or now - self.caught_up_at <= lag_time_max
