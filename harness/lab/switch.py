"""Make the network switch of a lab: one bridge for all hosts, or one for each rack and a router between them.

The switch is the network namespace of the lab's init. Without racks it holds one bridge, and hosts see each other's
frames. With racks each of them is a separate network (10.77.RACK.0/24) on a separate bridge. Packets from one rack to
another are routed here, and here link profiles take effect, where no host has access and no fault is injected: an
emulator (nemesis/agent/link/link_switch.py) delays, drops and meters what passes between two racks. So it neither
conflicts with the emulators that hosts run for link faults, nor does healing a host end it.

Packets of the control process begin in this namespace and are not forwarded: the control process is beside all racks,
and so are clients that it runs. Standard library only, because it is part of the supervisor.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

EMULATOR_START_SECONDS = 20.0


def ip(*commands: str) -> None:
    """Run `ip` once for all commands. Raises RuntimeError with its error output."""
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(commands) + "\n", capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"ip: {done.stderr.strip()}")


def make_switch(plan: dict[str, Any]) -> None:
    """Make the bridges, with an address on each; with several of them, a router."""
    bridges = plan["bridges"]
    commands = ["link set lo up"]
    for name, address in bridges.items():
        commands += [
            f"link add {name} type bridge",
            f"addr add {address}/{plan['prefix_length']} dev {name}",
            f"link set {name} up",
        ]
    if plan["control_address"] not in bridges.values():
        commands.append(f"addr add {plan['control_address']}/32 dev lo")
    ip(*commands)
    for table in ("iptables", "ip6tables", "arptables"):
        path = Path(f"/proc/sys/net/bridge/bridge-nf-call-{table}")
        if path.exists():  # where bridged packets pass through nftables, switch that off for a plain switch
            path.write_text("0")
    if len(bridges) > 1:
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def cables(number: int, host: dict[str, Any], init: int) -> list[str]:
    """Return the commands that plug a host into its bridge; its end of the cable is `eth0`."""
    return [
        f"link add v{number} type veth peer name eth0 netns {init}",
        f"link set v{number} master {host['bridge']}",
        f"link set v{number} up",
    ]


class RackLinks:
    """The emulator of the links between racks, if there are any; a child of the lab's init."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = -1
        if not plan["links"]:
            return
        self._ready, tell_ready = os.pipe()
        links = json.dumps(plan["links"])
        command = [
            sys.executable,
            "-u",
            plan["agent_starter"],
            "link.link_switch",
            "--links",
            links,
            "--ready",
            str(tell_ready),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(tell_ready,))
        os.close(tell_ready)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def await_ready(self) -> None:
        """Return once it works. Raises RuntimeError with its message if it fails."""
        if self.pid is None:
            return
        if not select.select([self._ready], [], [], EMULATOR_START_SECONDS)[0]:
            raise RuntimeError(f"the emulator of links between racks was not ready in {EMULATOR_START_SECONDS:g} s")
        said = os.read(self._ready, 4096).decode()
        os.close(self._ready)
        if said != "+":
            raise RuntimeError(f"links between racks cannot be had: {said or 'their emulator ended'}")
