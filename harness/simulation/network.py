"""A simulated network of TCP connections, not of messages.

What real TCP shows is what protocols must survive, and no more (research on prototypes: a model that re-delivers a
message of a dead connection reports bugs no system has). So:

* A connection carries whole frames, first in first out, each way. Frames are real Kafka bytes.
* A blocked direction (network partition, receiver deaf to sender) *stalls*: frames wait and arrive after the block is
  lifted, later by up to the length of the stall (retransmission back-off). Nothing is lost inside a connection.
* A connection that has stalled for `user_timeout` is reset; each end learns of it by itself.
* A dead process resets its connections as soon as the reset can reach the other end. Frames already sent are delivered
  before that, or lost with it: the seed decides.
* Connecting needs both directions. Without a listener it is refused, through a block it times out.

Every delivery is folded into `digest`, so two runs of one seed can be compared by one number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Protocol

from squall.harness.simulation.kernel import Kernel, Scheduled

MILLISECOND = 1_000


class Endpoint(Protocol):
    """Who holds one end of a connection: a simulated process or a client."""

    def connected(self, end: ConnectionEnd) -> None: ...

    def delivered(self, end: ConnectionEnd, frame: bytes) -> None: ...

    def disconnected(self, end: ConnectionEnd) -> None: ...


Acceptor = Callable[["ConnectionEnd"], Endpoint]


@dataclass(frozen=True, slots=True)
class NetworkSpeed:
    """Latencies in microseconds, one way. `spike` is a rare slow packet."""

    latency: int = 150
    jitter: int = 250
    spike: int = 30_000
    spike_probability: float = 0.001
    bytes_per_microsecond: int = 1_000
    user_timeout: int = 10_000 * MILLISECOND
    connect_timeout: int = 3_000 * MILLISECOND


@dataclass(slots=True, eq=False)
class ConnectionEnd:
    """One end of a connection. `identity` is never reused and orders connections by age."""

    identity: int
    address: str
    peer_address: str
    port: int
    endpoint: Endpoint | None = None
    peer: ConnectionEnd | None = None
    open: bool = True
    arrivals: deque[bytes] = field(default_factory=deque)
    last_arrival: int = 0
    stalled_since: int | None = None
    timers: list[Scheduled] = field(default_factory=list)


class SimNetwork:
    """All links of a simulated cluster. Addresses are plain strings; blocks are directed (source, destination)."""

    def __init__(self, kernel: Kernel, rng: Random, speed: NetworkSpeed = NetworkSpeed()) -> None:
        self.speed = speed
        self.frames_delivered = 0
        self.resets = 0
        self._kernel = kernel
        self._rng = rng
        self._listeners: dict[tuple[str, int], Acceptor] = {}
        self._blocks: dict[tuple[str, str], dict[str, None]] = {}
        self._slow: dict[tuple[str, str], int] = {}
        self._ends: dict[int, ConnectionEnd] = {}
        self._identities = 0
        self._digest = blake2b(digest_size=16)

    @property
    def digest(self) -> str:
        """A hash of every delivery so far: equal for equal runs."""
        return self._digest.copy().hexdigest()

    def note(self, text: str) -> None:
        """Fold another event of the run into the digest."""
        self._digest.update(f"{self._kernel.now} {text}\n".encode())

    # -- listening and connecting -----------------------------------------------------------------------------

    def listen(self, address: str, port: int, acceptor: Acceptor) -> None:
        """Take connections to (address, port); the acceptor returns the endpoint that owns the new end."""
        self._listeners[(address, port)] = acceptor

    def stop_listening(self, address: str) -> None:
        for key in [key for key in self._listeners if key[0] == address]:
            del self._listeners[key]

    def connect(self, source: str, address: str, port: int, endpoint: Endpoint) -> ConnectionEnd:
        """Open a connection. `endpoint` hears `connected` or `disconnected`, never both for the attempt."""
        near = self._new_end(source, address, port)
        near.endpoint = endpoint
        deadline = self._kernel.now + self.speed.connect_timeout
        self._kernel.after(self._latency(source, address), self._handshake, near, deadline)
        return near

    def _new_end(self, address: str, peer_address: str, port: int) -> ConnectionEnd:
        self._identities += 1
        end = ConnectionEnd(self._identities, address, peer_address, port)
        self._ends[end.identity] = end
        return end

    def _handshake(self, near: ConnectionEnd, deadline: int) -> None:
        if not near.open:
            return
        if self.blocked(near.address, near.peer_address) or self.blocked(near.peer_address, near.address):
            if self._kernel.now >= deadline:
                self._drop(near)
            else:
                self._kernel.at(min(deadline, self._kernel.now + 200 * MILLISECOND), self._handshake, near, deadline)
            return
        acceptor = self._listeners.get((near.peer_address, near.port))
        if acceptor is None:
            self._kernel.after(self._latency(near.peer_address, near.address), self._drop, near)
            return
        far = self._new_end(near.peer_address, near.address, near.port)
        near.peer, far.peer = far, near
        far.endpoint = acceptor(far)
        far.endpoint.connected(far)
        self._kernel.after(self._latency(near.peer_address, near.address), self._established, near)

    def _established(self, near: ConnectionEnd) -> None:
        if near.open and near.endpoint is not None:
            near.last_arrival = max(near.last_arrival, self._kernel.now)
            near.endpoint.connected(near)

    # -- frames -----------------------------------------------------------------------------------------------

    def send(self, end: ConnectionEnd, frame: bytes) -> None:
        """Send one frame; silently lost if the connection is gone, as bytes in a dead socket's buffer are."""
        far = end.peer
        if not end.open or far is None or not far.open:
            return
        far.arrivals.append(frame)
        if self.blocked(end.address, far.address):
            self._stall(far)
            return
        arrival = self._kernel.now + self._latency(end.address, far.address)
        arrival += len(frame) // self.speed.bytes_per_microsecond
        far.last_arrival = max(far.last_arrival + 1, arrival)
        self._kernel.at(far.last_arrival, self._arrive, far)

    def _arrive(self, end: ConnectionEnd) -> None:
        if not end.open or not end.arrivals:
            return
        if self.blocked(end.peer_address, end.address):
            self._stall(end)
            return
        if end.stalled_since is not None:
            return
        frame = end.arrivals.popleft()
        self.frames_delivered += 1
        self._digest.update(b"%d %d %d" % (self._kernel.now, end.identity, len(frame)))
        self._digest.update(frame)
        if end.endpoint is not None:
            end.endpoint.delivered(end, frame)

    def _stall(self, end: ConnectionEnd) -> None:
        if end.stalled_since is None:
            end.stalled_since = self._kernel.now
            timer = self._kernel.after(self.speed.user_timeout, self._stalled_too_long, end, end.stalled_since)
            end.timers.append(timer)

    def _stalled_too_long(self, end: ConnectionEnd, since: int) -> None:
        if end.open and end.stalled_since == since:
            self.reset(end)

    def _resume(self, end: ConnectionEnd) -> None:
        if not end.open or end.stalled_since is None or self.blocked(end.peer_address, end.address):
            return
        end.stalled_since = None
        end.last_arrival = max(end.last_arrival, self._kernel.now)
        for _ in range(len(end.arrivals)):
            end.last_arrival += 1
            self._kernel.at(end.last_arrival, self._arrive, end)

    # -- ends -------------------------------------------------------------------------------------------------

    def close(self, end: ConnectionEnd) -> None:
        """Close one end; the other hears of it after what was sent before, once the network lets it."""
        if not end.open:
            return
        end.open = False
        self._ends.pop(end.identity, None)
        if end.peer is not None and end.peer.open:
            self._tell_of_close(end.peer, self._kernel.now + self.speed.user_timeout)

    def _tell_of_close(self, end: ConnectionEnd, deadline: int) -> None:
        if not end.open:
            return
        blocked = self.blocked(end.peer_address, end.address)
        if blocked and self._kernel.now < deadline:
            self._kernel.after(100 * MILLISECOND, self._tell_of_close, end, deadline)
            return
        if end.arrivals and not blocked and end.stalled_since is not None:
            self._kernel.after(MILLISECOND, self._tell_of_close, end, deadline)
            return
        when = max(end.last_arrival + 1, self._kernel.now + self._latency(end.peer_address, end.address))
        self._kernel.at(when, self._drop, end)

    def reset(self, end: ConnectionEnd) -> None:
        """Tear the connection down at both ends; frames under way in either direction may be lost."""
        self.resets += 1
        for side in (end, end.peer):
            if side is None or not side.open:
                continue
            lost = self._rng.randint(0, len(side.arrivals))
            for _ in range(lost):
                side.arrivals.pop()
            delay = self._latency(side.peer_address, side.address)
            self._kernel.at(max(side.last_arrival + 1, self._kernel.now + delay), self._drop, side)

    def abandon(self, address: str) -> None:
        """The process at this address died: its ends vanish, its peers are told when the network lets them."""
        for end in [end for end in self._ends.values() if end.address == address]:
            if end.peer is not None and end.peer.open:
                for _ in range(self._rng.randint(0, len(end.peer.arrivals))):
                    end.peer.arrivals.pop()
            self.close(end)

    def _drop(self, end: ConnectionEnd) -> None:
        if not end.open:
            return
        end.open = False
        self._ends.pop(end.identity, None)
        for timer in end.timers:
            timer.cancel()
        if end.endpoint is not None:
            end.endpoint.disconnected(end)

    def connections(self, first: str, second: str) -> list[ConnectionEnd]:
        """Open ends at `first` of connections with `second`, oldest first."""
        return [
            e for e in self._ends.values() if e.address == first and e.peer_address == second and e.peer is not None
        ]

    # -- faults -----------------------------------------------------------------------------------------------

    def blocked(self, source: str, destination: str) -> bool:
        return bool(self._blocks.get((source, destination)))

    def block(self, source: str, destination: str, cause: str) -> None:
        """Make `destination` deaf to `source`. Several causes may hold one block; it lasts until all are lifted."""
        self._blocks.setdefault((source, destination), {})[cause] = None

    def unblock(self, cause: str) -> None:
        """Lift whatever `cause` blocks. Stalled connections recover within the length of their stall."""
        for pair in [pair for pair, causes in self._blocks.items() if cause in causes]:
            del self._blocks[pair][cause]
            if not self._blocks[pair]:
                del self._blocks[pair]
                self._recover(*pair)

    def _recover(self, source: str, destination: str) -> None:
        for end in list(self._ends.values()):
            if end.address == destination and end.peer_address == source and end.stalled_since is not None:
                stall = self._kernel.now - end.stalled_since
                self._kernel.after(round(self._rng.random() * stall), self._resume, end)

    def slow_down(self, source: str, destination: str, extra: int) -> None:
        """Add `extra` microseconds to this direction; 0 ends it."""
        if extra:
            self._slow[(source, destination)] = extra
        else:
            self._slow.pop((source, destination), None)

    def _latency(self, source: str, destination: str) -> int:
        speed = self.speed
        drawn = speed.latency + round(self._rng.random() * speed.jitter)
        if self._rng.random() < speed.spike_probability:
            drawn += round(self._rng.random() * speed.spike)
        return drawn + self._slow.get((source, destination), 0)
