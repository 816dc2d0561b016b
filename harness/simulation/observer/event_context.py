"""Describe where in a run something happened: the event's number, its time, its node, and its content.

The observer keeps the last turns as references, not texts: a run has a hundred thousand turns and needs words for one.
`Moment` is that turn in words:

    event 41,382 at 12.403118 s, b2: Fetch request of node-3001 (connection 17); append events-3 first=12 …

`what` names the inputs of the turn (frames by API and sender, connections, else its timer) and then the trace events of
the node in that turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.headers import parse_request_header

Inputs = Sequence[tuple[Callable[..., None], tuple[Any, ...]]]
TraceEvent = tuple[str, Mapping[str, object]]

SHOWN = 6
"""Inputs and trace events of one turn that are put into words; a busy turn has dozens."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One event of a run. `at` is in microseconds of virtual time."""

    number: int
    at: int
    node: str
    what: str

    def __str__(self) -> str:
        return f"event {self.number:,} at {self.at / 1e6:.6f} s, {self.node}: {self.what}"


class Turn(NamedTuple):
    """One turn of a node as recorded; put into words only on demand."""

    number: int
    at: int
    name: str
    inputs: Inputs
    traced: Sequence[TraceEvent]

    def moment(self, node: BaseNode | None) -> Moment:
        """Describe the turn in words; `node` helps to name connections that it opened."""
        given = [_input(method.__name__, arguments, node) for method, arguments in self.inputs]
        did = [_traced(name, fields) for name, fields in self.traced]
        words = _shortened(given) or "timer"
        return Moment(self.number, self.at, self.name, f"{words}; {_shortened(did)}" if did else words)


def _shortened(words: list[str]) -> str:
    more = len(words) - SHOWN
    return ", ".join(words[-SHOWN:]) + (f" (and {more} before)" if more > 0 else "")


def _input(method: str, arguments: tuple[Any, ...], node: BaseNode | None) -> str:
    connection = arguments[0]
    if method != "received":
        return f"connection {connection} {method}"
    if connection > 0:
        return f"{_request(arguments[1])} (connection {connection})"
    return f"answer on {_purpose(node, connection)}"


def _request(frame: bytes | bytearray | memoryview) -> str:
    try:
        header, _ = parse_request_header(frame)
    except ProtocolError:
        return f"frame of {len(frame)} bytes"
    known = {int(key): key.name for key in ApiKey}
    name = known.get(header.api_key, f"API {header.api_key}")
    return f"{name} v{header.api_version} of {header.client_id}"


def _purpose(node: BaseNode | None, connection: int) -> str:
    found = None if node is None else node.links.described(connection)
    return f"connection {connection}" if found is None else found


def _traced(name: str, fields: Mapping[str, object]) -> str:
    where = f" {fields['topic']}-{fields['partition']}" if "topic" in fields else ""
    rest = " ".join(f"{key}={value}" for key, value in fields.items() if key not in _PLACE)
    return f"{name}{where} {rest}".rstrip()


_PLACE = frozenset({"topic", "partition", "broker", "node"})
