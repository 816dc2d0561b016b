"""`net.interface_down`: takes a network interface of this host down.

The way to the caller is usually cut with it. Then it cannot be healed from outside, so the host heals it: the fault
worker that takes the interface down brings it up again when the fault is over or has outlived its time, and the keeper
does too. The fault worker begins a moment late, so that the verb's response still gets out.

What disappears with an interface is restored with it: routes over it, which the kernel deletes, and IPv6 addresses that
were set manually. Both are in the journal before anything is changed. The fault worker records what the host observed
meanwhile, the interface's flags and the bytes that crossed it, as evidence for later.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.fault_workers import CarriedOutByWorker, FaultWorker, run_fault_worker
from squall.nemesis.agent.core.journal import Entry
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.net.network import find_program, insist, run

GRACE_SECONDS = 0.3
SAMPLE_SECONDS = 0.1
DEVICES = Path("/proc/net/dev")
SIOCGIFFLAGS = 0x8913
IFF_UP = 1
STATES = ("linkdown", "dead")


class InterfaceDown(CarriedOutByWorker):
    """The fault verb."""

    program = "net.interface_down"

    def trouble_with_host(self) -> str | None:
        """Why this host cannot do it; None if it can."""
        return None if find_program("ip") else "this host has no `ip` command; install iproute2"

    def prepare(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if trouble := self.trouble_with_host():
            raise VerbError("unsupported", trouble)
        name = str(arguments.get("interface") or interface_of(str(arguments.get("address") or "")))
        if name == "lo" or not is_there(name):
            raise VerbError("bad_argument", f"interface: {name!r} is not an interface that this host can take down")
        return {"interface": name, "routes": routes_over(name), "addresses": addresses_of(name)}

    def undo(self, entry: Entry, remaining: Sequence[Entry]) -> None:
        super().undo(entry, remaining)
        if not any(other.arguments["interface"] == entry.arguments["interface"] for other in remaining):
            bring_up(entry.arguments)

    def undo_unknown(self, id: str, remaining: Sequence[Entry]) -> None:
        """The errand brings the interface up when it ends; if it has died, bring up every interface that is down."""
        had_errand = self._workers.lives(id)
        super().undo_unknown(id, remaining)
        wanted_down = {other.arguments["interface"] for other in remaining}
        for interface in () if had_errand or not find_program("ip") else interfaces():
            if interface not in wanted_down and interface != "lo" and not is_up(interface):
                insist([_ip(), "link", "set", interface, "up"])


def interfaces() -> list[str]:
    return [line.partition(":")[0].strip() for line in DEVICES.read_text().splitlines()[2:]]


def interface_of(address: str) -> str:
    """The interface that has this address of the host."""
    for link in _asked("-json", "address", "show"):
        if any(one.get("local") == address for one in link.get("addr_info", [])):
            return str(link["ifname"])
    raise VerbError("bad_argument", f"address: no interface of this host has {address!r}")


def routes_over(interface: str) -> dict[str, list[str]]:
    """Routes that were set explicitly, by family, as `ip route` prints and accepts them."""
    return {family: list(_kept(_said(family, "route", "show", "dev", interface))) for family in ("-4", "-6")}


def _kept(lines: Iterable[str]) -> Iterable[str]:
    """Drop routes that come from addresses, and words that only describe their state."""
    for line in lines:
        if "proto kernel" not in line and line.strip():
            yield " ".join(word for word in line.split() if word not in STATES)


def addresses_of(interface: str) -> list[str]:
    """IPv6 addresses that were set manually."""
    links = _asked("-6", "-json", "address", "show", "dev", interface, "scope", "global")
    return [
        f"{one['local']}/{one['prefixlen']}"
        for link in links
        for one in link.get("addr_info", [])
        if "local" in one and not one.get("dynamic")
    ]


def bring_up(arguments: dict[str, Any]) -> None:
    """Restore the interface as it was; harmless if it is up."""
    interface = arguments["interface"]
    insist([_ip(), "link", "set", interface, "up"])
    for address in arguments["addresses"]:
        insist([_ip(), "-6", "address", "replace", address, "dev", interface])
    for family, routes in arguments["routes"].items():
        for route in routes:
            insist([_ip(), family, "route", "replace", *route.split(), "dev", interface])


def is_there(interface: str) -> bool:
    return counters(interface) is not None


def is_up(interface: str) -> bool:
    """Whether the interface is up, by the flags from the kernel."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        answer = fcntl.ioctl(one, SIOCGIFFLAGS, struct.pack("16sH14x", interface.encode()[:15], 0))
    return bool(struct.unpack_from("16xH", answer)[0] & IFF_UP)


def counters(interface: str) -> int | None:
    """The bytes that have crossed the interface, both ways; None if it does not exist."""
    for line in DEVICES.read_text().splitlines()[2:]:
        name, _, fields = line.partition(":")
        if name.strip() == interface:
            numbers = fields.split()
            return int(numbers[0]) + int(numbers[8])
    return None


def _said(*words: str) -> list[str]:
    answer = run([_ip(), *words])
    if answer.returncode != 0:
        raise VerbError("failed", f"ip {' '.join(words)}: {answer.stderr.strip()}")
    return answer.stdout.splitlines()


def _asked(*words: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads("\n".join(_said(*words)) or "[]")
    return answer


def _ip() -> str:
    program = find_program("ip")
    if program is None:
        raise VerbError("failed", "ip is not installed any more")
    return program


def take_down(worker: FaultWorker) -> None:
    """Take the interface down and sample it during the fault; then bring it up, unless another fault wants it down."""
    arguments, interface = worker.arguments, worker.arguments["interface"]
    goes_on = worker.wait(GRACE_SECONDS)
    samples = down = 0
    first = last = None
    try:
        if goes_on:
            insist([_ip(), "link", "set", interface, "down"])
        while goes_on:
            samples += 1
            down += not is_up(interface)
            last = counters(interface)
            first = last if first is None else first
            worker.note(interface=interface, samples=samples, down=down, bytes=(last or 0) - (first or 0))
            goes_on = worker.wait(SAMPLE_SECONDS)
    finally:
        if not worker.others_open(lambda other: other.arguments.get("interface") == interface):
            bring_up(arguments)


def main(argv: list[str]) -> int:
    return run_fault_worker(argv, take_down)
