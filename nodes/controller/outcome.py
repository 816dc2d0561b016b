"""Result of handling a request: records to write, and the response to send once they are committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.schema import Message

Record = Message | bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """`records` are written as one batch where they fit one; without any, the response still waits its turn.

    A sequence of any size is written within one turn. From an iterator with more than one batch's worth, one batch is
    drawn in each turn, and no other request is decided before its end. Records may be given as their encoded values.
    """

    response: Message
    records: Iterable[Record] = ()


class Refused(Exception):
    """One item of a request is refused; becomes an error code and a message in its response."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
