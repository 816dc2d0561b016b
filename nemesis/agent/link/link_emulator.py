"""The link emulator: a process that delays, loses, limits and damages the packets queued for it.

    python3 -u program.py link.link_emulator --state DIR --shapes JSON --ready DESCRIPTOR

Not netem: few kernels for virtual machines have it, and it shapes only what goes out.

The firewall queues the packets (`link_rules.py`). The emulator's shapes are fixed; for other shapes another emulator
replaces it (`link_shaping.py`). It is a separate process so that packets delay neither agent nor keeper, nor these the
packets.

*Inward* packets wait in the kernel for their verdict; only their headers are copied. *Outward* TCP segments are copied
whole, dropped from the kernel's queue and sent later: as long as the kernel holds a segment that was not sent, it
counts against the socket, and a sender with a few of them stops (TCP small queues), which would turn a slow link into a
narrow one. Other outward packets wait like inward ones. Segments that the network card would split are split before, so
that losing one loses no more than on a wire. Only where inward packets are just delayed they stay whole, which is ten
times faster. Where packets must be duplicated or damaged, inward ones are copied whole too.

The emulator sends the copy of a duplicated packet right behind the original. A damaged one has one bit changed and
keeps its checksum (`link_damage.py`), so that the receiver's kernel drops it.

The emulator ends when none of its faults is open and within its time to live, whichever other processes have died: it
reads the journal. Each fault stops to count when it is over. On SIGTERM it releases at once all that it holds. If it is
killed, the kernel drops what it held, and the rules let everything else pass.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import ipaddress
import itertools
import json
import os
import random
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from squall.nemesis.agent.core.journal import Journal, boot_id, write_durably
from squall.nemesis.agent.core.processes import read_stat
from squall.nemesis.agent.link.link_damage import damaged
from squall.nemesis.agent.link.link_rules import MARK
from squall.nemesis.agent.link.link_shapes import Link, Passage, Shape, shape_from
from squall.nemesis.agent.link.nfqueue import ACCEPT, DROP, HEADERS_ONLY, OUTPUT, WHOLE_PACKET, Packet, Queue

GLANCE = 0.2
AT_ONCE = 256
URGENCY = -10
TCP = 6
IPV6_HEADER_BYTES = 40
SO_MARK = 36

Release = Callable[[], None]


class Resender:
    """Sends whole IP packets, exempt from the agent's rules."""

    def __init__(self) -> None:
        self._four = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self._six = self._raw_six()
        for one in (self._four, self._six):
            if one is not None:
                one.setsockopt(socket.SOL_SOCKET, SO_MARK, MARK)

    def _raw_six(self) -> socket.socket | None:
        with contextlib.suppress(OSError):  # a host without IPv6 has no such packets
            return socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
        return None

    def send(self, payload: bytes) -> None:
        """Send a packet. If the network refuses it, it is lost, as on a wire."""
        with contextlib.suppress(OSError):
            if payload[0] >> 4 == 4:
                self._four.sendto(payload, (socket.inet_ntoa(payload[16:20]), 0))
            elif self._six is not None:
                self._six.sendto(payload, (socket.inet_ntop(socket.AF_INET6, payload[24:40]), 0))


def is_tcp(payload: bytes) -> bool:
    return payload[9] == TCP if payload[0] >> 4 == 4 else payload[6] == TCP and len(payload) > IPV6_HEADER_BYTES


def peer_in(payload: bytes, outward: bool) -> bytes:
    """The address at the other end."""
    if payload[0] >> 4 == 4:
        return payload[16:20] if outward else payload[12:16]
    return payload[24:40] if outward else payload[8:24]


class Links:
    """All links, created when the first packet arrives."""

    def __init__(self, shapes: list[Shape], rng: random.Random) -> None:
        self._shapes = shapes
        self._rng = rng
        self._links: dict[tuple[bool, bytes], Link | None] = {}

    def keep_only(self, open: set[str]) -> bool:
        """Drop the shapes of faults that are over. Returns whether any is left."""
        kept = [shape for shape in self._shapes if shape.id in open]
        if kept != self._shapes:
            self._shapes, self._links = kept, {}
        return bool(kept)

    def find(self, outward: bool, peer: bytes) -> Link | None:
        """The link to that peer; None if no shape concerns it."""
        key = (outward, peer)
        if key not in self._links:
            address, direction = ipaddress.ip_address(peer), "out" if outward else "in"
            shapes = [shape for shape in self._shapes if shape.concerns(direction, address)]
            self._links[key] = Link(shapes, self._rng) if shapes else None
        return self._links[key]


