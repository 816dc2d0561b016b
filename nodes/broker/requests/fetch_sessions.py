"""Fetch sessions (KIP-227): remember what a fetcher requests, so that a fetch costs only what has changed.

A session begins with a fetch of epoch 0, which names everything and receives a full response with an id. From then on
the fetcher increments the epoch with every fetch, names only additions, changes and what it *forgets*, and receives
only what has changed: records, a high watermark, a log start offset, an error, a divergence. An unknown id or an epoch
out of turn is an error, after which the fetcher starts a new session: one lost message must never leave the two sides
with different ideas of what is requested. Epoch -1 fetches without a session and ends the session it names.

*News.* Each topic-partition of a session has a `Watch`, which is registered at the topic-partition as long as the
session lasts. On any change there the watch adds itself to its session's list of news. A fetch examines that list only,
so an idle topic-partition costs nothing (DP-04). A watch whose records were sent moves to the end of the list. A watch
without room in the response stays in front, so none starves. A watch leaves the list when its fetcher has received
everything.

*Followers.* A follower's fetch confirms the unchanged offset of every topic-partition of its session (rule 10). A
follower whose watch is not on the list has all of the leader's log. When the log grows, the leader first records that
this was true up to the last fetch. A follower outside the ISR stays on the list: each of its fetches must be evaluated,
since it may have become eligible (rule 19). There are two exceptions. While the follower's broker is fenced or stopping
it cannot join, and a broker that has handed over thousands of leaderships would make the new leaders evaluate all of
them with each fetch; once it may join again, everything it follows is news once. While the controller has a request to
add the follower, the controller's response, positive or not, is news.

*Named again.* A topic-partition that a follower names again is answered as if nothing had been sent of it yet (DP-06).
A follower may send a fetch before it has the response to the one before (`replication/fetcher.py`). It drops what that
response says of a topic-partition that it has added again, or whose log has moved, in the meantime. The high watermark
is dropped with the rest, and without this rule it would not be sent again before it moves.

*Bounds.* A broker keeps `max.incremental.fetch.session.cache.slots` sessions. Together they name at most `watched_max`
topic-partitions, plus `WATCHED_PER_HOSTED` for each that the broker hosts. If there is no room, a session idle for two
minutes is evicted, and for a follower any consumer's session; otherwise the fetcher gets no session, which is equally
correct. A session that outgrows the bound ends. Ids come from the node's source of randomness.

Mutant `session-additions-ignored` in `_continued`.
"""

from __future__ import annotations

from collections.abc import Iterable

from squall.nodes.broker.hosting.hosted_partition import HostedPartition, Parked, Watcher
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Rng
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from squall.nodes.protocol.requests.session import ServerRequest

TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15
INT_MAX = 2**31 - 1
WITHOUT_SESSION = -1
NEW_SESSION = 0
IDLE_BEFORE_EVICTION = 120_000_000
WATCHED_PER_HOSTED = 4
"""Added to the bound per hosted topic-partition: the usual number of followers, and as many consumers."""
NOTHING_TOLD = -2
_Key = tuple[bytes | str, int]


class Watch(Watcher):
    """One topic-partition of a fetch: what is requested, where it is or why it is absent, and what was last sent."""

    __slots__ = ("absence", "context", "failed", "hosted", "told_high_watermark", "told_log_start", "topic", "wanted")

    def __init__(self, context: FetchContext, topic: FetchTopic, wanted: FetchPartition) -> None:
        self.context = context
        self.topic = topic
        self.wanted = wanted
        self.hosted: HostedPartition | None = None
        self.absence = 0
        self.failed = False
        """Whether the last response was an error."""
        self.told_high_watermark = NOTHING_TOLD
        self.told_log_start = NOTHING_TOLD

    def touched(self) -> Parked | None:
        context = self.context
        self.note_stayed()
        context.news[self] = None
        return context.parked

    def note_stayed(self) -> None:
        """Tell the replica that the follower had everything at the session's last fetch, if this is no news.

        Each fetch proves that for all topic-partitions of the session that are no news, thousands perhaps. So it is
        told only before a change after which it could not be said any more.
        """
        context = self.context
        if context.is_follower and self.hosted is not None and self not in context.news:
            self.hosted.replica.follower_stayed(context.replica_id, self.wanted.fetch_offset, context.arrived_at)

    def resolve(self, replicas: Replicas) -> None:
        """Look up the topic-partition, which may have been created, or created again, since the last look-up."""
        name, number = self.topic.topic, self.wanted.partition
        if self.context.by_id:
            found = replicas.by_id(self.topic.topic_id, number)
            self.absence = 0 if found else replicas.absence_by_id(self.topic.topic_id, number)
        else:
            found = replicas.by_name(name, number)
            self.absence = 0 if found else replicas.absence(name, number)
        if found is not self.hosted:
            self.leave()
            self.hosted = found
            if self.context.entered:
                self.enter()

    def enter(self) -> None:
        if self.hosted is not None:
            self._list(self.hosted)[self] = None

    def leave(self) -> None:
        if self.hosted is not None:
            self.note_stayed()
            self._list(self.hosted).pop(self, None)

    def _list(self, hosted: HostedPartition) -> dict[Watcher, None]:
        return hosted.followers if self.context.is_follower else hosted.consumers


