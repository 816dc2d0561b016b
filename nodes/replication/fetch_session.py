"""A fetch session at the fetcher (KIP-227): an id that the leader gave, and an epoch that counts fetches.

    no id, epoch 0 ──response with an id──▶ id, epoch 1, 2, 3 …    established: both sides send only changes
         │                                     │
         └──response without: full request     └──an error, or no response──▶ a successor: this id, epoch 0

The successor names the lost session in its first fetch, so that the leader drops it.
"""

from __future__ import annotations

INT_MAX = 2**31 - 1


class FetchSession:
    """See the module."""

    def __init__(self, replaces: int = 0) -> None:
        """`replaces` is the id of the session before, 0 if there was none."""
        self.id = replaces
        self.epoch = 0

    @property
    def established(self) -> bool:
        """Whether the leader keeps the session."""
        return self.epoch > 0

    def next(self) -> tuple[int, int]:
        """(id, epoch) of the next fetch."""
        used = (self.id, self.epoch)
        if self.established:
            self.epoch = self.epoch + 1 if self.epoch < INT_MAX else 1
        return used

    def answered(self, session_id: int) -> None:
        """Record a response without error and its session id: 0 if the leader keeps no session, or no longer."""
        if session_id == 0:
            self.id = self.epoch = 0
        elif not self.established:
            self.id, self.epoch = session_id, 1

    def successor(self) -> FetchSession:
        return FetchSession(self.id)