class Emulator:
    """Receives packets and passes them on later."""

    def __init__(self, shapes: list[Shape]) -> None:
        only_late = all(shape.only_delays for shape in shapes)
        copied = WHOLE_PACKET if any(shape.needs_content for shape in shapes) else HEADERS_ONLY
        self.inward = Queue(copied, whole_segments=only_late)
        self.outward = Queue(WHOLE_PACKET)
        self._rng = random.Random()
        self.links = Links(shapes, self._rng)
        self._resender = Resender()
        self._held: list[tuple[float, int, Release]] = []
        self._count = itertools.count()

    def work(self, until: float, wake: socket.socket) -> bool:
        """Handle packets until that time. Returns whether SIGTERM arrived."""
        while (now := time.monotonic()) < until:
            self._release(now)
            next_due = self._held[0][0] if self._held else until
            timeout = max(0.0, min(until, next_due) - time.monotonic())
            ready, _, _ = select.select([self.inward.fileno(), self.outward.fileno(), wake.fileno()], [], [], timeout)
            if wake.fileno() in ready:
                return True
            for queue in (self.inward, self.outward):
                if queue.fileno() in ready:
                    self._take(queue)
        return False

    def let_go(self) -> None:
        """Release everything that is held or queued at once, in order."""
        self._release(float("inf"))
        for queue in (self.inward, self.outward):
            while waiting := queue.receive(AT_ONCE):
                for packet in waiting:
                    queue.give(packet, ACCEPT)

    def _release(self, now: float) -> None:
        while self._held and self._held[0][0] <= now:
            heapq.heappop(self._held)[2]()

    def _take(self, queue: Queue) -> None:
        for packet in queue.receive(AT_ONCE):
            outward = packet.hook == OUTPUT
            link = self.links.find(outward, peer_in(packet.payload, outward))
            if link is None:
                queue.give(packet, ACCEPT)
                continue
            passage = link.passage(time.monotonic(), packet.length)
            if passage is None:
                queue.give(packet, DROP)
                continue
            self._hold(passage.due, self._sent_on(queue, packet, outward, passage))
            if passage.twice:
                self._hold(passage.due, partial(self._resender.send, packet.payload))

    def _hold(self, due: float, release: Release) -> None:
        heapq.heappush(self._held, (due, next(self._count), release))

    def _sent_on(self, queue: Queue, packet: Packet, outward: bool, passage: Passage) -> Release:
        """How to pass on the packet when its time has come."""
        payload = damaged(packet.payload, self._rng) if passage.damaged else packet.payload
        if outward and is_tcp(payload):
            queue.give(packet, DROP)
            return partial(self._resender.send, payload)
        if passage.damaged:
            return partial(queue.give_changed, packet, payload)
        return partial(queue.give, packet, ACCEPT)


@contextlib.contextmanager
def record_of(directory: Path, emulator: Emulator, shapes: list[Shape]) -> Iterator[None]:
    """Keep a record of this emulator while it runs; durable before the emulator reports that it is ready."""
    pid = os.getpid()
    found = read_stat(pid)
    path = directory / f"{pid}.json"
    record = {
        "pid": pid,
        "started": found[1] if found else 0,
        "inward": emulator.inward.number,
        "outward": emulator.outward.number,
        "shapes": [shape.as_json() for shape in shapes],
    }
    write_durably(path, json.dumps(record))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def open_faults(journal: Journal) -> set[str]:
    """The ids of faults that are open and within their time to live."""
    now, boot = journal.monotonic(), boot_id()
    return {entry.id for entry in journal.entries() if not entry.expired(now, boot)}


def woken_by_signal() -> socket.socket:
    """A socket that becomes readable on SIGTERM."""
    wake, waking = socket.socketpair()
    waking.setblocking(False)
    signal.set_wakeup_fd(waking.detach())
    signal.signal(signal.SIGTERM, lambda *_: None)
    return wake


def emulate(state: Path, shapes: list[Shape], ready: int) -> None:
    """Run the emulator until none of its faults is open."""
    journal, wake = Journal(state), woken_by_signal()
    emulator = Emulator(shapes)
    with record_of(state / "emulators", emulator, shapes):
        os.write(ready, b"+")
        os.close(ready)
        while emulator.links.keep_only(open_faults(journal)):
            if emulator.work(time.monotonic() + GLANCE, wake):
                break
        emulator.let_go()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="squall's link emulator, started by the host agent")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--shapes", required=True, help="JSON")
    parser.add_argument("--ready", type=int, required=True, help="descriptor to write + to when it is at work")
    options = parser.parse_args(argv)
    os.setsid()
    with contextlib.suppress(OSError):  # without the right to it, it is only slightly less punctual
        os.setpriority(os.PRIO_PROCESS, 0, URGENCY)
    emulate(options.state, [shape_from(told) for told in json.loads(options.shapes)], options.ready)
    return 0
