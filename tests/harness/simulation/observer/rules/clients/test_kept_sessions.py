"""DP-04 as the observer asserts it: a broker keeps the fetch sessions that it has begun."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.clients.kept_sessions import KeptSessions
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.broker.requests.fetch_sessions import INT_MAX
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest

NOW = 100
NOT_FOUND = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
OTHER_EPOCH = ErrorCode.INVALID_FETCH_SESSION_EPOCH
WITH_TOPIC_IDS, WITHOUT_TOPIC_IDS = 17, 12


class Sessions:
    """What a broker keeps: by default session 7 of a consumer, which expects epoch 3 next."""

    def __init__(self, watched: int = 1) -> None:
        self.watched = watched
        self.kept = {7: SimpleNamespace(epoch=3, replica_id=-1, by_id=True)}

    def __len__(self) -> int:
        return len(self.kept)

    def find(self, number: int) -> Any:
        return self.kept.get(number)


def fetches(
    asked: tuple[int, int],
    session: int = 0,
    error: int = 0,
    *,
    sessions: Sessions | None = None,
    slots: int = 2,
    waited: bool = False,
    replica: int = -1,
    version: int = WITH_TOPIC_IDS,
    names: int = 1,
    listener: str = "PLAINTEXT",
) -> None:
    """A node answers a fetch of a session and epoch with `session`, or an error. Controllers listen at CONTROLLER."""
    config = SimpleNamespace(fetch_session_slots=slots, fetch_session_topic_partitions=10)
    fetching = SimpleNamespace(sessions=sessions or Sessions())
    node: Any = SimpleNamespace(
        broker=SimpleNamespace(fetching=fetching, config=config),
        config=SimpleNamespace(controller_listener_names=("CONTROLLER",)),
    )
    process: Any = SimpleNamespace(name="b1", now=NOW)
    topics = [FetchTopic(partitions=[FetchPartition(number) for number in range(names)])]
    body = FetchRequest(
        replica_state=ReplicaState(replica, 1), session_id=asked[0], session_epoch=asked[1], topics=topics
    )
    request = ServerRequest(int(ApiKey.FETCH), version, body, "client", listener, 1, NOW - waited)
    request.answer = Answer(response=FetchResponse(error_code=error, session_id=session))
    KeptSessions(None).answered(process, node, request)  # type: ignore[arg-type]


def breaks(sentence: str) -> Any:
    return pytest.raises(InvariantBroken, match=rf"^DP-04: b1 answers a fetch of client in session .*{sentence}")


def test_a_session_goes_on_with_the_next_epoch() -> None:
    with breaks("7, epoch 1, and expects epoch 3 next"):
        fetches((7, 1), 7)
    fetches((7, 2), 7)


def test_after_the_last_epoch_comes_the_first() -> None:
    sessions = Sessions()
    sessions.kept[7].epoch = 1
    fetches((7, INT_MAX), 7, sessions=sessions)


def test_a_session_that_a_response_names_is_kept() -> None:
    with breaks("8, epoch 0, and does not keep it"):
        fetches((0, 0), 8)
    with breaks("8, epoch 4, and does not keep it"):
        fetches((8, 4), 8, waited=True)


def test_a_fetch_that_waited_may_have_found_no_room() -> None:
    fetches((0, 0), waited=True)


def test_a_session_begins_where_there_is_room() -> None:
    with breaks("epoch 0, without beginning one; it keeps 1 of 2"):
        fetches((0, 0))


@pytest.mark.parametrize("full", [{"slots": 1}, {"sessions": Sessions(watched=10)}, {"names": 0}])
def test_no_session_begins_without_room_or_for_nothing(full: dict[str, Any]) -> None:
    fetches((0, 0), **full)


def test_a_fetch_without_a_session_gets_none() -> None:
    fetches((0, -1))


def test_a_session_that_is_kept_is_not_unknown() -> None:
    with breaks("7, epoch 3, with FETCH_SESSION_ID_NOT_FOUND; it keeps that session and expects epoch 3 next"):
        fetches((7, 3), error=NOT_FOUND)
    fetches((8, 3), error=NOT_FOUND)


def test_a_session_that_is_not_kept_is_unknown() -> None:
    with breaks("with INVALID_FETCH_SESSION_EPOCH, and keeps no such session"):
        fetches((8, 3), error=OTHER_EPOCH)


def test_the_epoch_that_a_session_expects_is_valid_for_its_fetcher() -> None:
    with breaks("with INVALID_FETCH_SESSION_EPOCH"):
        fetches((7, 3), error=OTHER_EPOCH)
    fetches((7, 2), error=OTHER_EPOCH)
    fetches((7, 3), error=OTHER_EPOCH, replica=2)


def test_a_session_names_topics_either_by_id_or_by_name() -> None:
    with breaks("with FETCH_SESSION_TOPIC_ID_ERROR"):
        fetches((7, 3), error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    fetches((7, 3), error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, version=WITHOUT_TOPIC_IDS)


def test_a_controller_keeps_no_sessions_and_refuses_fetches_for_other_reasons() -> None:
    error = int(ErrorCode.INCONSISTENT_CLUSTER_ID)
    fetches((0, -1), error=error, listener="CONTROLLER")
    with pytest.raises(InvariantBroken, match=r"^DP-04"):
        fetches((0, -1), error=error)
