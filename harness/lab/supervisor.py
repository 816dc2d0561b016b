"""Supervise a local lab: one process holds all its namespaces and hosts.

    supervisor                       in the machine's namespaces; waits for its owner, a signal or a death
      lab init                       pid 1 of a pid namespace; own network (the switch, switch.py) and mounts
        links between racks          their emulator, where the plan has racks
        socket giver                 of a lab without root: sockets.py
        host init, one per host      pid 1 of its own pid namespace; own network, mounts, host name, IPC
          sshd                       and all processes started through it

Every namespace is anonymous: nothing is named under /run/netns, nothing is mounted and no interface made in the
machine's own namespaces. Only processes refer to the namespaces, and each dies with the one above it: the supervisor's
death, by any signal, delivers SIGKILL to the lab's init (PR_SET_PDEATHSIG); with pid 1 of a pid namespace the kernel
kills everything inside it, stopped processes included; a namespace's mounts and interfaces end with its last process.
So there is no clean-up code that could fail to run; only the directories remain, for `lab.py`.

`host_root.py` describes a host's root. Lab hosts share the machine's kernel, so capabilities that could harm the
machine are dropped before sshd starts: the bounding set loses setting the clock, loading modules, raw I/O, rebooting
and making device nodes. Code that would act on a real machine's clock refuses where it finds `/run/squall-lab-host`.

Without root (`rootless` in the plan) the supervisor first makes a user namespace, in which it is root and every account
has the user's id: one user id is all there is, which needs no newuidmap. sshd insists on dropping groups, which such a
namespace forbids, so a system-call filter reports success for that (`kernel.py`); its own account has root's id there.

Run as `python -m squall.harness.lab.supervisor STATE READY_FD [OWNER_PID]`: it reads STATE/plan.json (written by
`lab.py`), brings everything up, writes STATE/holder.json, and then writes `ready` or the failure to READY_FD. With an
owner it ends when the owner does. Standard library only, because every host's init is a fork of it.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from squall.harness.hosts.kernel import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    KERNEL,
    MS_PRIVATE,
    MS_REC,
    Pipe,
    fork,
)
from squall.harness.hosts.network import process_started
from squall.harness.hosts.sockets import give_sockets, listener_at
from squall.harness.lab.host_root import build_root
from squall.harness.lab.switch import RackLinks, cables, ip, make_switch

# SYS_MODULE, SYS_RAWIO, SYS_PACCT, SYS_BOOT, SYS_TIME, MKNOD, SYSLOG, WAKE_ALARM, BLOCK_SUSPEND
DROPPED_CAPABILITIES = (16, 17, 20, 22, 25, 27, 34, 35, 36)
OPEN_FILES = 65536


# --- The supervisor -------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> None:
    """Bring the lab of STATE/plan.json up and hold it until its end (see the module)."""
    state, ready = Path(arguments[0]), int(arguments[1])
    owner = os.pidfd_open(int(arguments[2])) if len(arguments) > 2 else None
    try:
        plan = json.loads((state / "plan.json").read_text())
        holder = start_lab(plan)
        write_holder(state, holder)
        answer = "ready"
    except Exception as trouble:
        traceback.print_exc()
        answer = f"{type(trouble).__name__}: {trouble}"
    os.write(ready, answer.encode())
    os.close(ready)
    if answer == "ready":
        wait_for_the_end(holder, owner)


def write_holder(state: Path, holder: int) -> None:
    """Write which processes hold the lab; a pid counts only together with its start time."""
    facts = {
        "supervisor": os.getpid(),
        "supervisor_started": process_started(os.getpid()),
        "holder": holder,
        "holder_started": process_started(holder),
    }
    temporary = state / "holder.json.new"
    temporary.write_text(json.dumps(facts))
    temporary.rename(state / "holder.json")


def wait_for_the_end(holder: int, owner: int | None) -> None:
    """Wait for SIGTERM or SIGINT, the lab init's death or the owner's; then exit, which ends the lab."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    watched = [os.pidfd_open(holder), *([owner] if owner is not None else [])]
    select.select(watched, [], [])
    os._exit(0)


def start_lab(plan: dict[str, Any]) -> int:
    """Fork the lab's init into a new pid namespace. Return its pid, once every host accepts connections."""
    pipe = Pipe()
    if plan["rootless"]:
        KERNEL.become_root_of_a_user_namespace()
    KERNEL.unshare(CLONE_NEWPID)
    holder = fork(lambda: run_lab_init(plan, pipe), name="squall-lab", dies_with_parent=True)
    pipe.only_hear()
    answer = pipe.hear(60, "the lab's init")
    if answer != "ready":
        raise RuntimeError(answer)
    return holder


# --- The lab's init: switch and hosts -------------------------------------------------------------------------