class FetchContext:
    """What one fetcher requests; with `id` 0 it lasts for one fetch only.

    `news` holds the watches that may have something to send. `entered` states that all watches are registered at their
    topic-partitions. `parked` is the fetch that waits for news.
    """

    __slots__ = (
        "arrived_at", "broker_epoch", "by_id", "counted", "entered", "epoch", "id", "is_follower", "may_join", "news",
        "parked", "replica_id", "watches",
    )  # fmt: skip

    def __init__(self, request: ServerRequest) -> None:
        self.id = 0
        self.epoch = 0
        self.by_id = request.api_version >= TOPIC_IDS_SINCE
        self.replica_id, self.broker_epoch = fetcher_of(request)
        self.is_follower = self.replica_id >= 0
        self.may_join = False
        """Whether the follower's broker might join an ISR at its last fetch, according to metadata (IS-08)."""
        self.arrived_at = request.received_at
        self.watches: dict[_Key, Watch] = {}
        self.counted = 0
        """How many of them are included in `FetchSessions.watched`."""
        self.news: dict[Watch, None] = {}
        self.parked: Parked | None = None
        self.entered = False

    def ask(self, topics: list[FetchTopic], replicas: Replicas) -> None:
        """Add what a fetch names; it is news until it has been answered."""
        for topic in topics:
            name: bytes | str = topic.topic_id if self.by_id else topic.topic
            for wanted in topic.partitions:
                key = (name, wanted.partition)
                watch = self.watches.get(key)
                if watch is None:
                    watch = self.watches[key] = Watch(self, topic, wanted)
                    watch.resolve(replicas)
                else:
                    watch.note_stayed()
                    watch.wanted = wanted
                    if self.is_follower:
                        watch.told_high_watermark = watch.told_log_start = NOTHING_TOLD
                self.news[watch] = None

    def forget(self, topics: list[ForgottenTopic]) -> None:
        for topic in topics:
            name: bytes | str = topic.topic_id if self.by_id else topic.topic
            for number in topic.partitions:
                watch = self.watches.pop((name, number), None)
                if watch is not None:
                    watch.leave()
                    self.news.pop(watch, None)

    def resolve_absent(self, replicas: Replicas) -> None:
        """Look up again what was not found, or is another replica by now: it may have been removed and added again."""
        for watch in self.news:
            if watch.failed or watch.hosted is None or watch.hosted.removed:
                watch.resolve(replicas)

    def enter(self) -> None:
        if not self.entered:
            self.entered = True
            for watch in self.watches.values():
                watch.enter()

    def leave(self) -> None:
        if self.entered:
            self.entered = False
            for watch in self.watches.values():
                watch.leave()


