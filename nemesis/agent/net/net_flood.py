"""`net.flood`: this host sends unwanted datagrams to another one, at a given number of bytes a second.

They go to the discard port, where no process listens, and take network and kernel time from wanted traffic. A separate
fault worker sends them. `probe.traffic` reports what an interface of this host has received and sent so far: the
arrival of the flood is measured at its target, not at its source.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from typing import Any

from squall.nemesis.agent.core.arguments import number, text
from squall.nemesis.agent.core.fault_workers import CarriedOutByWorker, FaultWorker, run_fault_worker
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.net.interface_down import DEVICES, interface_of

DISCARD = 9
DATAGRAM = bytes(1400)
ROUND_SECONDS = 0.01
MOST_PER_SECOND = 10e9


class Flood(CarriedOutByWorker):
    """The fault verb."""

    program = "net.net_flood"

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        address = text(arguments, "address")
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise VerbError("bad_argument", f"address: {address!r} is not an IP address") from None
        rate = number(arguments, "rate")
        if not 0 < rate <= MOST_PER_SECOND:
            raise VerbError(
                "bad_argument", f"rate: {rate:g} must be more than 0 and at most {MOST_PER_SECOND:g} bytes/s"
            )
        return {"address": address, "rate": rate}


def received_and_sent(table: str, interface: str) -> tuple[int, int]:
    """Received and sent bytes, from /proc/net/dev. Raises VerbError if it has no such interface."""
    for line in table.splitlines()[2:]:
        name, _, fields = line.partition(":")
        if name.strip() == interface:
            numbers = fields.split()
            return int(numbers[0]), int(numbers[8])
    raise VerbError("bad_argument", f"interface: this host has no {interface!r}")


def probe_traffic(arguments: dict[str, Any]) -> dict[str, Any]:
    """The verb: traffic of the interface that has the given address, with the time on this host's monotonic clock."""
    interface = interface_of(text(arguments, "address"))
    received, sent = received_and_sent(DEVICES.read_text(), interface)
    return {"interface": interface, "received": received, "sent": sent, "at_s": time.monotonic()}


def flood(worker: FaultWorker) -> None:
    """Send the bytes that are due, repeatedly; bytes that the network refuses count as sent."""
    rate, address = worker.arguments["rate"], worker.arguments["address"]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.setblocking(False)
        one.connect((address, DISCARD))
        began, thrown, goes_on = time.monotonic(), 0, True
        while goes_on:
            due = rate * (time.monotonic() - began)
            until = time.monotonic() + ROUND_SECONDS
            while thrown < due and time.monotonic() < until:
                with contextlib.suppress(OSError):  # its buffers are full, or the peer reports that no process listens
                    one.send(DATAGRAM)
                thrown += len(DATAGRAM)
            worker.note(thrown=thrown)
            goes_on = worker.wait(ROUND_SECONDS)


def main(argv: list[str]) -> int:
    return run_fault_worker(argv, flood)