def run_lab_init(plan: dict[str, Any], pipe: Pipe) -> NoReturn:
    """Make the switch, start every host, wait until all accept connections, then reap forever.

    The lab ends with the link emulator or the socket giver: without the emulator its racks would not be as configured.
    """
    os.close(pipe.reader)
    try:
        KERNEL.unshare(CLONE_NEWNET | CLONE_NEWNS)
        KERNEL.mount("none", "/", flags=MS_REC | MS_PRIVATE)
        KERNEL.mount("proc", "/proc", "proc")
        make_switch(plan)
        links = RackLinks(plan)
        giver = start_socket_giver(plan)
        start_hosts(plan)
        links.await_ready()
        pipe.say("ready")
    except Exception as trouble:
        traceback.print_exc()
        pipe.say(f"{type(trouble).__name__}: {trouble}")
        os._exit(1)
    os.close(pipe.writer)
    reap_for_ever({pid for pid in (links.pid, giver) if pid is not None})


def start_socket_giver(plan: dict[str, Any]) -> int | None:
    """Fork the process that provides sockets of this network to a user who may not enter it otherwise."""
    if not plan["rootless"]:
        return None
    listener = listener_at(Path(plan["sockets"]))
    giver = fork(partial(give_sockets, listener), name="squall-sockets", dies_with_parent=True)
    listener.close()
    return giver


def start_hosts(plan: dict[str, Any]) -> None:
    """Fork all hosts, plug them into the switch with one `ip` call, release them, await their sshd."""
    waiting: list[tuple[Pipe, Pipe]] = []
    plugging: list[str] = []
    for number, host in enumerate(plan["hosts"], start=1):
        created, plugged, up = Pipe(), Pipe(), Pipe()
        fork(partial(enter_host, plan, host, created, plugged, up), name="squall-entry", dies_with_parent=True)
        os.close(plugged.reader)
        created.only_hear()
        up.only_hear()
        init = created.hear(20, f"host {host['name']}")
        plugging += cables(number, host, int(init))
        waiting.append((plugged, up))
    try:
        ip(*plugging)
    except RuntimeError:
        # A host that has died has no network to plug into, and its network ends a moment before its pipe does.
        select.select([up.reader for _, up in waiting], [], [], 1.0)
        for host, (_, up) in zip(plan["hosts"], waiting, strict=True):
            up.check_alive(f"host {host['name']}")
        raise
    for plugged, _ in waiting:
        plugged.say("plugged in")
        os.close(plugged.writer)
    for host, (_, up) in zip(plan["hosts"], waiting, strict=True):
        # Not earlier: a connection tried before the interface is up would cost a second of ARP's retry time.
        up.hear(20, f"host {host['name']}")
        await_sshd(host["address"], host["name"])


def await_sshd(
    address: str, name: str, seconds: float = 20.0, *, port: int = 22, check: Callable[[], None] = lambda: None
) -> None:
    """Return once the host sends its greeting. Between attempts `check` may raise, if waiting has become pointless."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((address, port), timeout=2) as connection:
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            pass
        check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"sshd of {name} ({address}) did not answer within {seconds:g} s")
        time.sleep(0.005)  # nothing to await: the event is a listen() in another namespace


def reap_for_ever(vital: set[int]) -> NoReturn:
    """Reap orphans as pid 1 must, so that none stays a zombie. Exit when one of the `vital` ones ends."""
    while True:
        try:
            child, _ = os.wait()
        except ChildProcessError:
            os._exit(0)
        if child in vital:
            os._exit(1)


# --- One host -------------------------------------------------------------------------------------------------


def enter_host(plan: dict[str, Any], host: dict[str, Any], created: Pipe, plugged: Pipe, up: Pipe) -> NoReturn:
    """Make the host's namespaces, fork its init into them and exit."""
    KERNEL.unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID)
    init = fork(partial(run_host_init, plan, host, plugged, up), name="squall-host", dies_with_parent=False)
    created.say(str(init))
    os._exit(0)


def run_host_init(plan: dict[str, Any], host: dict[str, Any], plugged: Pipe, up: Pipe) -> NoReturn:
    """Run pid 1 of a lab host: build its root, bring its interface up, start sshd, reap."""
    os.setsid()
    socket.sethostname(host["name"])
    build_root(plan, host)
    plugged.only_hear()
    plugged.hear(20, "the switch")
    ip(
        "link set lo up",
        f"addr add {host['address']}/{plan['prefix_length']} dev eth0",
        "link set eth0 up",
        f"route add default via {host['gateway']}",
    )
    limit_what_programs_may_do()
    if plan["rootless"]:
        KERNEL.pretend_to_set_groups()
    sshd = start_sshd()
    up.say("up")
    os.closerange(3, OPEN_FILES)
    reap_for_ever({sshd.pid})


def start_sshd() -> subprocess.Popen[bytes]:
    """Start sshd. Keep the result as long as its end matters (see `bury`)."""
    log = os.open("/var/log/sshd.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    argv = ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def limit_what_programs_may_do() -> None:
    """Limit everything executed from now on. Raising the number of open files is no limit, but belongs here too."""
    for capability in DROPPED_CAPABILITIES:
        KERNEL.drop_capability(capability)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(sys.argv[1:])
