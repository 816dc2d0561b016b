"""The links between racks of a local lab: delays, loses and limits the packets routed over them.

    python3 -u program.py link.link_switch --links JSON --ready DESCRIPTOR

`--links` is a list of `{"from": network, "to": network, "shape": …}`, each one direction; shapes and calculation are
those of link faults (`link_shapes.py`). But this is no fault: it is part of the lab, runs in the namespace of its
router and not on a host, has no time to live and no journal, and ends with the lab. All hosts of two racks share one
link in each direction, as they would share the cable: its bandwidth, and the order of its packets.

Rules queue what is forwarded from one network to the other, without `bypass`: if this process dies, no packet passes
between racks; otherwise all would pass, as if the racks were one. The lab's init then ends the lab (`supervisor.py`).
No sending socket waits for forwarded packets, so they may wait in the kernel in both directions. Segments that a
network card would split are split where some must be lost, so that losing one loses no more than on a wire.

It writes `+` to the descriptor when it is at work, or the reason why it cannot be.
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
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.link.link_shapes import Link, Shape, checked_shape
from squall.nemesis.agent.link.nfqueue import ACCEPT, DROP, HEADERS_ONLY, Packet, Queue, find_driver, program

AT_ONCE = 256
URGENCY = -10
IDLE_SECONDS = 60.0


@dataclass(frozen=True)
class Way:
    """One direction between two racks."""

    source: ipaddress.IPv4Network
    target: ipaddress.IPv4Network
    shape: Shape


def ways_from(told: Sequence[dict[str, Any]]) -> list[Way]:
    """Parse `--links`. Raises VerbError."""
    return [
        Way(
            ipaddress.IPv4Network(one["from"]),
            ipaddress.IPv4Network(one["to"]),
            checked_shape(f"{one['from']} to {one['to']}", {**one["shape"], "peers": [one["from"]]}),
        )
        for one in told
    ]


def nft_script(ways: Sequence[Way], number: int) -> str:
    rules = [f"    ip saddr {way.source} ip daddr {way.target} queue num {number}" for way in ways]
    hook = "    type filter hook forward priority -150; policy accept;"
    return "\n".join(["table inet squall_racks {", "  chain between {", hook, *rules, "  }", "}", ""])


def iptables_script(ways: Sequence[Way], number: int) -> str:
    """Input of `iptables-restore --noflush`."""
    rules = [f"-A FORWARD -s {way.source} -d {way.target} -j NFQUEUE --queue-num {number}" for way in ways]
    return "\n".join(["*mangle", *rules, "COMMIT", ""])


def lead_here(ways: Sequence[Way], number: int) -> None:
    """Write the rules. Raises VerbError where this machine has no firewall that queues."""
    driver, cannot = find_driver()
    if driver is None:
        raise VerbError("unsupported", cannot)
    if driver == "nft":
        command, script = [program("nft") or "nft", "-f", "-"], nft_script(ways, number)
    else:
        command = [program("iptables-restore") or "iptables-restore", "-w", "--noflush"]
        script = iptables_script(ways, number)
    done = subprocess.run(command, input=script, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise VerbError("failed", f"{driver}: {done.stderr.strip()}")


class Crossing:
    """Receives packets from rack to rack and passes them on later."""

    def __init__(self, ways: Sequence[Way]) -> None:
        rng = random.Random()
        self.queue = Queue(HEADERS_ONLY, whole_segments=all(way.shape.only_delays for way in ways))
        self._links = [(way, Link([way.shape], rng)) for way in ways]
        self._found: dict[bytes, Link | None] = {}
        self._held: list[tuple[float, int, Packet]] = []
        self._count = itertools.count()

    def work(self) -> None:
        """Release packets that are due and receive queued ones, or wait for either."""
        self._release(time.monotonic())
        timeout = max(0.0, self._held[0][0] - time.monotonic()) if self._held else IDLE_SECONDS
        if select.select([self.queue], [], [], timeout)[0]:
            for packet in self.queue.receive(AT_ONCE):
                self._take(packet)

    def _release(self, now: float) -> None:
        while self._held and self._held[0][0] <= now:
            self.queue.give(heapq.heappop(self._held)[2], ACCEPT)

    def _take(self, packet: Packet) -> None:
        link = self._link(packet.payload[12:20])
        due = time.monotonic() if link is None else link.passes_at(time.monotonic(), packet.length)
        if due is None:
            self.queue.give(packet, DROP)
        else:
            heapq.heappush(self._held, (due, next(self._count), packet))

    def _link(self, addresses: bytes) -> Link | None:
        """The link of a packet, by its source and target; None for a packet that the rules should not have queued."""
        if addresses not in self._found:
            source, target = ipaddress.IPv4Address(addresses[:4]), ipaddress.IPv4Address(addresses[4:])
            fitting = (link for way, link in self._links if source in way.source and target in way.target)
            self._found[addresses] = next(fitting, None)
        return self._found[addresses]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="squall's links between racks, started by a lab")
    parser.add_argument("--links", required=True, help="JSON")
    parser.add_argument("--ready", type=int, required=True, help="descriptor to write + to when it is at work")
    options = parser.parse_args(argv)
    with contextlib.suppress(OSError):  # without the right to it, it is only slightly less punctual
        os.setpriority(os.PRIO_PROCESS, 0, URGENCY)
    try:
        ways = ways_from(json.loads(options.links))
        crossing = Crossing(ways)
        lead_here(ways, crossing.queue.number)
    except (VerbError, OSError) as trouble:
        os.write(options.ready, str(trouble.error if isinstance(trouble, VerbError) else trouble).encode())
        return 1
    os.write(options.ready, b"+")
    os.close(options.ready)
    while True:
        crossing.work()
