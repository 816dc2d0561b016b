"""A tree of znodes as every server of an ensemble holds it: operations in, responses and changes out. Pure.

Semantics are ZooKeeper's (`nodes.zookeeper.session`): versions, sequential names, ephemeral nodes, transactions.
Servers that apply the same operations in the same order hold the same tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from squall.nodes.zookeeper.session import (
    ANY_VERSION,
    Check,
    Code,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Operation,
    SessionResponse,
    SetData,
    Stat,
    Sync,
    WatchFired,
    WatchType,
)


@dataclass(slots=True)
class Znode:
    """One node of the tree."""

    data: bytes
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    owner: int = 0
    version: int = 0
    cversion: int = 0
    pzxid: int = 0
    sequence: int = 0
    children: dict[str, None] = field(default_factory=dict)

    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime=self.ctime,
            mtime=self.mtime,
            version=self.version,
            cversion=self.cversion,
            ephemeral_owner=self.owner,
            data_length=len(self.data),
            num_children=len(self.children),
            pzxid=self.pzxid,
        )


def is_write(operation: Operation) -> bool:
    return isinstance(operation, Create | Delete | SetData | Multi | Sync)


class ZnodeTree:
    """See the module. `zxid` is the last transaction that was applied."""

    def __init__(self) -> None:
        self.zxid = 0
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0, 0)}

    # -- reads ----------------------------------------------------------------------------------------------------

    def read(self, operation: Operation) -> SessionResponse:
        assert isinstance(operation, Exists | GetData | GetChildren)
        node = self.nodes.get(operation.path)
        if node is None:
            return SessionResponse(Code.NO_NODE, zxid=self.zxid)
        data = node.data if isinstance(operation, GetData) else b""
        children = tuple(sorted(node.children)) if isinstance(operation, GetChildren) else ()
        return SessionResponse(Code.OK, data=data, children=children, stat=node.stat(), zxid=self.zxid)

    # -- writes ---------------------------------------------------------------------------------------------------

    def write(
        self, operation: Operation, session: int, zxid: int, now_ms: int
    ) -> tuple[SessionResponse, list[WatchFired]]:
        """Apply a write as this transaction. Return the response and what has changed, in order."""
        self.zxid = zxid
        changes: list[WatchFired] = []
        if isinstance(operation, Sync):
            return SessionResponse(Code.OK, path=operation.path, zxid=zxid), changes
        if not isinstance(operation, Multi):
            code = self._checked(operation, session)
            if code is not Code.OK:
                return SessionResponse(code, zxid=zxid), changes
            return self._applied(operation, session, now_ms, changes), changes
        return self._transaction(operation, session, now_ms, changes), changes

    def _transaction(self, operation: Multi, session: int, now_ms: int, changes: list[WatchFired]) -> SessionResponse:
        before: dict[str, Znode | None] = {}
        results: list[SessionResponse] = []
        for number, one in enumerate(operation.operations):
            code = self._checked(one, session)
            if code is not Code.OK:
                self._restore(before)
                changes.clear()
                rest = len(operation.operations) - number - 1
                return SessionResponse(
                    code,
                    results=(
                        *(SessionResponse(Code.OK) for _ in range(number)),
                        SessionResponse(code),
                        *(SessionResponse(Code.RUNTIME_INCONSISTENCY) for _ in range(rest)),
                    ),
                    zxid=self.zxid,
                )
            self._save(one, before)
            results.append(self._applied(one, session, now_ms, changes))
        return SessionResponse(Code.OK, results=tuple(results), zxid=self.zxid)

    def _save(self, operation: Create | Delete | SetData | Check, before: dict[str, Znode | None]) -> None:
        """Keep the nodes that an operation will change, unless they are kept already."""
        above = _parent(operation.path)
        path = self._path(operation, self.nodes[above]) if isinstance(operation, Create) else operation.path
        for one in (path, above):
            if one not in before:
                node = self.nodes.get(one)
                before[one] = None if node is None else _copy(node)

    def _restore(self, before: dict[str, Znode | None]) -> None:
        for path, node in before.items():
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node

    def _checked(self, operation: Operation, session: int) -> Code:
        match operation:
            case Create():
                parent = self.nodes.get(_parent(operation.path))
                if parent is None:
                    return Code.NO_NODE
                if parent.owner:
                    return Code.NO_CHILDREN_FOR_EPHEMERALS
                return Code.NODE_EXISTS if self._path(operation, parent) in self.nodes else Code.OK
            case Delete() | SetData() | Check():
                node = self.nodes.get(operation.path)
                if node is None:
                    return Code.NO_NODE
                if operation.version not in (ANY_VERSION, node.version):
                    return Code.BAD_VERSION
                return Code.NOT_EMPTY if isinstance(operation, Delete) and node.children else Code.OK
        return Code.BAD_ARGUMENTS

    def _applied(self, operation: Operation, session: int, now_ms: int, changes: list[WatchFired]) -> SessionResponse:
        match operation:
            case Create():
                return self._create(operation, session, now_ms, changes)
            case Delete():
                self._delete(operation.path, changes)
            case SetData():
                node = self.nodes[operation.path]
                node.data, node.mzxid, node.mtime = operation.data, self.zxid, now_ms
                node.version += 1
                changes.append(WatchFired(WatchType.NODE_DATA_CHANGED, operation.path))
                return SessionResponse(Code.OK, stat=node.stat(), zxid=self.zxid)
        return SessionResponse(Code.OK, zxid=self.zxid)

    def _create(self, operation: Create, session: int, now_ms: int, changes: list[WatchFired]) -> SessionResponse:
        above = _parent(operation.path)
        parent = self.nodes[above]
        path = self._path(operation, parent)
        owner = session if operation.ephemeral else 0
        self.nodes[path] = Znode(operation.data, self.zxid, self.zxid, now_ms, now_ms, owner, pzxid=self.zxid)
        parent.children[path.rpartition("/")[2]] = None
        parent.sequence += 1
        parent.cversion += 1
        parent.pzxid = self.zxid
        changes.append(WatchFired(WatchType.NODE_CREATED, path))
        changes.append(WatchFired(WatchType.NODE_CHILDREN_CHANGED, above))
        return SessionResponse(Code.OK, path=path, zxid=self.zxid)

    @staticmethod
    def _path(operation: Create, parent: Znode) -> str:
        return f"{operation.path}{parent.sequence:010d}" if operation.sequential else operation.path

    def _delete(self, path: str, changes: list[WatchFired]) -> None:
        above = _parent(path)
        del self.nodes[path]
        parent = self.nodes[above]
        parent.children.pop(path.rpartition("/")[2], None)
        parent.cversion += 1
        parent.pzxid = self.zxid
        changes.append(WatchFired(WatchType.NODE_DELETED, path))
        changes.append(WatchFired(WatchType.NODE_CHILDREN_CHANGED, above))

    def end_session(self, session: int, zxid: int) -> list[WatchFired]:
        """Delete the ephemeral nodes of a session. Return what has changed."""
        self.zxid = zxid
        changes: list[WatchFired] = []
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            self._delete(path, changes)
        return changes

    def below(self, path: str) -> Iterator[str]:
        """The paths of a node's children."""
        node = self.nodes.get(path)
        for name in sorted(node.children) if node is not None else ():
            yield f"{path}/{name}"


def _copy(node: Znode) -> Znode:
    return Znode(
        node.data, node.czxid, node.mzxid, node.ctime, node.mtime, node.owner, node.version, node.cversion, node.pzxid,
        node.sequence, dict(node.children),
    )  # fmt: skip


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
