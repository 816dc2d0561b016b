"""Record the messages of a simulated cluster, and find those that one response waited for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random

from squall.harness.simulation.world.kernel import Kernel
from squall.harness.simulation.world.network import ConnectionEnd, SimNetwork
from squall.nodes.protocol.messages import ApiKey


@dataclass(slots=True)
class Frame:
    """One message: from where to where, when it was sent and arrived, its API; None for a response."""

    source: str
    target: str
    sent: int
    api: ApiKey | None
    arrived: int = -1
    marked: bool = False
    """Whether it contains the marker of the network."""


class RecordingNetwork(SimNetwork):
    """The simulated network, with a list of all messages that arrived. It changes nothing."""

    def __init__(self, kernel: Kernel, rng: Random) -> None:
        super().__init__(kernel, rng)
        self.frames: list[Frame] = []
        self.marker: bytes | None = None
        """The bytes by which messages are marked; None marks none."""
        self._under_way: dict[int, deque[Frame]] = {}

    def send(self, end: ConnectionEnd, frame: bytes) -> None:
        far = end.peer
        if end.open and far is not None and far.open and not far.doomed:
            api = None if end.is_server else ApiKey(int.from_bytes(frame[:2], "big"))
            marked = self.marker is not None and self.marker in frame
            sent = Frame(end.address, end.peer_address, self._kernel.now, api, marked=marked)
            self._under_way.setdefault(far.identity, deque()).append(sent)
        super().send(end, frame)

    def _deliver(self, end: ConnectionEnd, frame: bytes | None) -> None:
        waiting = self._under_way.get(end.identity)
        if frame is not None and waiting:
            arrived = waiting.popleft()
            arrived.arrived = self._kernel.now
            self.frames.append(arrived)
        super()._deliver(end, frame)


def path_to(frames: list[Frame], last: Frame, origin: str) -> list[Frame]:
    """The chain of messages that ends with `last` and begins with one from `origin`, each the reason for the next.

    A node sends because of what it received last. In a quiet cluster that is true of every message but heartbeats.
    """
    chain = [last]
    while chain[0].source != origin:
        before = [one for one in frames if one.target == chain[0].source and one.arrived <= chain[0].sent]
        chain.insert(0, max(before, key=lambda one: one.arrived))
    return chain
