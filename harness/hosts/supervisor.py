"""The one process a local lab hangs on, and what a lab host is made of.

    supervisor                       in the machine's namespaces; waits for its owner, a signal or a death
      lab init                       pid 1 of a pid namespace; own network (the switch: bridge `br0`) and mounts
        host init, one per host      pid 1 of its own pid namespace; own network, mounts, host name, IPC
          sshd                       and whatever is started through it

Every namespace is anonymous: nothing is named under /run/netns, nothing is mounted and no interface made in the
machine's own namespaces. The only references are processes, and they fall like dominoes: the supervisor's death,
by whatever signal, delivers SIGKILL to the lab's init (PR_SET_PDEATHSIG); with pid 1 of a pid namespace the kernel
kills everything inside it, stopped processes included; with the last process of a namespace go its mounts and
interfaces. So there is no clean-up code whose absence could matter; only the directories remain, for `lab.py`.

A host's root is built bubblewrap-style on a tmpfs: the machine's /usr (and the interpreter's own prefix, when that
lies elsewhere) read-only; /etc, /root, /home, /srv and /var from the host's directory on disk; fresh /proc, /sys,
/dev, /run and /tmp. Where /bin, /lib … are links into /usr on the machine, they are the same links on the host.

Lab hosts share the machine's kernel, so what could hurt the machine is taken away before sshd starts: the bounding
set loses setting the clock, loading modules, raw I/O, rebooting and making device nodes; /proc/sys (but for its
own network's part) and /proc/sysrq-trigger are read-only; /sys is read-only. `/run/squall-lab-host` marks the host,
and code that would act on a real machine's clock refuses where it finds it.

Run as `python -m squall.harness.hosts.supervisor STATE READY_FD [OWNER_PID]`: it reads STATE/plan.json (written by
`lab.py`), brings everything up, writes STATE/holder.json, and then says `ready` or why not on READY_FD. With an
owner it ends when the owner does. Standard library only, because every host's init is a fork of it.
"""

from __future__ import annotations

import contextlib
import ctypes
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

from squall.harness.hosts.network import process_started

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NAME = 1, 24, 15

# SYS_MODULE, SYS_RAWIO, SYS_PACCT, SYS_BOOT, SYS_TIME, MKNOD, SYSLOG, WAKE_ALARM, BLOCK_SUSPEND
DROPPED_CAPABILITIES = (16, 17, 20, 22, 25, 27, 34, 35, 36)
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse", "net/tun", "loop-control")
LOOP_DEVICES = tuple(f"loop{number}" for number in range(8))
SHARED_READ_ONLY = ("usr", "opt", "nix", "gnu")
ROOT_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
PRIVATE_ON_DISK = ("etc", "var", "root", "home", "srv")
LAB_HOST_MARKER = "/run/squall-lab-host"
OPEN_FILES = 65536


class Kernel:
    """The few system calls Python 3.11 has no names for."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def _checked(self, what: str, answer: int) -> None:
        if answer != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")

    def unshare(self, flags: int) -> None:
        self._checked("unshare", self._libc.unshare(flags))

    def mount(self, source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
        arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
        self._checked(f"mount {source} on {target}", self._libc.mount(*arguments))

    def unmount(self, target: str) -> None:
        self._checked(f"umount {target}", self._libc.umount2(target.encode(), MNT_DETACH))

    def pivot_root(self, root: str, old: str) -> None:
        self._checked("pivot_root", self._libc.pivot_root(root.encode(), old.encode()))

    def die_with_parent(self) -> None:
        self._checked("prctl", self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))

    def drop_capability(self, capability: int) -> None:
        self._libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # one this kernel does not have is no loss

    def name_process(self, name: str) -> None:
        self._libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


KERNEL = Kernel()


def fork(body: Callable[[], NoReturn], *, name: str, dies_with_parent: bool) -> int:
    """A child that runs `body` and nothing else. Answers its pid."""
    parent = os.pidfd_open(os.getpid())
    child = os.fork()
    if child:
        os.close(parent)
        return child
    try:
        if dies_with_parent:
            KERNEL.die_with_parent()
            if select.select([parent], [], [], 0)[0]:  # it died before we asked to die with it
                os._exit(1)
        os.close(parent)
        KERNEL.name_process(name)
        body()
    except BaseException:
        traceback.print_exc()
    os._exit(1)


class Pipe:
    """One line of text from a child to its parent, or an end of file if the child died first."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def say(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # who is gone cannot listen; what it says itself ends, and tells
            os.write(self.writer, text.encode() + b"\n")

    def only_hear(self) -> None:
        """Let go of the speaking end, so that only the child's death can end the pipe; children forked later do not
        get it either."""
        os.close(self.writer)

    def check_alive(self, what: str) -> None:
        """Raise RuntimeError if the child is gone, having said nothing."""
        if select.select([self.reader], [], [], 0)[0]:
            self.hear(0, what)

    def hear(self, seconds: float, what: str) -> str:
        if not select.select([self.reader], [], [], seconds)[0]:
            raise TimeoutError(f"{what} said nothing for {seconds:g} s")
        text = os.read(self.reader, 4096).decode().strip()
        os.close(self.reader)
        if not text:
            raise RuntimeError(f"{what} ended before it was ready")
        return text


