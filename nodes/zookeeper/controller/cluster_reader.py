"""Read the ensemble into the controller's context, and watch what may change (ZK-04, ZK-12).

Watches fire once. Each read of a list of children sets the watch again, in the same operation, so that no change
between the two is lost.

Mutant: `watch-not-set-again` in `_children`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.zookeeper.controller.context import ControllerContext
from squall.nodes.zookeeper.controller.state_store import StateStore
from squall.nodes.zookeeper.session import Code, GetChildren, GetData, Operation, SessionResponse
from squall.nodes.zookeeper.znodes import (
    BROKER_CONFIGS,
    BROKER_IDS,
    DEFAULT_ENTITY,
    DELETE_TOPICS,
    ISR_CHANGES,
    TOPICS,
    BrokerZnode,
    TopicZnode,
    broker_path,
    decode_broker,
    decode_config,
    decode_topic,
    topic_path,
)

Brokers = Generator[Sequence[Operation], list[SessionResponse], dict[int, BrokerZnode]]
Names = Generator[Sequence[Operation], list[SessionResponse], list[str]]
Steps = Generator[Sequence[Operation], list[SessionResponse], None]
Topics = Generator[Sequence[Operation], list[SessionResponse], dict[str, TopicZnode]]


class ClusterReader:
    """See the module. `defaults` are the cluster's settings of topics, as last read."""

    def __init__(self, context: ControllerContext, store: StateStore, mutants: Mutants = HEALTHY) -> None:
        self.defaults: dict[str, str] = {}
        self._context = context
        self._store = store
        self._mutants = mutants
        self._watched: dict[str, None] = {}

    def begin(self) -> None:
        """A new controller begins: it has set no watch yet."""
        self._watched.clear()

    def everything(self) -> Steps:
        """Read brokers, topics, states and the cluster's settings into the context, which must be empty."""
        context = self._context
        context.brokers = yield from self.brokers()
        names = yield from self._children(TOPICS)
        yield from self.load_topics(names)
        context.states = yield from self._store.read(list(context.partitions()))
        yield from self.load_defaults()

    def load_defaults(self) -> Steps:
        path = f"{BROKER_CONFIGS}/{DEFAULT_ENTITY}"
        (found,) = yield [GetData(path)]
        self.defaults = decode_config(path, found.data) if found.code is Code.OK else {}

    def brokers(self) -> Brokers:
        """The brokers that live, ordered by id."""
        names = yield from self._children(BROKER_IDS)
        if not names:
            return {}
        ids = sorted(int(name) for name in names)
        responses = yield [GetData(broker_path(one)) for one in ids]
        return {
            one: decode_broker(one, found.data, found.stat.czxid)
            for one, found in zip(ids, responses, strict=True)
            if found.ok and found.stat is not None
        }

    def topic_names(self) -> Names:
        return (yield from self._children(TOPICS))

    def topics_to_delete(self) -> Names:
        return (yield from self._children(DELETE_TOPICS))

    def isr_changes(self) -> Names:
        """The names of the notifications of leaders, in order."""
        return (yield from self._children(ISR_CHANGES))

    def load_topics(self, names: Iterable[str]) -> Steps:
        """Read the assignments of topics into the context."""
        found = yield from self.read_topics(names)
        for name, topic in found.items():
            self._context.topic_ids[name] = topic.id
            self._context.assignments[name] = dict(topic.assignments)

    def read_topics(self, names: Iterable[str]) -> Topics:
        names = list(names)
        if not names:
            return {}
        responses = yield [GetData(topic_path(name), watch=True) for name in names]
        found = {}
        for name, one in zip(names, responses, strict=True):
            if one.ok and one.stat is not None:
                self._context.topic_versions[name] = one.stat.version
                found[name] = decode_topic(name, one.data)
        return found

    def _children(self, path: str) -> Names:
        """The sorted names of children; the watch is set with the read."""
        watch = not (self._mutants.has("watch-not-set-again") and path in self._watched)
        self._watched[path] = None
        (found,) = yield [GetChildren(path, watch=watch)]
        return list(found.children)
