"""The settings of topics as this broker knows them: read from the ensemble, and again at each change (Kafka's
ConfigRepository in ZooKeeper mode).

A broker reads the settings of a topic when it first hears of the topic from its controller, before it acts on that
request: with the default min ISR, a leader could commit what the topic's own forbids. Later changes are announced in
`/config/changes`, which every broker watches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from squall.nodes.metadata.records import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.session import Code, GetChildren, GetData, SessionResponse, SessionState, WatchFired
from squall.nodes.zookeeper.znodes import (
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    DEFAULT_ENTITY,
    decode_config,
    decode_config_change,
    topic_config_path,
)

Resource = tuple[int, str]
Changed = Callable[[dict[Resource, dict[str, str]]], None]
"""Called with the settings of resources, as they are now."""


class TopicSettings:
    """See the module."""

    def __init__(self, client: ZooKeeperClient, changed: Changed) -> None:
        self._client = client
        self._changed = changed
        self._known: dict[Resource, None] = {}
        self._seen = ""
        """The newest announcement that was read."""
        client.watchers.append(self)

    def begin(self, now: int) -> None:
        """Watch for announcements, in a new session; read again what may have changed before."""
        self._known.setdefault((BROKER_RESOURCE, CLUSTER_DEFAULT))
        self._look(now)
        self.load(now, list(self._known), lambda now: None)

    def forget(self, topic: str) -> None:
        self._known.pop((TOPIC_RESOURCE, topic), None)

    def load_new(self, now: int, topics: Sequence[str], done: Callable[[int], None]) -> bool:
        """Read the settings of topics that are not known yet; return whether there are any, and `done` is called."""
        new: list[Resource] = [(TOPIC_RESOURCE, one) for one in topics if (TOPIC_RESOURCE, one) not in self._known]
        if new:
            self.load(now, new, done)
        return bool(new)

    def load(self, now: int, resources: Sequence[Resource], done: Callable[[int], None]) -> None:
        def loaded(now: int, responses: list[SessionResponse]) -> None:
            found = {}
            for resource, one in zip(resources, responses, strict=True):
                if one.code in (Code.OK, Code.NO_NODE):
                    self._known[resource] = None
                    found[resource] = decode_config(_path(resource), one.data) if one.ok else {}
            self._changed(found)
            done(now)

        self._client.submit(now, [GetData(_path(one)) for one in resources], loaded)

    # -- announcements --------------------------------------------------------------------------------------------

    def watch_fired(self, now: int, event: WatchFired) -> None:
        if event.path == CONFIG_CHANGES:
            self._look(now)

    def session_changed(self, now: int, state: SessionState) -> None:
        return None

    def _look(self, now: int) -> None:
        def listed(now: int, responses: list[SessionResponse]) -> None:
            new = [name for name in responses[0].children if name > self._seen]
            if new:
                self._seen = new[-1]
                paths = [f"{CONFIG_CHANGES}/{name}" for name in new]
                self._client.submit(now, [GetData(path) for path in paths], announced(paths))

        def announced(paths: Sequence[str]) -> Callable[[int, list[SessionResponse]], None]:
            def read(now: int, responses: list[SessionResponse]) -> None:
                found = (
                    _resource(decode_config_change(path, one.data))
                    for path, one in zip(paths, responses, strict=True)
                    if one.ok
                )
                changed = list(dict.fromkeys(one for one in found if one in self._known))
                if changed:
                    self.load(now, changed, lambda now: None)

            return read

        self._client.submit(now, [GetChildren(CONFIG_CHANGES, watch=True)], listed)


def _resource(entity_path: str) -> Resource | None:
    kind, _, name = entity_path.partition("/")
    if kind == "topics":
        return TOPIC_RESOURCE, name
    return (BROKER_RESOURCE, CLUSTER_DEFAULT) if entity_path == f"brokers/{DEFAULT_ENTITY}" else None


def _path(resource: Resource) -> str:
    kind, name = resource
    return topic_config_path(name) if kind == TOPIC_RESOURCE else f"{BROKER_CONFIGS}/{DEFAULT_ENTITY}"
