"""`probe.samples` and `probe.metrics`: what a host and its node use and do, as counters since some beginning.

    {"name": "node"} → {"at_s", "shared", "cpus", "process": {"pid", "started", "cpu_s", "resident_bytes",
                        "read_bytes", "written_bytes"}, "machine": {"busy_s", "stolen_s", "memory_bytes",
                        "memory_total_bytes", "read_bytes", "written_bytes"},
                        "network": {"received_bytes", "sent_bytes"}}
    {"address": "10.77.0.11:9404", "names": ["kafka_server_leader_count"]} → {"text"}

The caller makes rates of two answers. Everything is read from /proc; what cannot be read there is null. Hosts of a lab
share processors, memory and disks with all others (`shared`): only the node's process and the network interfaces are
their own, and in a lab without namespaces not even these.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from squall.nemesis.agent.core.arguments import required, text
from squall.nemesis.agent.core.processes import Identity, Processes
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.process.resource_probe import cpu_seconds, resident_bytes

PROC = Path("/proc")
BLOCK_DEVICES = Path("/sys/block")
SECTOR_BYTES = 512
"""Of the kernel's counts, whatever the disk's own sectors are."""
NOT_DISKS = ("loop", "ram", "zram", "fd", "sr")
TICKS = os.sysconf("SC_CLK_TCK")
SCRAPE_SECONDS = 2.0
LARGEST_SCRAPE = 64 << 20

T = TypeVar("T")


class HostSamples:
    """The verb `probe.samples`."""

    def __init__(self, processes: Processes, *, shared: bool, own_network: bool) -> None:
        self._processes = processes
        self._shared = shared
        self._own_network = own_network

    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name = text(arguments, "name")
        self._processes.definition(name)
        return {
            "at_s": time.monotonic(),
            "shared": self._shared,
            "cpus": os.cpu_count(),
            "process": process_use(self._processes.alive(name)),
            "machine": machine_use(),
            "network": network_use((PROC / "net/dev").read_text()) if self._own_network else None,
        }


def process_use(identity: Identity | None) -> dict[str, Any] | None:
    """What a process has used; None if it does not exist, or ends meanwhile."""
    if identity is None:
        return None
    with contextlib.suppress(OSError):
        moved = _unless_unreadable(lambda: _io_bytes((PROC / f"{identity.pid}/io").read_text()))
        return {
            "pid": identity.pid,
            "started": identity.started,
            "cpu_s": cpu_seconds(identity.pid),
            "resident_bytes": resident_bytes(identity.pid),
            "read_bytes": None if moved is None else moved[0],
            "written_bytes": None if moved is None else moved[1],
        }
    return None


def machine_use() -> dict[str, Any]:
    """What the whole machine has used."""
    busy = _unless_unreadable(lambda: processor_seconds((PROC / "stat").read_text()))
    memory = _unless_unreadable(lambda: memory_bytes((PROC / "meminfo").read_text()))
    moved = _unless_unreadable(lambda: disk_bytes((PROC / "diskstats").read_text(), is_disk))
    return {
        "busy_s": None if busy is None else busy[0],
        "stolen_s": None if busy is None else busy[1],
        "memory_bytes": None if memory is None else memory[0],
        "memory_total_bytes": None if memory is None else memory[1],
        "read_bytes": None if moved is None else moved[0],
        "written_bytes": None if moved is None else moved[1],
    }


def processor_seconds(stat: str) -> tuple[float, float]:
    """Busy time of all processors, and the time that a hypervisor gave to others, of /proc/stat."""
    fields = [int(one) for one in stat.splitlines()[0].split()[1:]]
    user, nice, system, _idle, _waiting, interrupt, soft_interrupt, stolen = fields[:8]
    return (user + nice + system + interrupt + soft_interrupt) / TICKS, stolen / TICKS


def memory_bytes(meminfo: str) -> tuple[int, int]:
    """Memory in use, and all there is, of /proc/meminfo."""
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in meminfo.splitlines() if line}
    return sizes["MemTotal"] - sizes["MemAvailable"], sizes["MemTotal"]


def disk_bytes(diskstats: str, counts: Callable[[str], bool]) -> tuple[int, int]:
    """Read and written bytes of the disks that count, of /proc/diskstats."""
    rows = [line.split() for line in diskstats.splitlines() if line]
    disks = [row for row in rows if counts(row[2])]
    return sum(int(row[5]) for row in disks) * SECTOR_BYTES, sum(int(row[9]) for row in disks) * SECTOR_BYTES


def is_disk(name: str) -> bool:
    """Whether a block device is a disk: neither a partition nor made of other devices, which would count twice."""
    device = BLOCK_DEVICES / name
    return device.exists() and not name.startswith(NOT_DISKS) and not any(_listed(device / "slaves"))


def network_use(table: str) -> dict[str, int]:
    """Received and sent bytes of all interfaces but loopback, of /proc/net/dev."""
    rows = [line.partition(":") for line in table.splitlines()[2:]]
    fields = [numbers.split() for name, _, numbers in rows if name.strip() != "lo"]
    return {"received_bytes": sum(int(one[0]) for one in fields), "sent_bytes": sum(int(one[8]) for one in fields)}


def probe_metrics(arguments: dict[str, Any]) -> dict[str, Any]:
    """The verb: lines of a node's metrics page with these names. The agent reads it, so that no network fault between
    this host and the control node is in the way.
    """
    address = text(arguments, "address")
    names = [str(one) for one in required(arguments, "names", list, "a list of names of metrics")]
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise VerbError("bad_argument", f"address: {address!r} must be ADDRESS:PORT")
    link = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=SCRAPE_SECONDS)
    try:
        link.request("GET", "/metrics")
        page = link.getresponse().read(LARGEST_SCRAPE).decode(errors="replace")
    except (OSError, http.client.HTTPException) as trouble:
        raise VerbError("failed", f"no metrics at {address}: {trouble or type(trouble).__name__}") from trouble
    finally:
        link.close()
    return {"text": "".join(f"{line}\n" for line in page.splitlines() if _name_of(line) in names)}


def _name_of(line: str) -> str:
    return line.partition("{")[0].partition(" ")[0]


def _io_bytes(table: str) -> tuple[int, int]:
    facts = dict(line.split(": ") for line in table.splitlines() if line)
    return int(facts["read_bytes"]), int(facts["write_bytes"])


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _unless_unreadable(read: Callable[[], T]) -> T | None:
    """The value; None where the kernel does not show it, or shows it in another form."""
    with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
        return read()
    return None
