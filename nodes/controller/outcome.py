"""What handling a request comes to: records to write and the response to give once they are committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.schema import Message

Record = Message | bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """`records` are written as one batch where they fit one; without any, the response still waits its turn.

    A sequence is written within one turn, whatever its size. An iterator that gives more than one batch's worth is
    drawn from batch by batch, one in each turn, and no other request is decided before its end. Records may come as the
    values that they are encoded to.
    """

    response: Message
    records: Iterable[Record] = ()


class Refused(Exception):
    """One item of a request cannot be done; becomes an error code and a message in its response."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
