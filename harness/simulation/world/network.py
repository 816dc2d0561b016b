"""A simulated network of TCP connections, not of messages.

It shows what real TCP can show and no more: a model that delivers a message of a dead connection again reports bugs
that no system has. So:

* A connection carries whole frames, first in first out, each way. Frames are real Kafka bytes. Its end is the last
  frame of a direction.
* Latencies have an exponential tail and, rarely, a heavy one; frames behind a late frame are late too.
* A blocked direction (network partition, receiver deaf to sender) *stalls*: frames wait and arrive after the block is
  lifted, later by up to the length of the stall (retransmission back-off). Nothing is lost inside a connection.
  Loss (`Shape`) is a stall as well: of one retransmission timeout, or of several that grow.
* A connection that has stalled for `user_timeout` is reset; each end detects it independently.
* A dead process resets its connections as soon as the reset can reach the other end. Frames already sent are delivered
  before that, or lost with it: the seed decides. After a reset nothing more arrives. Where the reset waits for
  retransmissions after a stall, a frame that is sent to the dead process is answered by another one.
* Connecting needs both directions. Without a listener it is refused, through a block it times out.
* Rules (`RpcRule`) hold or cut single kinds of message where they arrive. A held frame keeps its place, so that frames
  behind it wait too; the connection stays alive meanwhile, as behind a proxy that acknowledges the bytes.

While no fault is open a frame costs one comparison with each table of faults. Every delivery is folded into `digest`,
so that two runs of one seed can be compared by one number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Protocol

from squall.harness.simulation.world.buggify import SeededBuggify
from squall.harness.simulation.world.kernel import Kernel, Scheduled
from squall.harness.simulation.world.links import (
    NetworkSpeed,
    RpcRule,
    Shape,
    ShapedLink,
    api_key_of,
    correlation_of_request,
    correlation_of_response,
    first_concerning,
)

MILLISECOND = 1_000
IDLE = 50 * MILLISECOND
"""How long a connection is idle before `buggify` may reset it."""
LONGEST_TRICKLE = 100 * MILLISECOND


class Endpoint(Protocol):
    """The owner of one end of a connection: a simulated process or a client."""

    def connected(self, end: ConnectionEnd) -> None: ...

    def delivered(self, end: ConnectionEnd, frame: bytes) -> None: ...

    def disconnected(self, end: ConnectionEnd) -> None: ...


Acceptor = Callable[["ConnectionEnd"], Endpoint]
Overhear = Callable[[str, str, int, bytes], None]
"""Receives source, address, port and frame of a request that is delivered."""


@dataclass(slots=True, eq=False)
class ConnectionEnd:
    """One end of a connection. `identity` is never reused and orders connections by age.

    `arrivals` are the frames under way to this end, with the time each is due; None stands for the end of the stream.
    `asked` maps correlation ids of requests sent from here to their API keys, kept only while a rule needs them.
    """

    identity: int
    address: str
    peer_address: str
    port: int
    is_server: bool = False
    endpoint: Endpoint | None = None
    peer: ConnectionEnd | None = None
    open: bool = True
    doomed: bool = False
    arrivals: deque[tuple[int, bytes | None]] = field(default_factory=deque)
    last_arrival: int = 0
    next_arrival: Scheduled | None = None
    stalled_since: int | None = None
    held_by: RpcRule | None = None
    timers: list[Scheduled] = field(default_factory=list)
    asked: dict[bytes, int] = field(default_factory=dict)


class SimNetwork:
    """All links of a simulated cluster. Addresses are plain strings; blocks are directed (source, destination)."""

    def __init__(self, kernel: Kernel, rng: Random, speed: NetworkSpeed | None = None) -> None:
        self.speed = speed or NetworkSpeed()
        self.frames_delivered = 0
        self.resets = 0
        self.frames_lost = 0
        self.buggify: SeededBuggify | None = None
        self.overheard: Overhear | None = None
        self._kernel = kernel
        self._rng = rng
        self._listeners: dict[tuple[str, int], Acceptor] = {}
        self._blocks: dict[tuple[str, str], dict[str, None]] = {}
        self._shaped: dict[tuple[str, str], ShapedLink] = {}
        self._rules: dict[str, RpcRule] = {}
        self._stalls: dict[str, int] = {}
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
        """Accept connections to (address, port); the acceptor returns the endpoint that owns the new end."""
        self._listeners[(address, port)] = acceptor

    def stop_listening(self, address: str) -> None:
        for key in [key for key in self._listeners if key[0] == address]:
            del self._listeners[key]

    def connect(self, source: str, address: str, port: int, endpoint: Endpoint) -> ConnectionEnd:
        """Open a connection. `endpoint` receives `connected` or `disconnected`, never both for the attempt."""
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
        if self.buggify is not None and acceptor is not None and self.buggify.happens("connection-refused"):
            acceptor = None
        if acceptor is None:
            self._kernel.after(self._latency(near.peer_address, near.address), self._drop, near)
            return
        far = self._new_end(near.peer_address, near.address, near.port)
        far.is_server = True
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
        """Send one frame; silently lost if the connection is closed, like bytes in a dead socket's buffer."""
        far = end.peer
        if not end.open or far is None or not far.open or far.doomed:
            self._answer_with_reset(end)
            return
        if self.buggify is not None and self._resets_as_idle(end, far, self.buggify):
            self.reset(end)
            return
        if self._rules and not end.is_server:
            self._remember(end, frame)
        self._put(far, frame, len(frame))

    def _answer_with_reset(self, end: ConnectionEnd) -> None:
        """Answer a frame to an end that is gone: a host resets what it has no connection for.

        The end of the stream is on its way already, and comes first, unless retransmissions wait after a stall.
        """
        if not end.open or end.peer is None or end.stalled_since is None:
            return
        there, here = end.peer_address, end.address
        if not self.blocked(here, there) and not self.blocked(there, here):
            self._kernel.after(self._latency(here, there) + self._latency(there, here), self._drop, end)

    def _resets_as_idle(self, end: ConnectionEnd, far: ConnectionEnd, buggify: SeededBuggify) -> bool:
        idle = self._kernel.now - max(end.last_arrival, far.last_arrival) >= IDLE
        return idle and buggify.happens("idle-connection-reset")

    def _put(self, far: ConnectionEnd, frame: bytes | None, size: int) -> None:
        """Queue a frame behind those that are already under way."""
        speed, now = self.speed, self._kernel.now
        if self._shaped:
            arrival = now + self._latency(far.peer_address, far.address, size)
        else:
            arrival = now + speed.draw(self._rng)
        arrival += size // speed.bytes_per_microsecond
        if self.buggify is not None and self.buggify.happens("frame-trickles"):
            arrival += min(LONGEST_TRICKLE, size * self.buggify.amount("frame-trickles", 5, 50))
        if arrival <= far.last_arrival:
            arrival = far.last_arrival + 1
        far.last_arrival = arrival
        far.arrivals.append((arrival, frame))
        if self._blocks and self.blocked(far.peer_address, far.address):
            self._stall(far)
        elif far.next_arrival is None and far.stalled_since is None and far.held_by is None:
            far.next_arrival = self._kernel.at(arrival, self._arrive, far)

    def _arrive(self, end: ConnectionEnd) -> None:
        """Deliver everything that is due at this end, then wait for the next frame."""
        end.next_arrival = None
        if end.stalled_since is not None or end.held_by is not None:
            return
        now, arrivals = self._kernel.now, end.arrivals
        while arrivals and end.open:
            when, frame = arrivals[0]
            if when > now:
                end.next_arrival = self._kernel.at(when, self._arrive, end)
                return
            if self._blocks and self.blocked(end.peer_address, end.address):
                self._stall(end)
                return
            rule = self._rule_for(end, frame) if self._rules and frame is not None else None
            if rule is not None and not self._let_through(end, rule):
                return
            arrivals.popleft()
            if rule is not None and rule.cuts_after():  # first, so that an immediate response is lost too
                rule.met += 1
                self.reset(end)
            self._deliver(end, frame)

    def _deliver(self, end: ConnectionEnd, frame: bytes | None) -> None:
        if frame is None:
            self._drop(end)
            return
        self.frames_delivered += 1
        self._digest.update(b"%d %d %d%b" % (self._kernel.now, end.identity, len(frame), frame))
        if self.overheard is not None and end.is_server:
            self.overheard(end.peer_address, end.address, end.port, frame)
        if end.endpoint is not None:
            end.endpoint.delivered(end, frame)

    def _stall(self, end: ConnectionEnd) -> None:
        if end.stalled_since is None:
            for cause in self._blocks.get((end.peer_address, end.address), ()):
                self._stalls[cause] = self._stalls.get(cause, 0) + 1
            end.stalled_since = self._kernel.now
            timer = self._kernel.after(self.speed.user_timeout, self._stalled_too_long, end, end.stalled_since)
            end.timers.append(timer)

    def _stalled_too_long(self, end: ConnectionEnd, since: int) -> None:
        if end.open and end.stalled_since == since:
            self.reset(end)

    def _resume(self, end: ConnectionEnd) -> None:
        if end.stalled_since is None or (self._blocks and self.blocked(end.peer_address, end.address)):
            return
        end.stalled_since = None
        self._go_on(end)

    def _go_on(self, end: ConnectionEnd) -> None:
        """Resume arrivals at this end, each frame as soon as it is due."""
        if end.open and end.arrivals and end.next_arrival is None and end.held_by is None:
            end.next_arrival = self._kernel.at(end.arrivals[0][0], self._arrive, end)

    # -- ends -------------------------------------------------------------------------------------------------

    def close(self, end: ConnectionEnd) -> None:
        """Close one end; the other is informed after the frames already sent, once the network permits."""
        if not end.open:
            return
        self._forget(end)
        if end.peer is not None and end.peer.open and not end.peer.doomed:
            self._put(end.peer, None, 0)

    def reset(self, end: ConnectionEnd) -> None:
        """Reset the connection at both ends; frames under way in either direction may be lost."""
        self.resets += 1
        for side in (end, end.peer):
            if side is None or not side.open or side.doomed:
                continue
            self._lose_some(side)
            side.doomed = True
            last = side.arrivals[-1][0] + 1 if side.arrivals else 0
            delay = self._latency(side.peer_address, side.address, 0)
            self._kernel.at(max(last, self._kernel.now + delay), self._drop, side)

    def _lose_some(self, end: ConnectionEnd) -> None:
        """Drop a random number of the frames under way, the latest first. The end of the stream is no frame."""
        frames = [one for one in end.arrivals if one[1] is not None]
        kept = len(frames) - self._rng.randint(0, len(frames))
        self.frames_lost += len(frames) - kept
        end.arrivals.clear()
        end.arrivals.extend(frames[:kept])

    def abandon(self, address: str) -> None:
        """Close all ends of this address, whose process died; its peers are informed when the network permits."""
        for end in [end for end in self._ends.values() if end.address == address]:
            if end.peer is not None and end.peer.open and not end.peer.doomed:
                self._lose_some(end.peer)
            self.close(end)

    def _drop(self, end: ConnectionEnd) -> None:
        if not end.open:
            return
        self._forget(end)
        if end.endpoint is not None:
            end.endpoint.disconnected(end)

    def _forget(self, end: ConnectionEnd) -> None:
        end.open = False
        self.frames_lost += sum(1 for _, frame in end.arrivals if frame is not None)
        end.arrivals.clear()
        self._ends.pop(end.identity, None)
        for timer in end.timers:
            timer.cancel()

    def connections(self, first: str, second: str) -> list[ConnectionEnd]:
        """Return the open ends at `first` of connections with `second`, oldest first."""
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
        """Lift every block of `cause`. Stalled connections recover within the length of their stall."""
        for pair in [pair for pair, causes in self._blocks.items() if cause in causes]:
            del self._blocks[pair][cause]
            if not self._blocks[pair]:
                del self._blocks[pair]
                self._recover(*pair)

    def stalls_of(self, cause: str) -> int:
        """Return how many directions of connections a cause has stalled so far, alone or with others."""
        return self._stalls.get(cause, 0)

    def _recover(self, source: str, destination: str) -> None:
        for end in list(self._ends.values()):
            if end.address == destination and end.peer_address == source and end.stalled_since is not None:
                stall = self._kernel.now - end.stalled_since
                self._kernel.after(round(self._rng.random() * stall), self._resume, end)

    def shape(self, source: str, destination: str, cause: str, shape: Shape) -> None:
        """Change what one direction of a link does to its messages, until `unshape(cause)`."""
        self._shaped.setdefault((source, destination), ShapedLink()).add(cause, shape)

    def unshape(self, cause: str) -> tuple[int, int]:
        """Remove the shapes of this cause. Return how many messages passed shaped links and how many were resent."""
        messages = retransmissions = 0
        for pair, link in list(self._shaped.items()):
            if link.remove(cause):
                messages += link.messages
                retransmissions += link.retransmissions
            if link.empty:
                del self._shaped[pair]
        return messages, retransmissions

    def probe(self, source: str, destination: str, size: int) -> int | None:
        """Return how long a datagram of this size takes, or None if it never arrives; not counted as traffic."""
        if self.blocked(source, destination):
            return None
        taken = self.speed.draw(self._rng)
        link = self._shaped.get((source, destination))
        if link is not None:
            queue = link.free_at
            taken += link.passing(self._kernel.now, size, self._rng)
            link.messages -= 1
            link.free_at = queue
        return taken

    def _latency(self, source: str, destination: str, size: int = 0) -> int:
        taken = self.speed.draw(self._rng)
        if self._shaped:
            link = self._shaped.get((source, destination))
            if link is not None:
                taken += link.passing(self._kernel.now, size, self._rng)
        return taken

    # -- rules about single messages --------------------------------------------------------------------------

    def add_rule(self, cause: str, rule: RpcRule) -> None:
        """Hold or cut matching messages from now on. Responses to requests sent before are not recognised."""
        self._rules[cause] = rule

    def remove_rule(self, cause: str) -> None:
        """End a rule; the frames that it holds continue."""
        rule = self._rules.pop(cause, None)
        for end in list(self._ends.values()):
            if not self._rules:
                end.asked.clear()
            if rule is not None and end.held_by is rule:
                end.held_by = None
                self._go_on(end)

    def waiting(self, rule: RpcRule) -> int:
        """Return how many messages a rule holds now."""
        return sum(1 for end in self._ends.values() if end.held_by is rule)

    def _remember(self, end: ConnectionEnd, request: bytes) -> None:
        """Record the API of a request whose response a rule may match later."""
        key = api_key_of(request)
        if any(rule.responses and rule.api_key == key for rule in self._rules.values()):
            end.asked[correlation_of_request(request)] = key

    def _rule_for(self, end: ConnectionEnd, frame: bytes) -> RpcRule | None:
        """Return the rule that applies to the frame arriving at this end."""
        if end.is_server:
            return first_concerning(self._rules.values(), end.peer_address, end.address, api_key_of(frame), False)
        key = end.asked.get(correlation_of_response(frame))
        if key is None:
            return None
        return first_concerning(self._rules.values(), end.address, end.peer_address, key, True)

    def _let_through(self, end: ConnectionEnd, rule: RpcRule) -> bool:
        """Return whether the frame at the head may arrive; otherwise hold it, or lose it with its connection."""
        if rule.holds:
            rule.met += 1
            end.held_by = rule
            return False
        if not rule.cuts_before():
            return True
        rule.met += 1
        self.frames_lost += sum(1 for _, frame in end.arrivals if frame is not None)
        end.arrivals.clear()
        self.reset(end)
        return False