# --- The supervisor -------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> None:
    """Bring the lab of STATE/plan.json up and hold it until told to end."""
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
    """Tell which processes hold the lab; a pid counts only together with its start time."""
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
    """Until SIGTERM or SIGINT, the lab init's death or the owner's; dying is all there is to do then."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    watched = [os.pidfd_open(holder), *([owner] if owner is not None else [])]
    select.select(watched, [], [])
    os._exit(0)


def start_lab(plan: dict[str, Any]) -> int:
    """Fork the lab's init into a pid namespace of its own; its pid, once every host accepts connections."""
    pipe = Pipe()
    KERNEL.unshare(CLONE_NEWPID)
    holder = fork(lambda: run_lab_init(plan, pipe), name="squall-lab", dies_with_parent=True)
    pipe.only_hear()
    answer = pipe.hear(60, "the lab's init")
    if answer != "ready":
        raise RuntimeError(answer)
    return holder


# --- The lab's init: switch and hosts -------------------------------------------------------------------------


def run_lab_init(plan: dict[str, Any], pipe: Pipe) -> NoReturn:
    """Make the switch, start every host, wait until all answer, then reap for ever."""
    os.close(pipe.reader)
    try:
        KERNEL.unshare(CLONE_NEWNET | CLONE_NEWNS)
        KERNEL.mount("none", "/", flags=MS_REC | MS_PRIVATE)
        KERNEL.mount("proc", "/proc", "proc")
        make_switch(plan)
        start_hosts(plan)
        pipe.say("ready")
    except Exception as trouble:
        traceback.print_exc()
        pipe.say(f"{type(trouble).__name__}: {trouble}")
        os._exit(1)
    os.close(pipe.writer)
    reap_for_ever()


def make_switch(plan: dict[str, Any]) -> None:
    ip(
        "link set lo up",
        "link add br0 type bridge",
        f"addr add {plan['switch_address']}/{plan['prefix_length']} dev br0",
        "link set br0 up",
    )
    for table in ("iptables", "ip6tables", "arptables"):
        path = Path(f"/proc/sys/net/bridge/bridge-nf-call-{table}")
        if path.exists():  # where bridged packets pass through nftables, they must not on a mere switch
            path.write_text("0")


def ip(*commands: str) -> None:
    """Run `ip` once for all commands. Raises RuntimeError with what it complained of."""
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(commands) + "\n", capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"ip: {done.stderr.strip()}")


def start_hosts(plan: dict[str, Any]) -> None:
    """Fork all hosts, plug them into the switch with one `ip` call, let them go on, await their sshd."""
    waiting: list[tuple[Pipe, Pipe]] = []
    cables: list[str] = []
    for number, host in enumerate(plan["hosts"], start=1):
        created, plugged, up = Pipe(), Pipe(), Pipe()
        fork(partial(enter_host, plan, host, created, plugged, up), name="squall-entry", dies_with_parent=True)
        os.close(plugged.reader)
        created.only_hear()
        up.only_hear()
        init = created.hear(20, f"host {host['name']}")
        cables += [
            f"link add v{number} type veth peer name eth0 netns {init}",
            f"link set v{number} master br0",
            f"link set v{number} up",
        ]
        waiting.append((plugged, up))
    try:
        ip(*cables)
    except RuntimeError:
        # A host that is gone has no network to plug into, and its network goes a moment before its pipe ends.
        select.select([up.reader for _, up in waiting], [], [], 1.0)
        for host, (_, up) in zip(plan["hosts"], waiting, strict=True):
            up.check_alive(f"host {host['name']}")
        raise
    for plugged, _ in waiting:
        plugged.say("plugged in")
        os.close(plugged.writer)
    for host, (_, up) in zip(plan["hosts"], waiting, strict=True):
        # Only now: a connection tried before the interface is up would cost a second of ARP's patience.
        up.hear(20, f"host {host['name']}")
        await_sshd(host["address"], host["name"])


def await_sshd(address: str, name: str, seconds: float = 20.0) -> None:
    """Return once the host greets on port 22."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((address, 22), timeout=2) as connection:
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"sshd of {name} ({address}) did not answer within {seconds:g} s")
        time.sleep(0.005)  # nothing to await: what is missing is a listen() in another namespace


def reap_for_ever(vital: int | None = None) -> NoReturn:
    """What pid 1 is for: orphans become its children and must not stay zombies. Ends with the child `vital`."""
    while True:
        try:
            child, _ = os.wait()
        except ChildProcessError:
            os._exit(0)
        if child == vital:
            os._exit(1)


# --- One host -------------------------------------------------------------------------------------------------


def enter_host(plan: dict[str, Any], host: dict[str, Any], created: Pipe, plugged: Pipe, up: Pipe) -> NoReturn:
    """Make the host's namespaces, fork its init into them and be gone."""
    KERNEL.unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID)
    init = fork(partial(run_host_init, plan, host, plugged, up), name="squall-host", dies_with_parent=False)
    created.say(str(init))
    os._exit(0)


