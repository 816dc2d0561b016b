"""A lab without namespaces: its hosts are plain processes of an ordinary user, on the machine itself.

Each host is a separate sshd of the user, at its own address on the loopback interface (127.77.NET.N, a NET that is
free, so that labs coexist), whose sessions have a HOME and a TMPDIR in the host's own directory and begin there.
Everything Squall keeps on a host lies below HOME, and nodes listen at the host's address; so agents, keepers, nodes and
their data are as separate as on rented hosts of an ordinary user.

That is all that is separate. Hosts share the machine's network, file system, process table, name and processors. The
agents refuse faults that need any of these per host (nemesis/agent/core/reduced.py), and links between racks are
impossible. The command that brings such a lab up states this, and so does the report of a run on it.

`reduced_supervisor.py` describes what holds it and what ends it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import random
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.harness.errors import UsageError
from squall.harness.lab.lab_files import make_key, write_json
from squall.harness.lab.lab_requirements import SYSTEM_PATH
from squall.harness.scenario.inventory import HostSpec
from squall.harness.scenario.lab_topology import Racks

NETWORK = "127.77"
SSH_PORT = 2222
"""Ports below 1024 need root."""
FIRST_HOST = 11
MOST_HOSTS = 240
NETS = range(1, 255)

LACKS = (
    "hosts share this machine's network, processors, file system and clock",
    "no partitions, no faults of links, connections or messages, no stress, no commands as faults, no packet capture",
    "nothing between racks; file system and processes of all hosts are to be seen on each",
)
"""What a user of such a lab has to know."""

SSHD_CONFIG = """\
# Written by squall for a host of a reduced lab.
ListenAddress {address}
Port {port}
HostKey {directory}/ssh_host_ed25519_key
AuthorizedKeysFile {keys}
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
UseDNS no
PrintMotd no
PermitUserRC no
MaxStartups 200:30:400
MaxSessions 200
PidFile none
SetEnv HOME={directory}/home TMPDIR={directory}/tmp
ForceCommand exec /bin/sh {enter}
"""

ENTER = """\
# How every session on a host of a reduced lab begins.
cd "$HOME" || exit 1
if [ -n "$SSH_ORIGINAL_COMMAND" ]; then
    exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"
fi
exec "${SHELL:-/bin/sh}"
"""


def refuse_between_racks(racks: Racks, why: str) -> None:
    """Raise UsageError for a lab whose racks are to be separate."""
    if racks.between is not None or racks.links:
        raise UsageError(
            f"a reduced lab can have nothing between its racks, and this machine gives no other: {why}",
            remedy="leave between_racks and links out",
        )


def reduced_hosts(hosts: Sequence[HostSpec]) -> tuple[HostSpec, ...]:
    """Return the same hosts with the addresses of a reduced lab. Raises UsageError if there are too many."""
    if len(hosts) > MOST_HOSTS:
        raise UsageError(f"a reduced lab has room for {MOST_HOSTS} hosts, not for {len(hosts)}")
    net = free_net(len(hosts))
    user = pwd.getpwuid(os.geteuid()).pw_name
    return tuple(
        dataclasses.replace(host, address=f"{net}.{FIRST_HOST + number}", port=SSH_PORT, user=user, reduced=True)
        for number, host in enumerate(hosts)
    )


def free_net(count: int) -> str:
    """Return a network in which no process listens for SSH. Raises UsageError."""
    for number in random.sample(NETS, len(NETS)):
        net = f"{NETWORK}.{number}"
        if all(_is_free(f"{net}.{FIRST_HOST + host}") for host in range(count)):
            return net
    raise UsageError(
        f"port {SSH_PORT} is in use on every loopback address", remedy="end what listens there (`ss -ltnp` names it)"
    )


def _is_free(address: str) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            probe.bind((address, SSH_PORT))
            return True
    return False


def prepare_reduced(
    name: str, directory: Path, data: Path, hosts: Sequence[HostSpec], *, racks: Racks, why: str
) -> None:
    """Write everything the supervisor needs, and every host's key into known_hosts. Both directories exist."""
    (data / "authorized_keys").write_text(make_key(directory / "id_ed25519") + "\n")
    (data / "enter.sh").write_text(ENTER)
    known_hosts = "".join(f"[{host.address}]:{host.port} {_make_host(data, host)}\n" for host in hosts)
    (directory / "known_hosts").write_text(known_hosts)
    write_json(directory / "plan.json", _as_json(name, data, hosts, racks, why))


def _make_host(data: Path, host: HostSpec) -> str:
    """Make the host's own directory. Return the public half of its key."""
    directory = data / host.name
    for place in ("home", "tmp"):
        (directory / place).mkdir(mode=0o700, parents=True)
    config = SSHD_CONFIG.format(
        address=host.address,
        port=host.port,
        directory=directory,
        keys=data / "authorized_keys",
        enter=data / "enter.sh",
    )
    (directory / "sshd_config").write_text(config)
    return make_key(directory / "ssh_host_ed25519_key")


def _as_json(name: str, data: Path, hosts: Sequence[HostSpec], racks: Racks, why: str) -> dict[str, Any]:
    return {
        "name": name,
        "data": str(data),
        "reduced": why,
        "sshd": shutil.which("sshd", path=SYSTEM_PATH),
        "racks": racks.model_dump(mode="json"),
        "hosts": [
            {
                "name": host.name,
                "address": host.address,
                "port": host.port,
                "user": host.user,
                "groups": list(host.groups),
                "rack": host.rack,
                "directory": str(data / host.name),
                "python": host.python,
            }
            for host in hosts
        ],
    }
