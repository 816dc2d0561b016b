"""DP-04: a broker keeps the fetch sessions that it has begun, and begins those for which it has room (KIP-227).

A fetcher that is told that its session is unknown, or gets none, names all of its topic-partitions again. Nothing is
lost by that but time, of every fetch, so nobody notices. Asserted when a broker answers a Fetch:

* FETCH_SESSION_ID_NOT_FOUND: it keeps no session of that id
* INVALID_FETCH_SESSION_EPOCH: the session is at another epoch, or of another fetcher
* FETCH_SESSION_TOPIC_ID_ERROR: the session names topics by what the request's version does not have
* no error: the session that the answer names is kept, and expects the epoch after that of the request. A fetch that
  asks for a session and names topic-partitions gets one, if there is room for it

A fetch that waits while its session ends is answered first: in the turn in which it came, if another fetch needs the
room (`worlds` seed 234).

Legal: a fetch that asked for a session while there was no room for it, and waited until there was; one of the metadata
log, at a listener of controllers.

Source: DP-04; `FetchSession.scala` of Kafka.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.broker import Broker
from squall.nodes.broker.requests.fetch_sessions import (
    INT_MAX,
    NEW_SESSION,
    TOPIC_IDS_SINCE,
    fetcher_of,
)
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse
from squall.nodes.protocol.requests.session import ServerRequest


class KeptSessions(Rule):
    """See the module."""

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.FETCH or request.answer is None or node.broker is None:
            return
        asked, told = request.body, request.answer.response
        with_quorum = node_of_quorum(node)
        if not isinstance(asked, FetchRequest) or not isinstance(told, FetchResponse) or with_quorum is None:
            return
        if request.listener in with_quorum.config.controller_listener_names:
            return
        if told.error_code:
            why = _wrong_refusal(node.broker, request, asked, ErrorCode(told.error_code))
        else:
            why = _wrong_session(node.broker, asked, told, waited=request.received_at < process.now)
        if why:
            whose = f"a fetch of {request.client_id} in session {asked.session_id or told.session_id}"
            raise InvariantBroken("DP-04", f"{process.name} answers {whose}, epoch {asked.session_epoch}, {why}")


def _wrong_session(broker: Broker, asked: FetchRequest, told: FetchResponse, *, waited: bool) -> str:
    """Return what is wrong with the session that a response names; empty if nothing is."""
    if not told.session_id:
        return "" if waited else _lacks_session(broker, asked)
    kept = broker.fetching.sessions.find(told.session_id)
    if kept is None:
        return "and does not keep it"
    after = asked.session_epoch + 1 if asked.session_epoch < INT_MAX else 1
    return "" if kept.epoch == after else f"and expects epoch {kept.epoch} next"


def _lacks_session(broker: Broker, asked: FetchRequest) -> str:
    named = sum(len(topic.partitions) for topic in asked.topics)
    if asked.session_epoch != NEW_SESSION or not named:
        return ""
    sessions, slots = broker.fetching.sessions, broker.config.fetch_session_slots
    has_room = len(sessions) < slots and sessions.watched + named <= broker.config.fetch_session_topic_partitions
    return f"without beginning one; it keeps {len(sessions)} of {slots}" if has_room else ""


def _wrong_refusal(broker: Broker, request: ServerRequest, asked: FetchRequest, error: ErrorCode) -> str:
    kept = broker.fetching.sessions.find(asked.session_id)
    if kept is None:
        return "" if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND else f"with {error.name}, and keeps no such session"
    if error == ErrorCode.INVALID_FETCH_SESSION_EPOCH:
        due = kept.epoch != asked.session_epoch or kept.replica_id != fetcher_of(request)[0]
    else:
        due = error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR and kept.by_id != (request.api_version >= TOPIC_IDS_SINCE)
    return "" if due else f"with {error.name}; it keeps that session and expects epoch {kept.epoch} next"
