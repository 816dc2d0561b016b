"""Which epochs a peer may make this replica believe (QC-03, KIP-595): an epoch is a 31-bit number, and it never falls.

One message in an epoch near 2^31 would leave no epoch to elect a leader in. Nothing but time and many elections can
move an epoch far, so a request, which anybody can send, may move it by no more than an allowance that fills with time.
An answer of a peer that this replica has asked itself may move it further: that is how a replica that was away for
years catches up. Whatever is refused here is refused before anything has changed.
"""

from __future__ import annotations

from squall.nodes.raft.config import Voter
from squall.nodes.raft.errors import Implausible

EPOCH_LAST = 2**31 - 1 - (1 << 20)
"""The last epoch that is believed of anybody; elections may go beyond it."""
ALLOWANCE_MAX = 1 << 20
"""Epochs that requests may move this replica by at once."""
ALLOWANCE_PER_S = 1000
"""How fast the allowance fills again: more elections in a second than any quorum can hold."""
ANSWER_MAX = 1 << 28
"""Epochs that one answer may move it by."""
HOST_MAX = 255
"""Characters of a host name."""
_SECOND = 1_000_000


class EpochAllowance:
    """How many epochs requests may move a replica by now. Times are in microseconds."""

    def __init__(self) -> None:
        self._left = ALLOWANCE_MAX * _SECOND
        self._filled_at = 0

    def check(self, now: int, known: int, claimed: int) -> None:
        """A request claims an epoch. Raises Implausible; then nothing of the allowance is used."""
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
    """An answer claims an epoch. Raises Implausible."""
    if claimed > known and (claimed > EPOCH_LAST or claimed - known > ANSWER_MAX):
        raise Implausible(f"epoch {claimed} is too far from epoch {known}")


def check_endpoint(endpoint: Voter | None) -> None:
    """Somebody says where a replica is. Raises Implausible if that is nowhere: it is to be told on to others."""
    if endpoint is not None and not (0 < endpoint.port < 1 << 16 and 0 < len(endpoint.host) <= HOST_MAX):
        raise Implausible(f"{endpoint.id} is said to be at {endpoint.host[:HOST_MAX]!r}, port {endpoint.port}")
