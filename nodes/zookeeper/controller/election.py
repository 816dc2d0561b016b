"""Win or learn who is the controller: the first to create `/controller` is it (ZK-01).

One transaction creates the ephemeral `/controller` and raises `/controller_epoch` from the version that was read, so
that each controller has an epoch of its own, and no two have one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from squall.nodes.ports import WallClock
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.controller.context import ControllerContext
from squall.nodes.zookeeper.session import (
    Code,
    Create,
    GetData,
    Multi,
    Operation,
    SessionResponse,
    SetData,
)
from squall.nodes.zookeeper.znodes import CONTROLLER, CONTROLLER_EPOCH, decode_controller, encode_controller

Learned = Generator[Sequence[Operation], list[SessionResponse], int | None]


class Election:
    """See the module."""

    def __init__(self, node: int, client: ZooKeeperClient, context: ControllerContext, clock: WallClock) -> None:
        self._node = node
        self._client = client
        self._context = context
        self._clock = clock

    def learn(self) -> Learned:
        """Return the controller's id, None if there is none; watch for a change."""
        (found,) = yield [GetData(CONTROLLER, watch=True)]
        return decode_controller(found.data) if found.ok else None

    def run(self) -> Learned:
        """Return the id of the controller, perhaps this broker's; None if the attempt has to be repeated."""
        known = yield from self.learn()
        if known is not None and known != self._node:
            return known
        (stored,) = yield [GetData(CONTROLLER_EPOCH)]
        if stored.code is Code.NO_NODE:
            yield [Create(CONTROLLER_EPOCH, b"0")]
            (stored,) = yield [GetData(CONTROLLER_EPOCH)]
        if not stored.ok or stored.stat is None:
            return None
        epoch = int(stored.data) + 1
        data = encode_controller(self._node, self._clock.now_ms())
        yield [
            Multi(
                (
                    Create(CONTROLLER, data, ephemeral=True),
                    SetData(CONTROLLER_EPOCH, str(epoch).encode(), stored.stat.version),
                )
            )
        ]
        return (yield from self._outcome())

    def _outcome(self) -> Learned:
        """Read what holds now: the answer to the transaction may have been lost."""
        found, stored = yield [GetData(CONTROLLER, watch=True), GetData(CONTROLLER_EPOCH)]
        if not (found.ok and stored.ok) or found.stat is None or stored.stat is None:
            return None
        controller = decode_controller(found.data)
        if controller == self._node and found.stat.ephemeral_owner == self._client.session.id:
            self._context.epoch = int(stored.data)
            self._context.epoch_version = stored.stat.version
            return controller
        return None if controller == self._node else controller