def run_host_init(plan: dict[str, Any], host: dict[str, Any], plugged: Pipe, up: Pipe) -> NoReturn:
    """Pid 1 of a lab host: build its root, bring its interface up, start sshd, reap."""
    os.setsid()
    socket.sethostname(host["name"])
    build_root(plan, host)
    plugged.only_hear()
    plugged.hear(20, "the switch")
    ip(
        "link set lo up",
        f"addr add {host['address']}/{plan['prefix_length']} dev eth0",
        "link set eth0 up",
        f"route add default via {plan['switch_address']}",
    )
    limit_what_programs_may_do()
    sshd = start_sshd()
    up.say("up")
    os.closerange(3, OPEN_FILES)
    reap_for_ever(vital=sshd)


def start_sshd() -> int:
    log = os.open("/var/log/sshd.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    argv = ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log).pid


def limit_what_programs_may_do() -> None:
    """For everything executed from now on. Raising the number of open files is no limit, but belongs here too."""
    for capability in DROPPED_CAPABILITIES:
        KERNEL.drop_capability(capability)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def build_root(plan: dict[str, Any], host: dict[str, Any]) -> None:
    """Assemble the host's file tree on a tmpfs and make it this namespace's root."""
    root = Path(plan["mount_point"])
    KERNEL.mount("none", "/", flags=MS_REC | MS_PRIVATE)
    KERNEL.mount("tmpfs", str(root), "tmpfs", MS_NOSUID, "mode=755,size=64m")
    bind_system(root)
    for name in PRIVATE_ON_DISK:
        bind(f"{host['directory']}/{name}", root / name)
    for directory in plan["read_only"]:
        bind(directory, root / directory.lstrip("/"), read_only=True)
    mount_new(root / "run", "tmpfs", "mode=755,size=64m")
    mount_new(root / "tmp", "tmpfs", "mode=1777,size=512m")
    (root / "run/sshd").mkdir(mode=0o755)
    (root / LAB_HOST_MARKER.lstrip("/")).write_text(host["name"] + "\n")
    make_devices(root / "dev")
    mount_kernel_views(root)
    os.chdir(root)
    KERNEL.pivot_root(".", ".")  # the old root is now stacked over the new one …
    KERNEL.unmount(".")  # … and this takes it off
    os.chdir("/")


def bind_system(root: Path) -> None:
    """The machine's programs: read-only trees, and the links of a merged /usr as they are."""
    for name in SHARED_READ_ONLY:
        if Path("/", name).is_dir():
            bind(f"/{name}", root / name, read_only=True)
    for name in ROOT_LINKS:
        there = Path("/", name)
        if there.is_symlink():
            (root / name).symlink_to(there.readlink())
        elif there.is_dir():
            bind(f"/{name}", root / name, read_only=True)


def bind(source: str, target: Path, *, read_only: bool = False) -> None:
    target.mkdir(parents=True, exist_ok=True)
    KERNEL.mount(source, str(target), flags=MS_BIND | MS_REC)
    if read_only:
        KERNEL.mount("none", str(target), flags=MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NODEV)


def mount_new(target: Path, kind: str, options: str = "", flags: int = MS_NOSUID | MS_NODEV) -> None:
    target.mkdir(parents=True, exist_ok=True)
    KERNEL.mount(kind, str(target), kind, flags, options)


def make_devices(dev: Path) -> None:
    """A /dev with the harmless devices and the loop devices, and without the machine's disks."""
    mount_new(dev, "tmpfs", "mode=755,size=1m", MS_NOSUID)
    for name in (*DEVICES, *LOOP_DEVICES):
        if Path("/dev", name).exists():
            (dev / name).parent.mkdir(exist_ok=True)
            (dev / name).touch()
            KERNEL.mount(f"/dev/{name}", str(dev / name), flags=MS_BIND)
    mount_new(dev / "pts", "devpts", "newinstance,ptmxmode=0666,mode=620,gid=5", MS_NOSUID)
    mount_new(dev / "shm", "tmpfs", "mode=1777,size=256m")
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0"}
    links |= {"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
    for name, target in links.items():
        (dev / name).symlink_to(target)


def mount_kernel_views(root: Path) -> None:
    """/proc and /sys of this host's namespaces, with what steers the whole machine made read-only."""
    mount_new(root / "proc", "proc")
    for name in ("sys", "sysrq-trigger"):
        path = root / "proc" / name
        if path.exists():
            KERNEL.mount(str(path), str(path), flags=MS_BIND)
            KERNEL.mount("none", str(path), flags=MS_REMOUNT | MS_BIND | MS_RDONLY)
    network = str(root / "proc/sys/net")
    KERNEL.mount(network, network, flags=MS_BIND)
    KERNEL.mount("none", network, flags=MS_REMOUNT | MS_BIND)
    mount_new(root / "sys", "sysfs", flags=MS_RDONLY | MS_NOSUID | MS_NODEV)


if __name__ == "__main__":
    main(sys.argv[1:])
