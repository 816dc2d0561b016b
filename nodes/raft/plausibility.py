"""Limit the epochs that a peer's message may set (QC-03, KIP-595): epochs are 31-bit numbers and never fall.

One message with an epoch near 2^31 would leave no epoch to elect a leader in. Only time and many elections can advance
an epoch far. Any node can send a request, so a request may advance the epoch only by an allowance that refills with
time. A response to this replica's own request may advance it further: that is how a replica catches up after years.
Every refusal happens before anything has changed.
"""

from __future__ import annotations

from squall.nodes.raft.config import Voter
from squall.nodes.raft.errors import Implausible

EPOCH_LAST = 2**31 - 1 - (1 << 20)
"""The last epoch accepted from a peer; elections may go beyond it."""
ALLOWANCE_MAX = 1 << 20
"""Epochs by which requests may advance this replica at once."""
ALLOWANCE_PER_S = 1000
"""Refill rate of the allowance: more elections in a second than any quorum can hold."""
ANSWER_MAX = 1 << 28
"""Epochs by which one response may advance it."""
HOST_MAX = 255
"""Characters of a host name."""
_SECOND = 1_000_000


class EpochAllowance:
    """How many epochs requests may advance a replica now. Times are in microseconds."""

    def __init__(self) -> None:
        self._left = ALLOWANCE_MAX * _SECOND
        self._filled_at = 0

    def check(self, now: int, known: int, claimed: int) -> None:
        """Check a request's epoch. Raises Implausible; then the allowance is unchanged."""
        jump = claimed - known
        if jump <= 0:
            return
        most = ALLOWANCE_MAX * _SECOND
        self._left = min(most, self._left + max(now - self._filled_at, 0) * ALLOWANCE_PER_S)
        self._filled_at = now
        if claimed > EPOCH_LAST or jump * _SECOND > self._left:
            raise Implausible(f"epoch {claimed} is too far from epoch {known}")
        self._left -= jump * _SECOND


def check_answered_epoch(known: int, claimed: int) -> None:
    """Check a response's epoch. Raises Implausible."""
    if claimed > known and (claimed > EPOCH_LAST or claimed - known > ANSWER_MAX):
        raise Implausible(f"epoch {claimed} is too far from epoch {known}")


def check_endpoint(endpoint: Voter | None) -> None:
    """Check a replica's address as sent by a peer, since it is passed on. Raises Implausible if it is unusable."""
    if endpoint is not None and not (0 < endpoint.port < 1 << 16 and 0 < len(endpoint.host) <= HOST_MAX):
        raise Implausible(f"{endpoint.id} is said to be at {endpoint.host[:HOST_MAX]!r}, port {endpoint.port}")
