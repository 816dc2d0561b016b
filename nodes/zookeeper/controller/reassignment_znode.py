"""`/admin/reassign_partitions`: the moves that an operator's tool asks for by way of the ensemble.

`kafka-reassign-partitions --zookeeper` of Kafka before 3.0 creates it; Kafka's controller reads it to the end of 3.9,
and so does this one. Its entries go one by one as their moves end or fail, and the znode goes with the last. Only a new
znode is a request: a change of its data is not, since the controller itself writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from squall.nodes.zookeeper.controller.state_store import StateStore
from squall.nodes.zookeeper.session import Code, Delete, Exists, GetData, Operation, SessionResponse, SetData
from squall.nodes.zookeeper.znodes import (
    REASSIGN_PARTITIONS,
    MalformedZnode,
    TopicPartition,
    decode_reassignment,
    encode_reassignment,
)

Moves = dict[TopicPartition, tuple[int, ...]]
"""The replicas that each topic-partition is to have."""
Asked = Generator[Sequence[Operation], list[SessionResponse], Moves]
Steps = Generator[Sequence[Operation], list[SessionResponse], None]


class ReassignmentZnode:
    """See the module. Every method that returns a generator is a part of a procedure (`yield from`)."""

    def __init__(self, store: StateStore, notices: list[str]) -> None:
        self._store = store
        self._notices = notices
        self._processed = 0
        """The transaction that created the znode whose moves were returned last."""
        self._left: Moves = {}

    def new(self) -> Asked:
        """Return the moves of a znode that was not returned before; watch for another one."""
        (found,) = yield [Exists(REASSIGN_PARTITIONS, watch=True)]
        if not found.ok or found.stat is None or found.stat.czxid == self._processed:
            return {}
        self._processed = found.stat.czxid
        (read,) = yield [GetData(REASSIGN_PARTITIONS)]
        self._left = self._decoded(read)
        return dict(self._left)

    def remove(self, ends: Callable[[TopicPartition, tuple[int, ...]], bool]) -> Steps:
        """Take out the moves for which `ends` holds, and the znode with the last. Raises ControllerMoved."""
        while any(ends(*move) for move in self._left.items()):
            (read,) = yield [GetData(REASSIGN_PARTITIONS)]
            self._left = self._decoded(read)
            kept = {key: replicas for key, replicas in self._left.items() if not ends(key, replicas)}
            if read.stat is None or len(kept) == len(self._left):
                return
            version = read.stat.version
            change: SetData | Delete = Delete(REASSIGN_PARTITIONS, version)
            if kept:
                change = SetData(REASSIGN_PARTITIONS, encode_reassignment(kept), version)
            (written,) = yield from self._store.fenced([change])
            if written.code is not Code.BAD_VERSION:
                self._left = kept

    def _decoded(self, read: SessionResponse) -> Moves:
        if not read.ok:
            return {}
        try:
            return decode_reassignment(read.data)
        except MalformedZnode as wrong:
            self._notices.append(f"Ignoring partition reassignment due to invalid json: {wrong}")
            return {}