class FetchSessions:
    """All sessions of a broker, the least recently used first."""

    def __init__(
        self,
        slots: int,
        watched_max: int,
        replicas: Replicas,
        rng: Rng,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
    ) -> None:
        self.evicted = 0
        self.watched = 0
        """How many topic-partitions all sessions name; one that several sessions name counts several times."""
        self._watched_max = watched_max
        self._ignores_additions = mutants.has("session-additions-ignored")
        self._slots = slots
        self._replicas = replicas
        self._rng = rng
        self._buggify = buggify
        self._sessions: dict[int, FetchContext] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def all(self) -> Iterable[FetchContext]:
        """The sessions that are kept."""
        return self._sessions.values()

    def find(self, number: int) -> FetchContext | None:
        """The session of this id, if it is kept."""
        return self._sessions.get(number)

    def context_of(self, now: int, request: ServerRequest) -> FetchContext | ErrorCode:
        """Return everything that this fetch requests; first respond to a fetch of its session that is still parked."""
        body = request.body
        assert isinstance(body, FetchRequest)
        if body.session_epoch not in (NEW_SESSION, WITHOUT_SESSION):
            return self._continued(now, request, body)
        self._end(now, body.session_id)
        context = FetchContext(request)
        context.may_join = self._replicas.may_join(context.replica_id)
        context.ask(body.topics, self._replicas)
        if body.session_epoch == NEW_SESSION and context.watches:
            self._begin(now, context)
        return context

    def _begin(self, now: int, context: FetchContext) -> None:
        """Give a context an id, if there is room."""
        while not self._has_room(context):
            if not self._make_room(now, context):
                return
        number = 0
        while number == 0 or number in self._sessions:
            number = self._rng.randrange(1, INT_MAX)
        context.id = number
        context.epoch = 1
        context.enter()
        self._sessions[number] = context
        self._count(context)

    def _count(self, context: FetchContext) -> None:
        """Update the count of topic-partitions that a session names."""
        self.watched += len(context.watches) - context.counted
        context.counted = len(context.watches)

    def _has_room(self, context: FetchContext) -> bool:
        more = len(context.watches) - context.counted
        return len(self._sessions) < self._slots and self.watched + more <= self._most_watched

    @property
    def _most_watched(self) -> int:
        return self._watched_max + WATCHED_PER_HOSTED * len(self._replicas)

    def _make_room(self, now: int, context: FetchContext) -> bool:
        """End another session to make room for this one. Returns whether one was ended and the room may suffice."""
        if len(context.watches) > self._most_watched:
            return False
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now - oldest.arrived_at >= IDLE_BEFORE_EVICTION:
            victim = oldest
        else:
            consumers = (one for one in self._sessions.values() if not one.is_follower)
            found = next(consumers, None) if context.is_follower else None
            if found is None:
                return False
            victim = found
        self._end(now, victim.id)
        self.evicted += 1
        return True

    def _continued(self, now: int, request: ServerRequest, body: FetchRequest) -> FetchContext | ErrorCode:
        if body.session_id in self._sessions and self._buggify.happens("fetch-session-dropped"):
            self._end(now, body.session_id)
        session = self._sessions.get(body.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        replica_id, broker_epoch = fetcher_of(request)
        if session.epoch != body.session_epoch or session.replica_id != replica_id:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != (request.api_version >= TOPIC_IDS_SINCE):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        _answer_parked(now, session)
        session.epoch = session.epoch + 1 if session.epoch < INT_MAX else 1
        self._sessions[session.id] = self._sessions.pop(session.id)
        may_join, could_join = self._replicas.may_join(replica_id), session.may_join
        session.may_join = may_join
        if broker_epoch != session.broker_epoch or (may_join and not could_join):
            session.broker_epoch = broker_epoch
            for watch in session.watches.values():
                watch.touched()
        session.forget(body.forgotten_topics_data)
        waiting = dict(session.news)
        session.ask(body.topics, self._replicas)
        session.arrived_at = now
        if self._ignores_additions:
            session.news = waiting
        session.resolve_absent(self._replicas)
        self._count(session)
        while self.watched > self._most_watched and session.id:
            if not self._make_room(now, session):
                self._end(now, session.id)
        if not session.watches:
            self._end(now, session.id)
        return session

    def _end(self, now: int, number: int) -> None:
        session = self._sessions.get(number)
        if session is not None:
            _answer_parked(now, session)
            del self._sessions[number]
            session.leave()
            session.id = 0
            self.watched -= session.counted
            session.counted = 0


def _answer_parked(now: int, session: FetchContext) -> None:
    if session.parked is not None:
        session.parked.expire(now)


def fetcher_of(request: ServerRequest) -> tuple[int, int]:
    """(replica id, broker epoch) of the fetcher: -1 for a consumer, and for a field that the version lacks."""
    body = request.body
    assert isinstance(body, FetchRequest)
    if request.api_version >= REPLICA_STATE_SINCE:
        return body.replica_state.replica_id, body.replica_state.replica_epoch
    return body.replica_id, -1
